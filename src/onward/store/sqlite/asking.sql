-- name: jobs
SELECT DISTINCT job FROM instances ORDER BY job

-- name: instances
SELECT id, name FROM instances WHERE job = :job ORDER BY id

-- name: newest_run
SELECT params, versions FROM runs WHERE instance = :instance ORDER BY id DESC LIMIT 1

-- name: runs
SELECT id, started, ended, exit_code, host, reason, told, boot, lease_until, head, pid, drain, done, rate, concurrency, noted
FROM runs WHERE instance = :instance ORDER BY id

-- name: back_off
WITH RECURSIVE found(gate) AS (
    SELECT min(gate) FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL AND gate > ''
    UNION ALL
    SELECT (SELECT min(gate) FROM records
            WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
              AND gate > found.gate)
    FROM found WHERE found.gate IS NOT NULL),
every(gate) AS (SELECT gate FROM found WHERE gate IS NOT NULL UNION ALL SELECT NULL)
SELECT count(*), min(r.not_before) FROM every CROSS JOIN records r
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state = 'pending' AND r.vanished = 0 AND r.hold IS NULL
  AND r.gate IS every.gate AND r.not_before > :now

-- name: standings
SELECT gate, whole, reason, until, run FROM gates WHERE instance = :instance ORDER BY gate, run DESC

-- name: record_gate
SELECT instance, gate FROM records WHERE id = :record

-- name: count_by_gate
SELECT gate, count(*) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
GROUP BY gate

-- name: held_by_the_dead
SELECT count(*) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND vanished = 0
  AND run NOT IN (SELECT value FROM json_each(:alive))

-- name: in_flight
SELECT key, step, since, run, id, generation FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND vanished = 0 AND started = 1
  AND run IN (SELECT value FROM json_each(:alive))
ORDER BY since LIMIT :limit

-- name: steps_done
SELECT step, at FROM checkpoints WHERE record = :record AND generation = :generation

-- What an unconfirmed record owes is open whether or not the source still has the record.
-- name: failed_records
SELECT record FROM set_aside
WHERE instance = :instance AND state IN (SELECT value FROM json_each(:states))
  AND vanished IN (0, 1) AND (vanished = 0 OR state = 'unconfirmed') AND (:kind IS NULL OR kind = :kind)
ORDER BY position, record

-- name: failed_page
SELECT s.key, s.state, s.step, s.kind, s.error_type, s.message, s.attempts, s.deaths, s.failed_runs, s.at, s.vanished,
    s.received, s.hold, s.not_before, s.waits_for, s.since
FROM json_each(:rows) j CROSS JOIN set_aside s ON s.record = j.value
WHERE s.state IN (SELECT value FROM json_each(:states))

-- name: causes
SELECT step, kind, error_type, sum(state = 'failed'), sum(state = 'quarantined'), sum(state = 'unconfirmed'),
       key, message, waits_for, min(position)
FROM set_aside
WHERE instance = :instance AND state IN (SELECT value FROM json_each(:states))
  AND vanished IN (0, 1) AND (vanished = 0 OR state = 'unconfirmed') AND (:kind IS NULL OR kind = :kind)
GROUP BY step, kind, error_type

-- name: find
SELECT j.value, r.id FROM json_each(:keys) j CROSS JOIN records r ON r.instance = :instance AND r.key = j.value

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
FROM usage WHERE record = :record ORDER BY generation

-- name: record_entries
SELECT name, key, state, generation, payload, payload_hash, receipt, first_at, intended_at, sent_at, ask_at, asks, run
FROM effects WHERE record = :record ORDER BY first_at, name, key

-- name: waits_for
SELECT waits_for, since FROM set_aside WHERE record = :record

-- name: holder
SELECT o.key, i.job, i.name, e.name, e.key
FROM awaits a JOIN effects e ON e.name = a.name AND e.key = a.key
JOIN records o ON o.id = e.record JOIN instances i ON i.id = o.instance
WHERE a.record = :record ORDER BY e.name, e.key LIMIT 1

-- name: unconfirmed_due
SELECT count(*), min(not_before) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished = 0 AND hold IS NULL

-- name: unconfirmed_vanished
SELECT count(*), min(CASE WHEN hold IS NULL AND not_before > 0 THEN not_before END),
    min(CASE WHEN hold = 'person' THEN since END)
FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished = 1

-- name: unconfirmed_held
SELECT waits_for, count(*), min(since) FROM set_aside
WHERE instance = :instance AND state = 'unconfirmed' AND vanished = 0 AND hold = 'person'
GROUP BY waits_for

-- name: became
SELECT r.key, r.state, r.step, r.hold, r.not_before,
    (SELECT reason FROM history h WHERE r.state = 'unconfirmed' AND h.record = r.id AND h.event = 'effect_unconfirmed'
     ORDER BY h.id DESC LIMIT 1), r.since
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value

-- name: record_history
SELECT at, event, step, reason, actor, run, detail FROM history WHERE record = :record ORDER BY id

-- name: last_entry
SELECT coalesce(max(id), 0) FROM history

-- name: chain_heads
SELECT instance, id, entries, head, exit_code IS NOT NULL, ended IS NOT NULL, host, versions, exit_code, reason FROM runs
WHERE :instances IS NULL OR instance IN (SELECT value FROM json_each(:instances))
UNION ALL
SELECT id, NULL, entries, head, 0, 0, NULL, NULL, NULL, NULL FROM instances
WHERE :instances IS NULL OR id IN (SELECT value FROM json_each(:instances))

