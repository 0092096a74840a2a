-- name: intend
INSERT INTO effects (name, key, state, payload, payload_hash, record, generation, fence, run, first_at, intended_at, fields,
    deadline, settle)
SELECT name, key, 'intended', payload, payload_hash, record, generation, fence, :run, :now, :now, fields, deadline, settle
FROM listed(:rows) AS f(name text, key text, payload text, payload_hash text, record bigint, generation bigint, fence bigint,
                        fields text, deadline double precision, settle double precision)
ON CONFLICT DO NOTHING

-- name: supersede
UPDATE effects SET state = 'intended', payload = f.payload, payload_hash = f.payload_hash, receipt = NULL,
    record = f.record, generation = f.generation, fence = f.fence, run = :run, first_at = :now, intended_at = :now,
    ask_at = 0, asks = 0, sent_at = NULL, fields = f.fields, ended_at = NULL,
    deadline = f.deadline, settle = f.settle
FROM listed(:rows) AS f(name text, key text, payload text, payload_hash text, record bigint, generation bigint, fence bigint,
                        fields text, deadline double precision, settle double precision)
WHERE brief(effects.name) = brief(f.name) AND brief(effects.key) = brief(f.key) AND effects.state = 'absent'

-- name: take
UPDATE effects SET record = f.record, generation = f.generation,
    state = CASE WHEN state = 'intended' AND effects.record <> f.record THEN 'unknown' ELSE state END,
    ended_at = CASE WHEN state = 'intended' THEN coalesce(ended_at, :now) ELSE ended_at END
FROM listed(:rows) AS f(name text, key text, _ text, _ text, record bigint, generation bigint)
WHERE brief(effects.name) = brief(f.name) AND brief(effects.key) = brief(f.key)

-- Whose the obligations were before they were adopted; rows of name, key and that record.
-- name: await_outcome
INSERT INTO awaits (name, key, record) SELECT name, key, record FROM listed(:rows) AS f(name text, key text, record bigint)
ON CONFLICT DO NOTHING

-- name: wait_elsewhere
UPDATE records SET hold = 'elsewhere', not_before = 0
FROM listed(:rows) AS f(_ text, _ text, record bigint)
WHERE records.id = f.record AND records.state = 'unconfirmed'

-- name: let_go
UPDATE records SET
    state = CASE WHEN EXISTS (SELECT 1 FROM awaits WHERE record = records.id) THEN 'unconfirmed' ELSE 'pending' END,
    hold = CASE WHEN EXISTS (SELECT 1 FROM awaits WHERE record = records.id) THEN 'elsewhere'
           WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END,
    run = NULL, fence = fence + 1, not_before = 0, since = :now, attempts = greatest(attempts - started, 0), started = 0
WHERE id = ANY (ids(:rows)) AND run = :run AND state = 'in_progress'
RETURNING state, vanished

-- name: await_no_longer
DELETE FROM awaits USING listed(:rows) AS f(name text, key text, _ text, _ text, record bigint)
WHERE brief(awaits.name) = brief(f.name) AND brief(awaits.key) = brief(f.key) AND awaits.record = f.record

-- name: some_await
SELECT 1 FROM awaits LIMIT 1

-- name: wake
UPDATE records SET hold = NULL
FROM listed(:rows) AS f(name text, key text) JOIN awaits a ON brief(a.name) = brief(f.name) AND brief(a.key) = brief(f.key)
WHERE records.id = a.record AND records.state = 'unconfirmed' AND records.hold = 'elsewhere'

-- name: awaited
DELETE FROM awaits USING listed(:rows) AS f(name text, key text)
WHERE brief(awaits.name) = brief(f.name) AND brief(awaits.key) = brief(f.key)

-- name: intend_again
UPDATE effects SET state = 'intended', fence = f.fence, run = :run, intended_at = :now, asks = f.asks, ended_at = NULL,
    deadline = f.deadline, settle = f.settle
FROM listed(:rows) AS f(name text, key text, record bigint, fence bigint, _ text, _ text, asks bigint,
                        _ double precision, deadline double precision, settle double precision)
WHERE brief(effects.name) = brief(f.name) AND brief(effects.key) = brief(f.key) AND effects.record = f.record

