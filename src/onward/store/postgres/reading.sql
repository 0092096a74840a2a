-- name: source_complete
SELECT source_complete FROM instances WHERE id = :instance

-- name: count_lineages
SELECT what, name, sum(n)::bigint FROM counts
WHERE instance = :instance AND what IN ('lineage', 'lineage_changed') GROUP BY what, name

-- name: versions_run
SELECT DISTINCT versions FROM runs WHERE instance = :instance

-- Fresh records come last: once all that there is has been found, none of them is looked at.
-- name: older_outputs
WITH tried (id, generation) AS (
    SELECT id, generation FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND vanished = 0
      AND state IN ('in_progress', 'failed', 'quarantined', 'unconfirmed')
    UNION ALL
    SELECT id, generation FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NOT NULL
    UNION ALL
    SELECT id, generation FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND coalesce(hold, '') = ''
      AND not_before > 0
    UNION ALL
    SELECT id, generation FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND coalesce(hold, '') = ''
      AND not_before = 0 AND fence > 0
), there AS (
    SELECT c.record, c.step, c.version
    FROM tried JOIN checkpoints c ON c.record = tried.id AND c.generation = tried.generation
    WHERE c.step IN (SELECT json_object_keys(:today))
    LIMIT :there
), older AS MATERIALIZED (
    SELECT t.record, t.step, t.version FROM there t JOIN json_each_text(:today) today ON today.key = t.step
    WHERE today.value <> t.version
)
SELECT NULL, NULL, count(DISTINCT record) FROM older
UNION ALL
SELECT step, version, count(*) FROM older GROUP BY step, version