-- The first number of a run that has no row, though the store has given it or something names a run; how many
-- entries were written, and how many there are.
-- name: removed
SELECT (SELECT n FROM (SELECT 1 AS n UNION ALL SELECT id + 1 FROM runs)
        WHERE n NOT IN (SELECT id FROM runs) AND (
            n <= coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'runs'), 0)
            OR n = 1 AND (EXISTS (SELECT 1 FROM checkpoints WHERE run IS NOT NULL) OR EXISTS (SELECT 1 FROM effects)))
        ORDER BY n LIMIT 1),
    coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'history'), 0), (SELECT count(*) FROM history)

-- Pages of the history, which somebody may have edited: texts as bytes, and whether all is of the type that was written.
-- name: chain_page
SELECT h.id, CAST(h.hash AS BLOB),
    typeof(h.hash) = 'text' AND typeof(h.instance) = 'integer' AND typeof(h.run) IN ('integer', 'null')
    AND typeof(h.seq) = 'integer' AND typeof(h.at) = 'real' AND typeof(h.event) = 'text'
    AND typeof(h.record) IN ('integer', 'null') AND typeof(r.key) IN ('text', 'null')
    AND typeof(h.actor) IN ('text', 'null') AND typeof(h.step) IN ('text', 'null')
    AND typeof(h.reason) IN ('text', 'null') AND typeof(h.detail) IN ('text', 'null')
    AND typeof(h.as_instance) IN ('integer', 'null') AND typeof(h.as_record) IN ('integer', 'null')
    AND typeof(h.as_run) IN ('integer', 'null'),
    CAST(h.instance AS INTEGER), CAST(h.run AS INTEGER), CAST(h.seq AS INTEGER), CAST(h.record AS INTEGER),
    CAST(h.at AS REAL), CAST(r.key AS BLOB), CAST(h.actor AS BLOB), CAST(h.event AS BLOB), CAST(h.step AS BLOB),
    CAST(h.reason AS BLOB), CAST(h.detail AS BLOB), CAST(h.as_instance AS INTEGER), CAST(h.as_record AS INTEGER),
    CAST(h.as_run AS INTEGER)
FROM history h LEFT JOIN records r ON r.id = h.record
WHERE h.id > :after AND h.id <= :last AND (:instances IS NULL OR h.instance IN (SELECT value FROM json_each(:instances))
    OR h.instance NOT IN (SELECT id FROM instances))
ORDER BY h.id LIMIT :limit

-- name: log_page
SELECT h.id, CAST(h.run AS INTEGER), CAST(h.seq AS INTEGER), CAST(h.at AS REAL), CAST(h.event AS BLOB), r.key,
    CAST(h.step AS BLOB), CAST(h.reason AS BLOB), CAST(h.actor AS BLOB), CAST(h.detail AS BLOB), CAST(h.hash AS BLOB)
FROM history h LEFT JOIN records r ON r.id = h.record
WHERE h.id > :after AND h.id <= :last AND h.instance = :instance AND (:since IS NULL OR h.at >= :since)
ORDER BY h.id LIMIT :limit

-- name: payloads
SELECT e.name, e.key, e.payload_hash, e.payload
FROM json_each(:rows) j CROSS JOIN effects e ON e.name = j.value ->> 0 AND e.key = j.value ->> 1
WHERE e.payload_hash = j.value ->> 2

-- name: lineages
SELECT id, versions, skipped FROM lineages WHERE instance = :instance

-- name: lineage
SELECT versions, skipped FROM lineages WHERE id = :lineage

-- Rows of exports: record, generation, lineage or its lack, else how many checkpoints there were, place of the state.
-- name: export_last
SELECT id, succeeded_generation, lineage, NULL, :place FROM records
WHERE instance = :instance AND vanished = 0 AND succeeded_generation IS NOT NULL
ORDER BY position, id

-- name: export_all_generations
SELECT id, generation, lineage, NULL, :place FROM (
    SELECT r.id, g.generation, g.lineage, r.position
    FROM records r JOIN generations g ON g.record = r.id
    WHERE r.instance = :instance AND r.vanished = 0
    UNION ALL
    SELECT id, succeeded_generation, lineage, position FROM records
    WHERE instance = :instance AND vanished = 0 AND state = 'succeeded')
ORDER BY position, id, generation

-- name: export_state
SELECT id, generation, NULL,
    (SELECT count(*) FROM checkpoints c WHERE c.record = r.id AND c.generation = r.generation), :place
FROM records r
WHERE state <> 'succeeded' AND instance = :instance AND state = :state AND vanished = 0
ORDER BY position, id

-- name: export_whole
SELECT id, generation, CASE state WHEN 'succeeded' THEN lineage END,
    (SELECT count(*) FROM checkpoints c WHERE c.record = r.id AND c.generation = r.generation),
    (SELECT s.key FROM json_each(:states) s WHERE s.value = r.state)
FROM records r
WHERE instance = :instance AND vanished = :vanished
ORDER BY position, id

-- name: export_records
SELECT r.key, (SELECT value FROM inputs i WHERE i.record = r.id AND i.generation <= j.value ->> 1
               ORDER BY i.generation DESC LIMIT 1)
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value ->> 0

-- name: export_outputs
SELECT j.key, c.at, c.step, c.version, c.output
FROM json_each(:rows) j CROSS JOIN checkpoints c ON c.record = j.value ->> 0 AND c.generation = j.value ->> 1

-- name: batches_waited_for
SELECT c.batch, b.model, c.status, c.done, c.total, c.at, count(DISTINCT w.record)
FROM batch_waits w CROSS JOIN batched b ON b.instance = w.instance AND b.fingerprint = w.fingerprint
JOIN records r ON r.id = w.record LEFT JOIN chunks c ON c.id = b.chunk
WHERE w.instance = :instance AND b.answer IS NULL AND r.generation = w.generation AND r.state = 'pending'
  AND r.hold = 'batch' AND r.vanished = 0
GROUP BY c.id, b.model ORDER BY c.at