-- name: settle_entries
UPDATE effects SET state = f.state, receipt = coalesce(f.receipt, effects.receipt), ask_at = f.ask_at, asks = f.asks,
    sent_at = CASE WHEN f.state = 'sent' THEN coalesce(sent_at, :now) ELSE sent_at END,
    ended_at = CASE WHEN f.state = 'unknown' AND effects.state = 'intended' AND effects.fence = f.fence THEN :now
               ELSE ended_at END
FROM listed(:rows) AS f(name text, key text, record bigint, fence bigint, state text, receipt text, asks bigint,
                        ask_at double precision)
WHERE brief(effects.name) = brief(f.name) AND brief(effects.key) = brief(f.key) AND effects.record = f.record

-- Most of what is settled: rows of name, key, record and receipt.
-- name: confirm_entries
UPDATE effects SET state = 'confirmed', receipt = coalesce(f.receipt, effects.receipt), ask_at = 0, asks = 0,
    sent_at = coalesce(sent_at, :now)
FROM listed(:rows) AS f(name text, key text, record bigint, receipt text)
WHERE brief(effects.name) = brief(f.name) AND brief(effects.key) = brief(f.key) AND effects.record = f.record

-- name: entries
SELECT json_agg(json_build_array(e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record, e.generation,
    e.fence, e.first_at, e.intended_at, e.ask_at, e.asks, e.sent_at, greatest(:now - e.intended_at, 0),
    e.ended_at - greatest(e.ended_at - :now, 0), e.deadline, e.settle, coalesce(o.state, 'succeeded'), coalesce(o.vanished, 0),
    o.hold, o.instance, o.key, i.job, i.name, e.run, coalesce(i.closed, 0)))
FROM listed(:rows) AS f(name text, key text)
JOIN effects e ON brief(e.name) = brief(f.name) AND brief(e.key) = brief(f.key)
LEFT JOIN records o ON o.id = e.record LEFT JOIN instances i ON i.id = o.instance

-- name: entries_of
SELECT json_agg(json_build_array(e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record, e.generation,
    e.fence, e.first_at, e.intended_at, e.ask_at, e.asks, e.sent_at, greatest(:now - e.intended_at, 0),
    e.ended_at - greatest(e.ended_at - :now, 0), e.deadline, e.settle))
FROM effects e WHERE e.record = ANY (ids(:rows))

-- What these records owe or have done under these names, each with the input that it has now.
-- name: owed_for_the_same_input
SELECT json_agg(json_build_array(f.record, e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record,
    e.generation, e.fence, e.first_at, e.intended_at, e.ask_at, e.asks, e.sent_at, greatest(:now - e.intended_at, 0),
    e.ended_at - greatest(e.ended_at - :now, 0), e.deadline, e.settle))
FROM listed(:rows) AS f(record bigint, generation bigint, names json) JOIN effects e ON e.record = f.record
WHERE e.state <> 'absent' AND e.name = ANY (texts(f.names))
  AND (SELECT hash FROM inputs i WHERE i.record = e.record AND i.generation <= e.generation ORDER BY i.generation DESC LIMIT 1)
    = (SELECT hash FROM inputs i WHERE i.record = e.record AND i.generation <= f.generation ORDER BY i.generation DESC LIMIT 1)

-- And what they owed until another record took it over.
-- name: owed_through_others
SELECT json_agg(json_build_array(f.record, e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record,
    e.generation, e.fence, e.first_at, e.intended_at, e.ask_at, e.asks, e.sent_at, greatest(:now - e.intended_at, 0),
    e.ended_at - greatest(e.ended_at - :now, 0), e.deadline, e.settle))
FROM listed(:rows) AS f(record bigint, generation bigint, names json) JOIN owed o ON o.record = f.record
JOIN effects e ON brief(e.name) = brief(o.name) AND brief(e.key) = brief(o.key)
WHERE e.state <> 'absent' AND o.name = ANY (texts(f.names))
  AND (SELECT hash FROM inputs i WHERE i.record = o.record AND i.generation <= o.generation ORDER BY i.generation DESC LIMIT 1)
    = (SELECT hash FROM inputs i WHERE i.record = o.record AND i.generation <= f.generation ORDER BY i.generation DESC LIMIT 1)

