-- name: jobs
SELECT DISTINCT job FROM instances ORDER BY job

-- name: instances
SELECT id, name FROM instances WHERE brief(job) = brief(:job) ORDER BY id

-- name: newest_run
SELECT params, versions FROM runs WHERE instance = :instance ORDER BY id DESC LIMIT 1

-- name: runs
SELECT id, started, ended, exit_code, host, reason, told, boot, lease_until, head, pid, drain, done, rate, concurrency, noted
FROM runs WHERE instance = :instance ORDER BY id

-- name: back_off
SELECT count(*), min(not_before) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND coalesce(hold, '') = ''
  AND not_before > 0 AND not_before > :now

-- name: standings
SELECT gate, whole, reason, until, run FROM gates WHERE instance = :instance ORDER BY gate, run DESC

-- name: record_gate
SELECT instance, gate FROM records WHERE id = :record

-- name: count_by_gate
SELECT gate, count(*) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND coalesce(hold, '') = ''
GROUP BY gate

-- name: held_by_the_dead
SELECT count(*) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND vanished = 0
  AND run <> ALL (ids(:alive))

-- name: in_flight
SELECT key, step, since, run, id, generation FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND vanished = 0 AND started = 1
  AND run = ANY (ids(:alive))
ORDER BY since, position, id LIMIT :limit

-- name: steps_done
SELECT step, at FROM checkpoints WHERE record = :record AND generation = :generation

-- What an unconfirmed record owes is open whether or not the source still has the record.
-- name: failed_records
SELECT record FROM set_aside
WHERE instance = :instance AND state = ANY (texts(:states))
  AND vanished IN (0, 1) AND (vanished = 0 OR state = 'unconfirmed') AND (:kind IS NULL OR kind = :kind)
ORDER BY position, record

-- name: failed_page
SELECT s.key, s.state, s.step, s.kind, s.error_type, s.message, s.attempts, s.deaths, s.failed_runs, s.at, s.vanished,
    s.received, s.hold, s.not_before, s.waits_for, s.since
FROM unnest(ids(:rows)) WITH ORDINALITY AS f(id, place) JOIN set_aside s ON s.record = f.id
WHERE s.state = ANY (texts(:states))
ORDER BY f.place

-- name: causes
SELECT step, kind, error_type, count(*) FILTER (WHERE state = 'failed'), count(*) FILTER (WHERE state = 'quarantined'),
    count(*) FILTER (WHERE state = 'unconfirmed'), (array_agg(key ORDER BY position, record))[1],
    (array_agg(message ORDER BY position, record))[1], (array_agg(waits_for ORDER BY position, record))[1], min(position)
FROM set_aside
WHERE instance = :instance AND state = ANY (texts(:states))
  AND vanished IN (0, 1) AND (vanished = 0 OR state = 'unconfirmed') AND (:kind IS NULL OR kind = :kind)
GROUP BY step, kind, error_type
ORDER BY min(position)

-- name: find
SELECT f.key, r.id FROM json_array_elements_text(:keys) AS f(key)
JOIN records r ON r.instance = :instance AND brief(r.key) = brief(f.key)

-- name: record
SELECT key, state, vanished, hold, not_before, generation, input_changed, step, started, attempts,
       deaths + solo_deaths, failed_runs, run, succeeded_generation, lineage
FROM records WHERE id = :record

-- name: record_inputs
SELECT generation, hash, value FROM inputs WHERE record = :record ORDER BY generation

-- name: record_checkpoints
SELECT generation, step, version, output, at, run FROM checkpoints WHERE record = :record ORDER BY generation, at

-- name: record_generations
SELECT generation, lineage FROM generations WHERE record = :record

-- name: record_failure
SELECT step, version, kind, error_type, message, attempts, at, run, received FROM failures WHERE record = :record

-- name: record_usage
SELECT generation, step, version, model, requests, tokens_in, tokens_out, cached_tokens, picodollars, unpriced, uncounted,
    lost, repairs, seconds
FROM usage WHERE record = :record ORDER BY generation, step, model

-- name: record_entries
SELECT name, key, state, generation, payload, payload_hash, receipt, first_at, intended_at, sent_at, ask_at, asks, run
FROM effects WHERE record = :record ORDER BY first_at, name, key

-- name: waits_for
SELECT waits_for, since FROM set_aside WHERE record = :record

-- name: holder
SELECT o.key, i.job, i.name, e.name, e.key
FROM awaits a JOIN effects e ON brief(e.name) = brief(a.name) AND brief(e.key) = brief(a.key)
JOIN records o ON o.id = e.record JOIN instances i ON i.id = o.instance
WHERE a.record = :record ORDER BY e.name, e.key LIMIT 1

-- name: unconfirmed_due
SELECT count(*), min(not_before) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished = 0 AND coalesce(hold, '') = ''

-- name: unconfirmed_vanished
SELECT count(*), min(CASE WHEN hold IS NULL AND not_before > 0 THEN not_before END),
    min(CASE WHEN hold = 'person' THEN since END)
FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished = 1

-- name: unconfirmed_held
SELECT waits_for, count(*), min(since) FROM set_aside
WHERE instance = :instance AND state = 'unconfirmed' AND vanished = 0 AND hold = 'person'
GROUP BY waits_for ORDER BY min(position)

-- name: became
SELECT r.key, r.state, r.step, r.hold, r.not_before,
    (SELECT reason FROM history h WHERE r.state = 'unconfirmed' AND h.record = r.id AND h.event = 'effect_unconfirmed'
     ORDER BY h.id DESC LIMIT 1), r.since
