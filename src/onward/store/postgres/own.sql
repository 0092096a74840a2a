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

-- Intents that this server has lost: whatever was sent under them. Who holds the record still may be sending.
-- name: put_back_intents
INSERT INTO effects (name, key, state, payload, payload_hash, record, generation, fence, run, first_at, intended_at, fields,
    deadline, settle, ended_at)
SELECT f.name, f.key, CASE WHEN r.state = 'in_progress' AND r.run = :run AND r.fence = f.fence THEN 'intended' ELSE 'unknown' END,
    f.payload, f.payload_hash, f.record, f.generation, f.fence, :run, f.first_at, :now, f.fields, f.deadline, f.settle,
    CASE WHEN r.state = 'in_progress' AND r.run = :run AND r.fence = f.fence THEN NULL ELSE :now END
FROM listed(:rows) AS f(name text, key text, payload text, payload_hash text, record bigint, generation bigint, fence bigint,
                        first_at double precision, fields text, deadline double precision, settle double precision)
JOIN records r ON r.id = f.record AND r.instance = :instance
WHERE f.payload IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING name, key

-- name: doubt_absent
UPDATE effects SET state = 'unknown', payload = coalesce(f.payload, effects.payload), receipt = NULL,
    payload_hash = CASE WHEN f.payload IS NULL THEN effects.payload_hash ELSE f.payload_hash END, record = f.record,
    generation = f.generation, fence = f.fence, run = :run, intended_at = :now, ended_at = :now, ask_at = 0, asks = 0,
    sent_at = NULL
FROM listed(:rows) AS f(name text, key text, payload text, payload_hash text, record bigint, generation bigint, fence bigint)
JOIN records r ON r.id = f.record AND r.instance = :instance
WHERE brief(effects.name) = brief(f.name) AND brief(effects.key) = brief(f.key) AND effects.state = 'absent'
RETURNING effects.name, effects.key

-- name: not_in_the_ledger
SELECT f.name, f.key FROM listed(:rows) AS f(name text, key text)
WHERE NOT EXISTS (SELECT 1 FROM effects e WHERE brief(e.name) = brief(f.name) AND brief(e.key) = brief(f.key))

-- What tells one server from another, and one history of it from another. Not every server tells both to everybody.
-- name: system_of_server
SELECT system_identifier FROM pg_control_system()

-- name: timeline_of_server
SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint

-- name: known_server
SELECT what, n FROM numbers WHERE what IN ('system', 'timeline')

-- name: note_server
INSERT INTO numbers (what, n) VALUES (:name, :number) ON CONFLICT (what) DO UPDATE SET n = excluded.n

-- Which of our connections hold our locks, or have changed rows of ours, and have been waiting for so long for what their
-- client is to say, or to take. PostgreSQL's own bound, idle_in_transaction_session_timeout, does not end one that is in
-- the middle of an exchange, nor (seen with 18) one whose last exchange was of several statements. A COPY waits between two
-- rows of its client, too, and looks the same as long as it lasts.
-- name: end_stopped
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.application_name = current_setting('application_name')
  AND a.wait_event IN ('ClientRead', 'ClientWrite') AND NOT (a.state = 'active' AND a.query ILIKE 'COPY %')
  AND a.state_change < clock_timestamp() - make_interval(secs => :seconds)
  AND EXISTS (
    SELECT 1 FROM pg_locks l LEFT JOIN pg_class c ON c.oid = l.relation LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE l.pid = a.pid AND l.granted
      AND (l.locktype = 'advisory' AND l.classid = (:lock_class & 4294967295)::oid
        OR l.locktype = 'relation' AND l.mode <> 'AccessShareLock' AND n.nspname = :schema
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())))

-- Runs that have ended count no more: their counters become one, so that a sum stays one of few rows.
-- name: fold_counts
WITH ended AS (
    DELETE FROM counts WHERE instance = :instance AND run <> 0
      AND EXISTS (SELECT 1 FROM runs WHERE runs.id = counts.run AND runs.ended IS NOT NULL)
    RETURNING what, name, n)
INSERT INTO counts (instance, run, what, name, n)
SELECT :instance, 0, what, name, sum(n) FROM ended GROUP BY what, name ORDER BY what, name
ON CONFLICT (instance, what, brief(name), run) DO UPDATE SET n = counts.n + excluded.n
