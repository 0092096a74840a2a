-- name: sums
SELECT step, version, n, unknown, first, second, third, earlier, earlier_second, crossed FROM costs
WHERE instance = :instance ORDER BY step, version

-- name: failed_with
SELECT c.step, count(*)
FROM records r CROSS JOIN checkpoints c ON c.record = r.id AND c.generation = r.generation
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state = 'failed' AND r.vanished = 0
GROUP BY c.step

-- name: version_parts
SELECT step, version, parts FROM versions WHERE instance = :instance

-- name: last_pace
SELECT pace FROM runs WHERE instance = :instance AND pace IS NOT NULL ORDER BY coalesce(noted, 0) DESC, id DESC LIMIT 1
