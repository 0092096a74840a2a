-- name: sharing_runs
SELECT id, sharing FROM runs WHERE instance = :instance AND ended IS NULL AND sharing IS NOT NULL

-- name: sharing_of
SELECT sharing FROM runs WHERE id = :run

-- name: set_sharing
UPDATE runs SET sharing = :sharing WHERE id = :run AND sharing IS DISTINCT FROM :sharing

-- Rows of runs that have ended do not count.
-- name: shares_of
SELECT s.ceiling, s.run, s.held, s.wanted, s.since, s.asked
FROM shares s JOIN runs u ON u.id = s.run AND u.ended IS NULL
WHERE s.instance = :instance AND s.ceiling = ANY (texts(:rows))

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
