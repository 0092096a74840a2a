-- What only this dialect asks.

-- name: note_batch
UPDATE writers SET batch = :batch::bigint WHERE id = :id RETURNING batch

-- name: run_is_held
SELECT lease_until > :now AND (ended IS NULL OR sending = 1) FROM runs WHERE id = :run

-- name: note_sending
UPDATE runs SET sending = 1, lease_until = :now + :lease WHERE id = :run

-- name: renew_sending
UPDATE runs SET lease_until = moment() + :lease WHERE id = :run AND sending = 1

-- name: sends_ended
UPDATE runs SET sending = 0 WHERE id = :run AND sending = 1

-- Whether there may be something to take over.
-- name: some_died
SELECT EXISTS (SELECT 1 FROM runs WHERE instance = :instance AND ended IS NULL AND id <> :run AND lease_until <= :now)
    OR EXISTS (SELECT 1 FROM records r JOIN effects e ON e.record = r.id AND e.state = 'intended'
               JOIN runs u ON u.id = e.run
               WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state = 'unconfirmed' AND r.vanished IN (0, 1)
                 AND r.hold IN ('person', 'sending')
                 AND NOT (u.lease_until > :now AND (u.ended IS NULL OR u.sending = 1)))

-- Whether a change of what one run holds may touch what others hold, too.
-- name: is_entangled
SELECT coalesce((SELECT sum(n) FROM counts WHERE instance = :instance AND what = 'waits' AND name = 'input'), 0) > 0
    OR EXISTS (SELECT 1 FROM batch_waits WHERE instance = :instance)

-- Runs that have ended count no more: their counters become one, so that a sum stays one of few rows.
-- name: fold_counts
WITH ended AS (
    DELETE FROM counts WHERE instance = :instance AND run <> 0
      AND EXISTS (SELECT 1 FROM runs WHERE runs.id = counts.run AND runs.ended IS NOT NULL)
    RETURNING what, name, n)
INSERT INTO counts (instance, run, what, name, n)
SELECT :instance, 0, what, name, sum(n) FROM ended GROUP BY what, name ORDER BY what, name
ON CONFLICT (instance, what, brief(name), run) DO UPDATE SET n = counts.n + excluded.n
