-- name: orders
SELECT r.drain, i.concurrency, i.concurrency_said,
    EXISTS (SELECT 1 FROM runs o
            WHERE o.instance = r.instance AND o.ended IS NULL AND o.sharing IS NOT NULL AND o.id <> r.id)
FROM runs r JOIN instances i ON i.id = r.instance WHERE r.id = :run

-- name: note_work
UPDATE runs SET done = :done, rate = :rate, concurrency = :concurrency, noted = :now, pace = coalesce(:pace, pace)
WHERE id = :run AND ended IS NULL

-- name: to_drain
SELECT id, host, boot, lease_until, drain FROM runs
WHERE instance = :instance AND ended IS NULL AND (:run IS NULL OR id = :run) ORDER BY id

-- Of a run that shows no sign of life the death may lie before the word: it is judged as any death.
-- name: drain
UPDATE runs SET drain = :reason, told = CASE WHEN :lives = 1 THEN coalesce(told, :reason) ELSE told END
WHERE id = :run AND ended IS NULL

-- name: concurrency
SELECT concurrency FROM instances WHERE id = :instance

-- name: set_concurrency
UPDATE instances SET concurrency = :concurrency, concurrency_said = concurrency_said + 1 WHERE id = :instance

-- name: made_again
SELECT id FROM records WHERE instance = :instance AND generation > 0 AND id > :after ORDER BY id LIMIT :limit

-- Generations that something was sent for or is owed for. An entry goes over to newer generations with the same to
-- send: the one that it was sent for is the first that was at work from then on.
-- name: sent_or_owed
SELECT e.record, e.generation FROM json_each(:rows) j CROSS JOIN effects e ON e.record = j.value
UNION
SELECT e.record, (SELECT min(c.generation) FROM checkpoints c WHERE c.record = e.record AND c.at >= e.sent_at)
FROM json_each(:rows) j CROSS JOIN effects e ON e.record = j.value
UNION
SELECT o.record, o.generation FROM json_each(:rows) j CROSS JOIN owed o ON o.record = j.value
UNION
SELECT o.record, (SELECT min(c.generation) FROM checkpoints c WHERE c.record = o.record AND c.at >= e.sent_at)
FROM json_each(:rows) j CROSS JOIN owed o ON o.record = j.value CROSS JOIN effects e ON e.name = o.name AND e.key = o.key

-- Outputs that newer ones have replaced: not those of the newest result.
-- name: superseded_outputs
SELECT c.record, c.generation, count(*), sum(octet_length(c.output))
FROM json_each(:rows) j JOIN records r ON r.id = j.value
JOIN checkpoints c ON c.record = r.id AND c.generation < r.generation
WHERE r.since < :before AND r.state NOT IN ('in_progress', 'unconfirmed')
  AND c.generation IS NOT r.succeeded_generation
GROUP BY c.record, c.generation

-- name: superseded_results
SELECT g.record, g.generation
FROM json_each(:rows) j JOIN records r ON r.id = j.value
JOIN generations g ON g.record = r.id AND g.generation < r.generation
WHERE r.since < :before AND r.state NOT IN ('in_progress', 'unconfirmed')
  AND g.generation IS NOT r.succeeded_generation

-- Inputs that hold for none of the generations that stay: each holds from its own until the next begins.
-- name: superseded_inputs
SELECT s.record, s.generation, s.size, s.until FROM (
    SELECT i.record, i.generation, coalesce(octet_length(i.value), 0) AS size, r.generation AS newest,
        r.succeeded_generation AS result,
        (SELECT min(n.generation) FROM inputs n WHERE n.record = i.record AND n.generation > i.generation) AS until
    FROM json_each(:rows) j JOIN records r ON r.id = j.value JOIN inputs i ON i.record = r.id
    WHERE r.since < :before AND r.state NOT IN ('in_progress', 'unconfirmed')) s
WHERE s.until <= s.newest AND (s.result IS NULL OR s.result < s.generation OR s.result >= s.until)

-- name: drop_outputs
DELETE FROM checkpoints WHERE (record, generation) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))

-- name: drop_results
DELETE FROM generations WHERE (record, generation) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))

-- name: drop_inputs
DELETE FROM inputs WHERE (record, generation) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))

-- Failures of records that have succeeded since.
-- name: overcome
SELECT f.record FROM failures f CROSS JOIN records r ON r.id = f.record
WHERE f.record > :after AND r.instance = :instance AND r.state = 'succeeded' AND f.at < :before AND r.since < :before
  AND (f.message <> '""' OR f.received IS NOT NULL)
ORDER BY f.record LIMIT :limit

-- name: overcome_among
SELECT f.record, octet_length(f.message) + coalesce(octet_length(f.received), 0)
FROM json_each(:rows) j JOIN failures f ON f.record = j.value JOIN records r ON r.id = f.record
WHERE r.state = 'succeeded' AND f.at < :before AND r.since < :before
  AND (f.message <> '""' OR f.received IS NOT NULL)

-- name: clear_failures
UPDATE failures SET message = '""', received = NULL WHERE record IN (SELECT value FROM json_each(:rows))

-- name: old_standings
SELECT count(*) FROM gates
WHERE instance = :instance AND run IN (SELECT id FROM runs WHERE ended < :before) AND (until IS NULL OR until < :now)

-- name: drop_old_standings
DELETE FROM gates
WHERE instance = :instance AND run IN (SELECT id FROM runs WHERE ended < :before) AND (until IS NULL OR until < :now)
