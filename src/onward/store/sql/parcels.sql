-- What is taken out of a store when an instance is moved to another one, table by table, in the order of its keys. Both
-- dialects have these blocks; those that differ are in their own `moving.sql`. Columns stand as in `parcels.py`.

-- name: out_range
SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM records WHERE instance = :instance

-- name: out_instance
SELECT job, name, location, cursor, fed_position, partly_fed, source_complete, pass, created, entries, head, concurrency
FROM instances WHERE id = :instance

-- name: out_runs
SELECT id, host, params, versions, started, ended, exit_code, reason, told, effects, pace, entries, head, instance, '', 0
FROM runs WHERE instance = :instance ORDER BY id

-- name: out_lineages
SELECT id, versions, skipped FROM lineages WHERE instance = :instance ORDER BY id

-- name: out_records
SELECT id, instance, key, position, pass, state, vanished, hold, rank, gate, not_before, run, fence, generation, step,
    started, attempts, deaths, solo_deaths, failed_runs, input_changed, succeeded_generation, lineage, since
FROM records WHERE id BETWEEN :lowest AND :highest AND +instance = :instance ORDER BY id

-- name: out_inputs
SELECT t.record, t.generation, t.hash, t.value, t.source_hash
FROM inputs t JOIN records r ON r.id = t.record AND +r.instance = :instance
WHERE t.record BETWEEN :lowest AND :highest ORDER BY t.record, t.generation

-- name: out_checkpoints
SELECT t.record, t.generation, t.step, t.version, t.output, t.run, t.at
FROM checkpoints t JOIN records r ON r.id = t.record AND +r.instance = :instance
WHERE t.record BETWEEN :lowest AND :highest ORDER BY t.record, t.generation, t.step

-- name: out_generations
SELECT t.record, t.generation, t.lineage
FROM generations t JOIN records r ON r.id = t.record AND +r.instance = :instance
WHERE t.record BETWEEN :lowest AND :highest ORDER BY t.record, t.generation

-- name: out_failures
SELECT t.record, t.step, t.version, t.kind, t.error_type, t.message, t.attempts, t.run, t.at, t.received
FROM failures t JOIN records r ON r.id = t.record AND +r.instance = :instance
WHERE t.record BETWEEN :lowest AND :highest ORDER BY t.record

-- name: out_usage
SELECT t.record, t.generation, t.step, t.model, t.version, t.requests, t.tokens_in, t.tokens_out, t.cached_tokens,
    t.picodollars, t.unpriced, t.uncounted, t.lost, t.repairs, t.seconds
FROM usage t JOIN records r ON r.id = t.record AND +r.instance = :instance
WHERE t.record BETWEEN :lowest AND :highest ORDER BY t.record, t.generation, t.step, t.model

-- name: out_owed
SELECT t.record, t.name, t.key, t.generation
FROM owed t JOIN records r ON r.id = t.record AND +r.instance = :instance
WHERE t.record BETWEEN :lowest AND :highest ORDER BY t.record

-- name: out_awaits
SELECT t.name, t.key, t.record
FROM awaits t JOIN records r ON r.id = t.record AND +r.instance = :instance
WHERE t.record BETWEEN :lowest AND :highest ORDER BY t.record

-- name: out_versions
SELECT instance, step, version, parts FROM versions WHERE instance = :instance

-- name: out_costs
SELECT instance, step, version, n, unknown, first, second, third, earlier, earlier_second, crossed
FROM costs WHERE instance = :instance

-- name: out_pauses
SELECT instance, name, at, actor, reason FROM pauses WHERE instance = :instance

-- name: out_answers
SELECT instance, fingerprint, text FROM answers WHERE instance = :instance

-- name: out_batched
SELECT instance, fingerprint, model, place, path, body, size, picodollars, tokens, repairs, tries, chunk, answer, fault,
    spent
FROM batched WHERE instance = :instance ORDER BY id

-- name: out_batch_waits
SELECT instance, record, fingerprint, generation, version, strays FROM batch_waits WHERE instance = :instance

-- name: out_chunks
SELECT id, instance, run, model, place, path, requests, picodollars, tokens, at, file, batch, status, done, total, ended
FROM chunks WHERE instance = :instance

-- As they were hashed, in the order in which they were written.
-- name: out_history
SELECT instance, record, run, seq, hash, at, actor, event, step, reason, detail,
    CASE WHEN as_instance IS NULL THEN instance ELSE as_instance END,
    CASE WHEN as_instance IS NULL THEN record ELSE as_record END,
    CASE WHEN as_instance IS NULL THEN run ELSE as_run END
