-- name: jobs
SELECT DISTINCT job FROM instances ORDER BY job

-- name: instances
SELECT id, name FROM instances WHERE job = :job ORDER BY id

-- name: newest_run
SELECT params, versions FROM runs WHERE instance = :instance ORDER BY id DESC LIMIT 1

-- name: runs
SELECT id, started, ended, exit_code, host, reason, told, boot, lease_until
FROM runs WHERE instance = :instance ORDER BY id

-- name: back_off
SELECT count(*), min(not_before) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
  AND not_before > :now

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
SELECT step FROM checkpoints WHERE record = :record AND generation = :generation

-- name: failed_records
SELECT r.id FROM records r LEFT JOIN failures f ON f.record = r.id
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state IN (SELECT value FROM json_each(:states))
  AND r.vanished = 0 AND (:kind IS NULL OR f.kind = :kind)
ORDER BY r.position, r.id

-- name: failed_page
SELECT r.key, r.state, f.step, f.kind, f.error_type, f.message, f.attempts, r.deaths + r.solo_deaths, r.failed_runs, f.at
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value CROSS JOIN failures f ON f.record = r.id
WHERE r.state IN (SELECT value FROM json_each(:states))

-- name: causes
SELECT f.step, f.kind, f.error_type, sum(r.state = 'failed'), sum(r.state = 'quarantined'), sum(r.state = 'unconfirmed'),
       r.key, f.message, min(r.position)
FROM records r JOIN failures f ON f.record = r.id
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state IN (SELECT value FROM json_each(:states))
  AND r.vanished = 0 AND (:kind IS NULL OR f.kind = :kind)
GROUP BY f.step, f.kind, f.error_type

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
SELECT step, version, kind, error_type, message, attempts, at, run FROM failures WHERE record = :record

-- name: record_history
SELECT at, event, step, reason, actor, run, detail FROM history WHERE record = :record ORDER BY id

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
