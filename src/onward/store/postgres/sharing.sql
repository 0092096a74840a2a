-- name: sharing_runs
SELECT id, sharing FROM runs WHERE instance = :instance AND ended IS NULL AND sharing IS NOT NULL

-- name: sharing_of
SELECT sharing FROM runs WHERE id = :run

-- name: set_sharing
UPDATE runs SET sharing = :sharing WHERE id = :run AND sharing IS DISTINCT FROM :sharing

-- A run's rows go when it ends or is buried.
-- name: shares_of
SELECT ceiling, run, held, wanted, since, asked FROM shares
WHERE instance = :instance AND ceiling = ANY (texts(:rows))

-- name: put_shares
INSERT INTO shares (instance, ceiling, run, held, wanted, since, asked)
SELECT :instance, f.ceiling, :run, f.held, f.wanted, f.since, :now
FROM listed(:rows) AS f(ceiling text, held double precision, wanted double precision, since double precision)
ON CONFLICT (instance, ceiling, run)
DO UPDATE SET held = excluded.held, wanted = excluded.wanted, since = excluded.since, asked = excluded.asked

-- name: drop_shares_of
DELETE FROM shares WHERE instance = :instance AND run = :run AND ceiling = ANY (texts(:rows))

-- name: drop_shares
DELETE FROM shares WHERE instance = :instance AND run = :run
