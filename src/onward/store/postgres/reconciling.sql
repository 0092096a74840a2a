-- name: obligation
SELECT r.state, r.vanished, r.generation, r.step, r.key, e.state, e.run
FROM records r LEFT JOIN effects e ON brief(e.name) = brief(:name) AND brief(e.key) = brief(:key) AND e.record = r.id
    AND e.generation = r.generation
WHERE r.id = :record AND r.instance = :instance

-- name: settle_by_word
UPDATE effects SET state = :state, receipt = coalesce(:receipt, receipt), ask_at = 0,
    sent_at = CASE WHEN :state = 'confirmed' THEN coalesce(sent_at, :now) ELSE sent_at END
WHERE brief(name) = brief(:name) AND brief(key) = brief(:key) AND record = :record
  AND state IN ('intended', 'unknown', 'sent')

-- name: checkpoint_by_word
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
VALUES (:record, :generation, :step, :version, :output, NULL, :now)

-- name: versions_so_far
SELECT step, version FROM checkpoints WHERE record = :record AND generation = :generation

-- name: finish_by_word
UPDATE records SET state = 'succeeded', run = NULL, fence = fence + 1, hold = NULL, not_before = 0, started = 0,
    step = NULL, attempts = 0, deaths = 0, solo_deaths = 0, failed_runs = 0, lineage = :lineage,
    succeeded_generation = generation, since = :now
WHERE id = :record AND state = 'unconfirmed'

-- name: go_on_by_word
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, not_before = 0, started = 0, step = :step,
    attempts = 0, failed_runs = 0, deaths = CASE WHEN :sent = 1 THEN 0 ELSE deaths END,
    solo_deaths = CASE WHEN :sent = 1 THEN 0 ELSE solo_deaths END,
    hold = CASE WHEN :sent = 0 AND (deaths >= :to_suspect OR solo_deaths > 0) THEN 'suspect' END, since = :now
WHERE id = :record AND state = 'unconfirmed'

-- Open obligations, and records that wait for what has become of one that another record answers for.
-- name: open_obligations
SELECT r.id, r.state, r.hold, r.run, r.step, e.name, e.state, e.run
FROM records r LEFT JOIN effects e
    ON e.record = r.id AND e.generation = r.generation AND e.state IN ('intended', 'unknown', 'sent')
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.vanished IN (0, 1)
  AND (r.state = 'unconfirmed' OR r.state IN ('in_progress', 'pending') AND r.fence > 0 AND e.name IS NOT NULL)
ORDER BY r.position, r.id

-- name: all_open_runs
SELECT id, boot, lease_until FROM runs WHERE ended IS NULL
