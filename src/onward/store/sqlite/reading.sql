-- name: source_complete
SELECT source_complete FROM instances WHERE id = :instance

-- name: count_lineages
SELECT what, name, n FROM counts WHERE instance = :instance AND what IN ('lineage', 'lineage_changed')

-- name: versions_run
SELECT DISTINCT versions FROM runs WHERE instance = :instance

-- What unfinished records have, by what made it (JSON: [[step, version], …]), and whether they rest: no run takes them up
-- until a person says so. Fresh records come last: once all that there is has been found, none of them is looked at.
-- name: unfinished_outputs
WITH tried (id, generation, rests) AS (
    SELECT id, generation, state = 'quarantined' FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND vanished = 0
      AND state IN ('in_progress', 'failed', 'quarantined', 'unconfirmed')
    UNION ALL
    SELECT id, generation, hold = 'stale' FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NOT NULL
    UNION ALL
    SELECT id, generation, 0 FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
      AND not_before > 0
    UNION ALL
    SELECT id, generation, 0 FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
      AND not_before = 0 AND fence > 0
), there AS (
    SELECT c.record, tried.rests, c.step, c.version
    FROM tried CROSS JOIN checkpoints c ON c.record = tried.id AND c.generation = tried.generation
    LIMIT :there
)
SELECT made, rests, count(*) FROM (
    SELECT json_group_array(json_array(step, version)) AS made, max(rests) AS rests FROM there GROUP BY record)
GROUP BY made, rests