FROM history WHERE instance = :instance ORDER BY id

-- What may have changed since a reading: when runs of an instance began, and what people have decided.
-- name: stamp_of_instance
SELECT coalesce(max(r.id), 0), count(r.id), coalesce(sum(r.entries), 0), i.entries, i.head, i.closed
FROM instances i LEFT JOIN runs r ON r.instance = i.id WHERE i.id = :instance GROUP BY i.id, i.entries, i.head, i.closed

-- What runs of a store have declared, each once.
-- name: declared_in_store
SELECT DISTINCT r.instance, r.effects, i.job, i.name, i.closed FROM runs r JOIN instances i ON i.id = r.instance
WHERE r.effects <> '{}' ORDER BY r.instance

-- name: moves
SELECT id, name, closed, moved FROM instances WHERE job = :job ORDER BY id

-- name: moved_away
SELECT id FROM instances WHERE closed = 2

-- name: move_of
SELECT closed, moved, job, name FROM instances WHERE id = :instance

-- name: note_move
UPDATE instances SET closed = :closed, moved = :moved WHERE id = :instance

-- name: open_runs_of_store
SELECT r.id, r.boot, r.lease_until, r.effects, r.instance, i.job FROM runs r JOIN instances i ON i.id = r.instance
WHERE r.ended IS NULL ORDER BY r.id

-- Runs that have ended, or died, while calls of theirs may go on.
-- name: runs_that_may_send
SELECT DISTINCT e.run FROM records r JOIN effects e ON e.record = r.id AND e.state = 'intended'
WHERE r.state <> 'succeeded' AND r.instance = :instance

-- name: names_of_instance
SELECT DISTINCT e.name FROM records r JOIN effects e ON e.record = r.id
WHERE r.id BETWEEN :lowest AND :highest AND r.instance = :instance

-- Open obligations under a name, and who waits for them; whose they are tells whether they can be moved.
-- name: open_under_ledger_name
SELECT e.name, e.key, e.state, o.instance, w.instance FROM effects e
LEFT JOIN records o ON o.id = e.record
LEFT JOIN awaits a ON a.name = e.name AND a.key = e.key
LEFT JOIN records w ON w.id = a.record
WHERE e.name = :name AND e.state IN ('intended', 'unknown', 'sent')

-- name: fill_instance
UPDATE instances SET cursor = :cursor, fed_position = :fed_position, partly_fed = :partly_fed,
    source_complete = :source_complete, pass = :pass_number, created = :created, entries = :entries, head = :head,
    concurrency = :concurrency
WHERE id = :instance

-- An unfinished copy goes, but for the numbers of its runs, which come again.
-- name: drop_all_inputs
DELETE FROM inputs WHERE record IN (SELECT id FROM records WHERE instance = :instance)

-- name: drop_all_checkpoints
DELETE FROM checkpoints WHERE record IN (SELECT id FROM records WHERE instance = :instance)

-- name: drop_all_generations
DELETE FROM generations WHERE record IN (SELECT id FROM records WHERE instance = :instance)

-- name: drop_all_failures
DELETE FROM failures WHERE record IN (SELECT id FROM records WHERE instance = :instance)

-- name: drop_all_usage
DELETE FROM usage WHERE record IN (SELECT id FROM records WHERE instance = :instance)

-- name: drop_all_owed
DELETE FROM owed WHERE record IN (SELECT id FROM records WHERE instance = :instance)

-- name: drop_all_awaits
DELETE FROM awaits WHERE record IN (SELECT id FROM records WHERE instance = :instance)

-- name: drop_all_effects
DELETE FROM effects WHERE record IN (SELECT id FROM records WHERE instance = :instance)

-- name: drop_all_records
DELETE FROM records WHERE instance = :instance

-- name: drop_all_lineages
DELETE FROM lineages WHERE instance = :instance

-- name: drop_all_versions
DELETE FROM versions WHERE instance = :instance

-- name: drop_all_costs
DELETE FROM costs WHERE instance = :instance

-- name: drop_all_pauses
DELETE FROM pauses WHERE instance = :instance

-- name: drop_all_answers
DELETE FROM answers WHERE instance = :instance

-- name: drop_all_batched
DELETE FROM batched WHERE instance = :instance

-- name: drop_all_batch_waits
DELETE FROM batch_waits WHERE instance = :instance

-- name: drop_all_chunks
DELETE FROM chunks WHERE instance = :instance

-- name: drop_all_history
DELETE FROM history WHERE instance = :instance

-- name: drop_all_counts
DELETE FROM counts WHERE instance = :instance

-- name: drop_all_runs
DELETE FROM runs WHERE instance = :instance