FROM unnest(ids(:rows)) WITH ORDINALITY AS f(id, place) JOIN records r ON r.id = f.id
ORDER BY f.place

-- name: record_history
SELECT at, event, step, reason, actor, run, detail FROM history WHERE record = :record ORDER BY id

-- name: last_entry
SELECT coalesce(max(id), 0) FROM history

-- name: chain_heads
SELECT instance, id, entries, head, exit_code IS NOT NULL, ended IS NOT NULL, host, versions, exit_code, reason FROM runs
WHERE :instances IS NULL OR instance = ANY (ids(:instances))
UNION ALL
SELECT id, NULL, entries, head, false, false, NULL, NULL, NULL, NULL FROM instances
WHERE :instances IS NULL OR id = ANY (ids(:instances))

-- The first number of a run that has no row, though the store has given it or something names a run; how many
-- entries the chains are said to have, and how many there are.
-- name: removed
SELECT (SELECT n FROM (SELECT 1 AS n UNION ALL SELECT id + 1 FROM runs) places
        WHERE n NOT IN (SELECT id FROM runs) AND (
            n <= coalesce((SELECT numbers.n FROM numbers WHERE what = 'run'), 0)
            OR n = 1 AND (EXISTS (SELECT 1 FROM checkpoints WHERE run IS NOT NULL) OR EXISTS (SELECT 1 FROM effects)))
        ORDER BY n LIMIT 1),
    ((SELECT coalesce(sum(entries), 0) FROM runs) + (SELECT coalesce(sum(entries), 0) FROM instances))::bigint,
    (SELECT count(*) FROM history)

-- Pages of the history, which somebody may have edited, within what types allow.
-- name: chain_page
SELECT h.id, h.hash, true, h.instance, h.run, h.seq, h.record, h.at, r.key, h.actor, h.event, h.step, h.reason, h.detail,
    h.as_instance, h.as_record, h.as_run
FROM history h LEFT JOIN records r ON r.id = h.record
WHERE h.id > :after AND h.id <= :last AND (:instances IS NULL OR h.instance = ANY (ids(:instances))
    OR h.instance NOT IN (SELECT id FROM instances))
ORDER BY h.id LIMIT :limit

-- name: log_page
SELECT h.id, h.run, h.seq, h.at, h.event, r.key, h.step, h.reason, h.actor, h.detail, h.hash
FROM history h LEFT JOIN records r ON r.id = h.record
WHERE h.id > :after AND h.id <= :last AND h.instance = :instance AND (:since IS NULL OR h.at >= :since)
ORDER BY h.id LIMIT :limit

-- name: payloads
SELECT e.name, e.key, e.payload_hash, e.payload
FROM listed(:rows) AS f(name text, key text, hash text)
JOIN effects e ON brief(e.name) = brief(f.name) AND brief(e.key) = brief(f.key)
WHERE e.payload_hash = f.hash

-- name: lineages
SELECT id, versions, skipped FROM lineages WHERE instance = :instance

-- name: lineage
SELECT versions, skipped FROM lineages WHERE id = :lineage

-- Rows of exports: record, generation, lineage or its lack, else how many checkpoints there were, place of the state.
-- name: export_last
SELECT id, succeeded_generation, lineage, NULL, :place::bigint FROM records
WHERE instance = :instance AND vanished = 0 AND succeeded_generation IS NOT NULL
ORDER BY position, id

-- name: export_all_generations
SELECT id, generation, lineage, NULL, :place::bigint FROM (
    SELECT r.id, g.generation, g.lineage, r.position
    FROM records r JOIN generations g ON g.record = r.id
    WHERE r.instance = :instance AND r.vanished = 0
    UNION ALL
    SELECT id, succeeded_generation, lineage, position FROM records
    WHERE instance = :instance AND vanished = 0 AND state = 'succeeded') made
ORDER BY position, id, generation

-- name: export_state
SELECT id, generation, NULL,
    (SELECT count(*) FROM checkpoints c WHERE c.record = r.id AND c.generation = r.generation), :place::bigint
FROM records r
WHERE state <> 'succeeded' AND instance = :instance AND state = :state AND vanished = 0
ORDER BY position, id

-- name: export_whole
SELECT id, generation, CASE state WHEN 'succeeded' THEN lineage END,
    (SELECT count(*) FROM checkpoints c WHERE c.record = r.id AND c.generation = r.generation),
    array_position(texts(:states), state) - 1
FROM records r
WHERE instance = :instance AND vanished = :vanished
ORDER BY position, id

-- name: export_records
SELECT r.key, (SELECT value FROM inputs i WHERE i.record = r.id AND i.generation <= f.generation
               ORDER BY i.generation DESC LIMIT 1)
FROM listed(:rows) AS f(id bigint, generation bigint) JOIN records r ON r.id = f.id
ORDER BY f.place

-- name: export_outputs
SELECT f.place, c.at, c.step, c.version, c.output
FROM listed(:rows) AS f(id bigint, generation bigint) JOIN checkpoints c ON c.record = f.id AND c.generation = f.generation
ORDER BY f.place, c.step

-- name: batches_waited_for
SELECT c.batch, b.model, c.status, c.done, c.total, c.at, count(DISTINCT w.record)
FROM batch_waits w JOIN batched b ON b.instance = w.instance AND b.fingerprint = w.fingerprint
JOIN records r ON r.id = w.record LEFT JOIN chunks c ON c.id = b.chunk
WHERE w.instance = :instance AND b.answer IS NULL AND r.generation = w.generation AND r.state = 'pending'
  AND r.hold = 'batch' AND r.vanished = 0
GROUP BY c.id, b.model ORDER BY c.at NULLS FIRST
