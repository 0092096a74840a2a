-- name: sharing_runs
SELECT id, sharing FROM runs WHERE instance = :instance AND ended IS NULL AND sharing IS NOT NULL

-- name: sharing_of
SELECT sharing FROM runs WHERE id = :run

-- name: set_sharing
UPDATE runs SET sharing = :sharing WHERE id = :run AND sharing IS NOT :sharing

-- A run's rows go when it ends or is buried.
-- name: shares_of
SELECT s.ceiling, s.run, s.held, s.wanted, s.since, s.asked
FROM json_each(:rows) j CROSS JOIN shares s ON s.instance = :instance AND s.ceiling = j.value

-- name: put_shares
INSERT INTO shares (instance, ceiling, run, held, wanted, since, asked)
SELECT :instance, value ->> 0, :run, value ->> 1, value ->> 2, value ->> 3, :now FROM json_each(:rows) WHERE true
ON CONFLICT (instance, ceiling, run)
DO UPDATE SET held = excluded.held, wanted = excluded.wanted, since = excluded.since, asked = excluded.asked

-- name: drop_shares_of
DELETE FROM shares WHERE instance = :instance AND run = :run AND ceiling IN (SELECT value FROM json_each(:rows))

-- name: drop_shares
DELETE FROM shares WHERE instance = :instance AND run = :run
