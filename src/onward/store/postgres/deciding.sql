-- name: in_state
SELECT id FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = :state AND vanished = 0
ORDER BY position, id

-- name: finished
SELECT id FROM records
WHERE instance = :instance AND state = 'succeeded' AND vanished = 0
  AND (:lineages IS NULL OR :changed = 1 AND input_changed = 1 OR lineage = ANY (ids(:lineages)))
UNION ALL
SELECT id FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold = 'stale'

-- name: count_finished
SELECT count(*) FROM records
WHERE instance = :instance AND state = 'succeeded' AND vanished = 0
  AND (:lineages IS NULL OR :changed = 1 AND input_changed = 1 OR lineage = ANY (ids(:lineages)))

-- name: sample_finished
SELECT id FROM (
    SELECT id, row_number() OVER (ORDER BY position, id) - 1 AS place FROM records
    WHERE instance = :instance AND state = 'succeeded' AND vanished = 0
      AND (:lineages IS NULL OR :changed = 1 AND input_changed = 1 OR lineage = ANY (ids(:lineages)))) numbered
WHERE place = ANY (ids(:places))
ORDER BY place

-- name: matching_ended
SELECT r.id, r.vanished, r.generation, r.step, r.solo_deaths
FROM unnest(ids(:rows)) WITH ORDINALITY AS j(id, place) JOIN records r ON r.id = j.id
LEFT JOIN failures f ON f.record = r.id
WHERE r.state = :state AND (:named = 1 OR r.vanished = 0)
  AND (:corrected = 1 OR f.error_type IS DISTINCT FROM 'BadLine')
  AND (:kind IS NULL OR f.kind = :kind) AND (:step IS NULL OR f.step = :step)
  AND (:stale = 0 OR f.step IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM listed(:today) AS t(step text, version text) WHERE t.step = f.step AND t.version = f.version))
ORDER BY j.place

-- name: matching_finished
SELECT r.id, r.vanished, r.generation, r.state, r.lineage, r.input_changed, r.step,
    CASE r.state WHEN 'pending' THEN coalesce((SELECT json_agg(json_build_array(step, version)) FROM checkpoints c
                                               WHERE c.record = r.id AND c.generation = r.generation), '[]') END
FROM unnest(ids(:rows)) WITH ORDINALITY AS j(id, place) JOIN records r ON r.id = j.id
LEFT JOIN failures f ON f.record = r.id
WHERE (r.state = 'succeeded' OR r.state = 'pending' AND r.hold = 'stale') AND (:named = 1 OR r.vanished = 0)
  AND (:kind IS NULL OR f.kind = :kind)
ORDER BY j.place

-- name: states_of
SELECT CASE WHEN r.state = 'quarantined' AND f.error_type = 'BadLine' THEN 'bad line' ELSE r.state END, count(*)
FROM unnest(ids(:rows)) AS j(id) JOIN records r ON r.id = j.id LEFT JOIN failures f ON f.record = r.id
GROUP BY 1

-- name: mark_again
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, not_before = 0, attempts = 0, started = 0,
    failed_runs = 0, since = :now, solo_deaths = 0,
    deaths = f.deaths, hold = CASE WHEN f.deaths <> 0 THEN :suspect END
FROM listed(:rows) AS f(id bigint, deaths bigint)
WHERE records.id = f.id AND state = :state

-- Records in conflict with what they have sent, each with the outputs of its newest result, where that is of the same
-- input, and with those that it has now.
-- name: conflicts
SELECT r.id, r.vanished, r.generation, r.step, r.succeeded_generation,
    CASE WHEN r.succeeded_generation IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM inputs i WHERE i.record = r.id AND i.generation > r.succeeded_generation)
    THEN coalesce((SELECT json_agg(json_build_array(step, version)) FROM checkpoints c
                   WHERE c.record = r.id AND c.generation = r.succeeded_generation), '[]') ELSE '[]' END,
    coalesce((SELECT json_agg(json_build_array(step, version)) FROM checkpoints c
              WHERE c.record = r.id AND c.generation = r.generation), '[]')
FROM unnest(ids(:rows)) WITH ORDINALITY AS j(id, place) JOIN records r ON r.id = j.id JOIN failures f ON f.record = r.id
WHERE f.kind = 'conflict' AND f.step IS NOT DISTINCT FROM r.step
ORDER BY j.place

-- name: keep_generation
INSERT INTO generations (record, generation, lineage)
SELECT r.id, r.generation, r.lineage FROM listed(:rows) AS f(id bigint) JOIN records r ON r.id = f.id
WHERE r.state = 'succeeded'

-- name: not_taken_over
SELECT c.step, count(*)
FROM listed(:rows) AS f(id bigint, generation bigint, kept json)
JOIN checkpoints c ON c.record = f.id AND c.generation = f.generation
WHERE c.step <> ALL (texts(f.kept))
GROUP BY c.step

-- name: take_over_outputs
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
SELECT c.record, c.generation + 1, c.step, c.version, c.output, c.run, c.at
FROM listed(:rows) AS f(id bigint, generation bigint, kept json)
JOIN checkpoints c ON c.record = f.id AND c.generation = f.generation
WHERE c.step = ANY (texts(f.kept))

-- name: take_over_from
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
SELECT c.record, f.next, c.step, c.version, c.output, c.run, c.at
FROM listed(:rows) AS f(id bigint, generation bigint, kept json, next bigint)
JOIN checkpoints c ON c.record = f.id AND c.generation = f.generation
WHERE c.step = ANY (texts(f.kept))

-- name: next_generation
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, generation = generation + 1, step = NULL,
    started = 0, attempts = 0, not_before = 0, deaths = 0, solo_deaths = 0, failed_runs = 0, hold = NULL,
    input_changed = 0, since = :now
FROM listed(:rows) AS f(id bigint)
WHERE records.id = f.id

-- name: current_inputs
SELECT r.id, i.hash, i.value, i.source_hash
FROM unnest(ids(:rows)) AS j(id) JOIN records r ON r.id = j.id
JOIN inputs i ON i.record = r.id AND i.generation = (
    SELECT max(generation) FROM inputs n WHERE n.record = r.id AND n.generation <= r.generation)

-- name: open_among
SELECT json_agg(r.id) FROM unnest(ids(:rows)) AS j(id) JOIN records r ON r.id = j.id
WHERE EXISTS (SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
  OR EXISTS (SELECT 1 FROM awaits a WHERE a.record = r.id)

-- name: corrected_inputs
INSERT INTO inputs (record, generation, hash, value, source_hash)
SELECT record, generation, hash, value, source_hash
FROM listed(:rows) AS f(record bigint, generation bigint, hash text, value text, source_hash text)
ON CONFLICT (record, generation) DO UPDATE SET hash = excluded.hash, value = excluded.value,
    source_hash = excluded.source_hash
