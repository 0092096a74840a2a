-- name: in_state
SELECT id FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = :state AND vanished = 0

-- name: finished
SELECT id FROM records
WHERE instance = :instance AND state = 'succeeded' AND vanished = 0
  AND (:lineages IS NULL OR :changed AND input_changed = 1 OR lineage IN (SELECT value FROM json_each(:lineages)))
UNION ALL
SELECT id FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold = 'stale'

-- name: count_finished
SELECT count(*) FROM records
WHERE instance = :instance AND state = 'succeeded' AND vanished = 0
  AND (:lineages IS NULL OR :changed AND input_changed = 1 OR lineage IN (SELECT value FROM json_each(:lineages)))

-- name: sample_finished
SELECT id FROM (
    SELECT id, row_number() OVER (ORDER BY position, id) - 1 AS place FROM records
    WHERE instance = :instance AND state = 'succeeded' AND vanished = 0
      AND (:lineages IS NULL OR :changed AND input_changed = 1 OR lineage IN (SELECT value FROM json_each(:lineages))))
WHERE place IN (SELECT value FROM json_each(:places))
ORDER BY place

-- name: matching_ended
SELECT r.id, r.vanished, r.generation, r.step, r.solo_deaths
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value LEFT JOIN failures f ON f.record = r.id
WHERE r.state = :state AND (:named OR r.vanished = 0) AND (:corrected OR f.error_type IS NOT 'BadLine')
  AND (:kind IS NULL OR f.kind = :kind) AND (:step IS NULL OR f.step = :step)
  AND (NOT :stale OR f.step IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM json_each(:today) t WHERE t.value ->> 0 = f.step AND t.value ->> 1 = f.version))

-- name: matching_finished
SELECT r.id, r.vanished, r.generation, r.state, r.lineage, r.input_changed, r.step,
    CASE r.state WHEN 'pending' THEN (SELECT json_group_array(json_array(step, version)) FROM checkpoints c
                                      WHERE c.record = r.id AND c.generation = r.generation) END
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value LEFT JOIN failures f ON f.record = r.id
WHERE (r.state = 'succeeded' OR r.state = 'pending' AND r.hold = 'stale') AND (:named OR r.vanished = 0)
  AND (:kind IS NULL OR f.kind = :kind)

-- name: states_of
SELECT CASE WHEN r.state = 'quarantined' AND f.error_type = 'BadLine' THEN 'bad line' ELSE r.state END, count(*)
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value LEFT JOIN failures f ON f.record = r.id
GROUP BY 1

-- name: mark_again
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, not_before = 0, attempts = 0, started = 0,
    failed_runs = 0, since = :now, solo_deaths = 0,
    deaths = f.deaths, hold = CASE WHEN f.deaths THEN :suspect END
FROM (SELECT value ->> 0 AS id, value ->> 1 AS deaths FROM json_each(:rows)) f
WHERE records.id = f.id AND state = :state

-- Records in conflict with what they have sent, each with the outputs of its newest result, where that is of the same
-- input, and with those that it has now.
-- name: conflicts
SELECT r.id, r.vanished, r.generation, r.step, r.succeeded_generation,
    CASE WHEN r.succeeded_generation IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM inputs i WHERE i.record = r.id AND i.generation > r.succeeded_generation)
    THEN (SELECT json_group_array(json_array(step, version)) FROM checkpoints c
          WHERE c.record = r.id AND c.generation = r.succeeded_generation) ELSE '[]' END,
    (SELECT json_group_array(json_array(step, version)) FROM checkpoints c
     WHERE c.record = r.id AND c.generation = r.generation)
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value JOIN failures f ON f.record = r.id
WHERE f.kind = 'conflict' AND f.step IS r.step

-- name: keep_generation
INSERT INTO generations (record, generation, lineage)
SELECT id, generation, lineage FROM records
WHERE id IN (SELECT value ->> 0 FROM json_each(:rows)) AND state = 'succeeded'

-- name: not_taken_over
SELECT c.step, count(*)
FROM json_each(:rows) j CROSS JOIN checkpoints c ON c.record = j.value ->> 0 AND c.generation = j.value ->> 1
WHERE NOT EXISTS (SELECT 1 FROM json_each(j.value, '$[2]') kept WHERE kept.value = c.step)
GROUP BY c.step

-- name: take_over_outputs
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
SELECT c.record, c.generation + 1, c.step, c.version, c.output, c.run, c.at
FROM json_each(:rows) j CROSS JOIN checkpoints c ON c.record = j.value ->> 0 AND c.generation = j.value ->> 1
WHERE EXISTS (SELECT 1 FROM json_each(j.value, '$[2]') kept WHERE kept.value = c.step)

-- name: take_over_from
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
SELECT c.record, j.value ->> 3, c.step, c.version, c.output, c.run, c.at
FROM json_each(:rows) j CROSS JOIN checkpoints c ON c.record = j.value ->> 0 AND c.generation = j.value ->> 1
WHERE EXISTS (SELECT 1 FROM json_each(j.value, '$[2]') kept WHERE kept.value = c.step)

-- name: next_generation
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, generation = generation + 1, step = NULL,
    started = 0, attempts = 0, not_before = 0, deaths = 0, solo_deaths = 0, failed_runs = 0, hold = NULL,
    input_changed = 0, since = :now
WHERE id IN (SELECT value ->> 0 FROM json_each(:rows))

-- name: current_inputs
SELECT r.id, i.hash, i.value, i.source_hash
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value
JOIN inputs i ON i.record = r.id AND i.generation = (
    SELECT max(generation) FROM inputs n WHERE n.record = r.id AND n.generation <= r.generation)

-- name: open_among
SELECT json_group_array(r.id) FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value
WHERE EXISTS (SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
  OR EXISTS (SELECT 1 FROM awaits a WHERE a.record = r.id)

-- name: corrected_inputs
INSERT OR REPLACE INTO inputs (record, generation, hash, value, source_hash)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:rows)