-- Rows of name, key, and the record and generation that an obligation was adopted from.
-- name: note_owed
INSERT INTO owed (name, key, record, generation)
SELECT name, key, record, generation FROM listed(:rows) AS f(name text, key text, record bigint, generation bigint)
ON CONFLICT DO NOTHING

-- name: not_theirs
SELECT json_agg(json_build_array(f.record, f.fence))
FROM listed(:rows) AS f(name text, key text, record bigint, fence bigint)
WHERE NOT EXISTS (SELECT 1 FROM effects e
                  WHERE brief(e.name) = brief(f.name) AND brief(e.key) = brief(f.key) AND e.record = f.record)

-- The server's clock was set back: what an intent's age is nobody knows. Its time begins now, and the far side may have
-- forgotten its key.
-- name: begin_times_anew
UPDATE effects SET intended_at = :now, first_at = 0
WHERE intended_at > :now AND state IN ('intended', 'unknown')

-- name: open_runs_of
SELECT id, boot, lease_until FROM runs WHERE instance = :other AND ended IS NULL

-- name: names_of_job
SELECT c.name FROM instances i JOIN counts c ON c.instance = i.id
WHERE brief(i.job) = brief(:job) AND c.what = 'intents' GROUP BY c.name HAVING sum(c.n) > 0

-- What runs of the job have declared, each once; and what runs declare that have not ended, of any job.
-- name: declared_by_job
SELECT DISTINCT r.effects FROM instances i JOIN runs r ON r.instance = i.id
WHERE brief(i.job) = brief(:job) AND r.effects <> '{}'

-- name: declared_at_work
SELECT r.id, r.boot, r.lease_until, r.effects, i.job FROM runs r JOIN instances i ON i.id = r.instance
WHERE r.ended IS NULL AND r.effects <> '{}'

-- name: keys_of_job
SELECT c.name FROM instances i JOIN counts c ON c.instance = i.id
WHERE brief(i.job) = brief(:job) AND c.what = 'key' GROUP BY c.name HAVING sum(c.n) > 0

-- name: under_other_fields
SELECT fields, count(*) FROM (
    SELECT e.key, e.fields FROM effects e JOIN records r ON r.id = e.record JOIN instances i ON i.id = r.instance
    WHERE e.name = :name AND e.fields <> :fields AND e.state <> 'absent' AND i.job = :job
    UNION
    SELECT e.key, e.fields FROM owed o
    JOIN effects e ON brief(e.name) = brief(o.name) AND brief(e.key) = brief(o.key)
    JOIN records r ON r.id = o.record JOIN instances i ON i.id = r.instance
    WHERE o.name = :name AND e.fields <> :fields AND e.state <> 'absent' AND i.job = :job) others
GROUP BY fields ORDER BY fields

-- name: open_under_name
SELECT count(*) FROM effects e JOIN records r ON r.id = e.record JOIN instances i ON i.id = r.instance
WHERE e.name = :name AND e.state IN ('intended', 'unknown', 'sent') AND i.job = :job

-- Runs whose calls were given up on before they ended.
-- name: given_up_calls
SELECT json_agg(DISTINCT e.run) FROM records r JOIN effects e ON e.record = r.id AND e.state = 'intended'
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state = 'unconfirmed' AND r.vanished IN (0, 1)
  AND r.hold IN ('person', 'sending')

-- name: given_up_calls_ended
UPDATE effects SET ended_at = :now
WHERE state = 'intended' AND run = ANY (ids(:rows)) AND record IN (
    SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1)
      AND hold IN ('person', 'sending'))

-- The process of a run that has died is gone, and with it the calls under its intents.
-- name: calls_of_dead_ended
UPDATE effects SET ended_at = :now
WHERE state = 'intended' AND run = :run AND record IN (
    SELECT id FROM records WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run)

-- name: ask_about_given_up
UPDATE records SET hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END, not_before = 0
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1)
  AND hold IN ('person', 'sending')
  AND EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state = 'intended' AND e.run = ANY (ids(:rows)))
