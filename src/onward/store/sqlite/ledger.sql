-- name: intend
INSERT INTO effects (name, key, state, payload, payload_hash, record, generation, fence, run, first_at, intended_at,
    intended_steady, boot, fields, deadline, settle)
SELECT value ->> 0, value ->> 1, 'intended', value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, :run,
    :now, :now, :steady, :boot, value ->> 7, value ->> 8, value ->> 9
FROM json_each(:rows) WHERE true
ON CONFLICT (name, key) DO NOTHING

-- name: supersede
UPDATE effects SET state = 'intended', payload = f.payload, payload_hash = f.payload_hash, receipt = NULL,
    record = f.record, generation = f.generation, fence = f.fence, run = :run, first_at = :now, intended_at = :now,
    intended_steady = :steady, boot = :boot, ask_at = 0, asks = 0, sent_at = NULL, fields = f.fields,
    ended_at = NULL, ended_steady = NULL, ended_boot = NULL, deadline = f.deadline, settle = f.settle
FROM (SELECT value ->> 0 AS name, value ->> 1 AS key, value ->> 2 AS payload, value ->> 3 AS payload_hash,
             value ->> 4 AS record, value ->> 5 AS generation, value ->> 6 AS fence, value ->> 7 AS fields,
             value ->> 8 AS deadline, value ->> 9 AS settle
      FROM json_each(:rows)) f
WHERE effects.name = f.name AND effects.key = f.key AND effects.state = 'absent'

-- name: take
UPDATE effects SET record = f.record, generation = f.generation,
    state = CASE WHEN state = 'intended' AND effects.record <> f.record THEN 'unknown' ELSE state END,
    ended_at = CASE WHEN state = 'intended' THEN coalesce(ended_at, :now) ELSE ended_at END,
    ended_steady = CASE WHEN state = 'intended' AND ended_at IS NULL THEN :steady ELSE ended_steady END,
    ended_boot = CASE WHEN state = 'intended' AND ended_at IS NULL THEN :boot ELSE ended_boot END
FROM (SELECT value ->> 0 AS name, value ->> 1 AS key, value ->> 4 AS record, value ->> 5 AS generation
      FROM json_each(:rows)) f
WHERE effects.name = f.name AND effects.key = f.key

-- Whose the obligations were before they were adopted; rows of name, key and that record.
-- name: await_outcome
INSERT OR IGNORE INTO awaits (name, key, record) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows)

-- name: wait_elsewhere
UPDATE records SET hold = 'elsewhere', not_before = 0
WHERE id IN (SELECT value ->> 2 FROM json_each(:rows)) AND state = 'unconfirmed'

-- name: let_go
UPDATE records SET
    state = CASE WHEN EXISTS (SELECT 1 FROM awaits WHERE record = records.id) THEN 'unconfirmed' ELSE 'pending' END,
    hold = CASE WHEN EXISTS (SELECT 1 FROM awaits WHERE record = records.id) THEN 'elsewhere'
           WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END,
    run = NULL, fence = fence + 1, not_before = 0, since = :now, attempts = max(attempts - started, 0), started = 0
WHERE id IN (SELECT value FROM json_each(:rows)) AND run = :run AND state = 'in_progress'
RETURNING state, vanished

-- name: await_no_longer
DELETE FROM awaits WHERE (name, key, record) IN (SELECT value ->> 0, value ->> 1, value ->> 4 FROM json_each(:rows))

-- name: some_await
SELECT 1 FROM awaits LIMIT 1

-- name: wake
UPDATE records SET hold = NULL
WHERE state = 'unconfirmed' AND hold = 'elsewhere' AND id IN (
    SELECT a.record FROM json_each(:rows) j CROSS JOIN awaits a ON a.name = j.value ->> 0 AND a.key = j.value ->> 1)

-- name: awaited
DELETE FROM awaits WHERE (name, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))

-- name: intend_again
UPDATE effects SET state = 'intended', fence = f.fence, run = :run, intended_at = :now, intended_steady = :steady,
    boot = :boot, asks = f.asks, ended_at = NULL, ended_steady = NULL, ended_boot = NULL, deadline = f.deadline,
    settle = f.settle
FROM (SELECT value ->> 0 AS name, value ->> 1 AS key, value ->> 2 AS record, value ->> 3 AS fence, value ->> 6 AS asks,
             value ->> 8 AS deadline, value ->> 9 AS settle
      FROM json_each(:rows)) f
WHERE effects.name = f.name AND effects.key = f.key AND effects.record = f.record

-- name: settle_entries
UPDATE effects SET state = f.state, receipt = coalesce(f.receipt, effects.receipt), ask_at = f.ask_at, asks = f.asks,
    sent_at = CASE WHEN f.state = 'sent' THEN coalesce(sent_at, :now) ELSE sent_at END,
    ended_at = iif(f.state = 'unknown' AND effects.state = 'intended' AND effects.fence = f.fence, :now, ended_at),
    ended_steady = iif(f.state = 'unknown' AND effects.state = 'intended' AND effects.fence = f.fence, :steady, ended_steady),
    ended_boot = iif(f.state = 'unknown' AND effects.state = 'intended' AND effects.fence = f.fence, :boot, ended_boot)
FROM (SELECT value ->> 0 AS name, value ->> 1 AS key, value ->> 2 AS record, value ->> 3 AS fence, value ->> 4 AS state,
             value ->> 5 AS receipt, value ->> 6 AS asks, value ->> 7 AS ask_at FROM json_each(:rows)) f
WHERE effects.name = f.name AND effects.key = f.key AND effects.record = f.record

-- Most of what is settled: rows of name, key, record and receipt.
-- name: confirm_entries
UPDATE effects SET state = 'confirmed', receipt = coalesce(f.receipt, effects.receipt), ask_at = 0, asks = 0,
    sent_at = coalesce(sent_at, :now)
FROM (SELECT value ->> 0 AS name, value ->> 1 AS key, value ->> 2 AS record, value ->> 3 AS receipt
      FROM json_each(:rows)) f
WHERE effects.name = f.name AND effects.key = f.key AND effects.record = f.record

-- name: entries
SELECT json_group_array(json_array(e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record, e.generation,
    e.fence, e.first_at, e.intended_at, e.ask_at, e.asks, e.sent_at,
    CASE WHEN e.boot = :boot THEN max(:steady - e.intended_steady, 0) END,
    CASE WHEN e.ended_boot = :boot THEN :now - max(:steady - e.ended_steady, 0) ELSE min(e.ended_at, :now) END, e.deadline, e.settle, coalesce(o.state, 'succeeded'), coalesce(o.vanished, 0), o.hold, o.instance, o.key, i.job, i.name, e.run, coalesce(i.closed, 0)))
FROM json_each(:rows) j CROSS JOIN effects e ON e.name = j.value ->> 0 AND e.key = j.value ->> 1
LEFT JOIN records o ON o.id = e.record LEFT JOIN instances i ON i.id = o.instance

-- name: entries_of
SELECT json_group_array(json_array(e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record, e.generation,
    e.fence, e.first_at, e.intended_at, e.ask_at, e.asks, e.sent_at,
    CASE WHEN e.boot = :boot THEN max(:steady - e.intended_steady, 0) END,
    CASE WHEN e.ended_boot = :boot THEN :now - max(:steady - e.ended_steady, 0) ELSE min(e.ended_at, :now) END, e.deadline, e.settle))
FROM json_each(:rows) j CROSS JOIN effects e ON e.record = j.value

-- What these records owe or have done under these names, each with the input that it has now.
-- name: owed_for_the_same_input
SELECT json_group_array(json_array(j.value ->> 0, e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record, e.generation,
    e.fence, e.first_at, e.intended_at, e.ask_at, e.asks, e.sent_at,
    CASE WHEN e.boot = :boot THEN max(:steady - e.intended_steady, 0) END,
    CASE WHEN e.ended_boot = :boot THEN :now - max(:steady - e.ended_steady, 0) ELSE min(e.ended_at, :now) END, e.deadline, e.settle))
FROM json_each(:rows) j CROSS JOIN effects e ON e.record = j.value ->> 0
WHERE e.state <> 'absent' AND e.name IN (SELECT value FROM json_each(j.value, '$[2]'))
  AND (SELECT hash FROM inputs i WHERE i.record = e.record AND i.generation <= e.generation ORDER BY i.generation DESC LIMIT 1)
    = (SELECT hash FROM inputs i WHERE i.record = e.record AND i.generation <= j.value ->> 1
       ORDER BY i.generation DESC LIMIT 1)

-- And what they owed until another record took it over.
-- name: owed_through_others
SELECT json_group_array(json_array(j.value ->> 0, e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record, e.generation,
    e.fence, e.first_at, e.intended_at, e.ask_at, e.asks, e.sent_at,
    CASE WHEN e.boot = :boot THEN max(:steady - e.intended_steady, 0) END,
    CASE WHEN e.ended_boot = :boot THEN :now - max(:steady - e.ended_steady, 0) ELSE min(e.ended_at, :now) END, e.deadline, e.settle))
FROM json_each(:rows) j CROSS JOIN owed o ON o.record = j.value ->> 0
CROSS JOIN effects e ON e.name = o.name AND e.key = o.key
WHERE e.state <> 'absent' AND o.name IN (SELECT value FROM json_each(j.value, '$[2]'))
  AND (SELECT hash FROM inputs i WHERE i.record = o.record AND i.generation <= o.generation ORDER BY i.generation DESC LIMIT 1)
    = (SELECT hash FROM inputs i WHERE i.record = o.record AND i.generation <= j.value ->> 1
       ORDER BY i.generation DESC LIMIT 1)

-- Rows of name, key, and the record and generation that an obligation was adopted from.
-- name: note_owed
INSERT OR IGNORE INTO owed (name, key, record, generation)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:rows)

-- name: not_theirs
SELECT json_group_array(json_array(f.value ->> 2, f.value ->> 3)) FROM json_each(:rows) f
WHERE NOT EXISTS (SELECT 1 FROM effects e
                  WHERE e.name = f.value ->> 0 AND e.key = f.value ->> 1 AND e.record = f.value ->> 2)

-- The clock was set back while nobody counted: what an intent's age is nobody knows. Its time begins now, and the
-- far side may have forgotten its key.
-- name: begin_times_anew
UPDATE effects SET intended_at = :now, intended_steady = :steady, boot = :boot, first_at = 0
WHERE boot <> :boot AND intended_at > :now AND state IN ('intended', 'unknown')

-- name: open_runs_of
SELECT id, boot, lease_until FROM runs WHERE instance = :other AND ended IS NULL

-- name: names_of_job
SELECT DISTINCT c.name FROM instances i JOIN counts c ON c.instance = i.id
WHERE i.job = :job AND c.what = 'intents' AND c.n > 0

-- What runs of the job have declared, each once; and what runs declare that have not ended, of any job.
-- name: declared_by_job
SELECT DISTINCT r.effects FROM instances i JOIN runs r ON r.instance = i.id WHERE i.job = :job AND r.effects <> '{}'

-- name: declared_at_work
SELECT r.id, r.boot, r.lease_until, r.effects, i.job FROM runs r JOIN instances i ON i.id = r.instance
WHERE r.ended IS NULL AND r.effects <> '{}'

-- name: keys_of_job
SELECT DISTINCT c.name FROM instances i JOIN counts c ON c.instance = i.id
WHERE i.job = :job AND c.what = 'key' AND c.n > 0

-- name: under_other_fields
SELECT fields, count(*) FROM (
    SELECT e.key, e.fields FROM effects e JOIN records r ON r.id = e.record JOIN instances i ON i.id = r.instance
    WHERE e.name = :name AND e.fields <> :fields AND e.state <> 'absent' AND i.job = :job
    UNION
    SELECT e.key, e.fields FROM owed o JOIN effects e ON e.name = o.name AND e.key = o.key
    JOIN records r ON r.id = o.record JOIN instances i ON i.id = r.instance
    WHERE o.name = :name AND e.fields <> :fields AND e.state <> 'absent' AND i.job = :job)
GROUP BY fields ORDER BY fields

-- name: open_under_name
SELECT count(*) FROM effects e JOIN records r ON r.id = e.record JOIN instances i ON i.id = r.instance
WHERE e.name = :name AND e.state IN ('intended', 'unknown', 'sent') AND i.job = :job

-- Runs whose calls were given up on before they ended.
-- name: given_up_calls
SELECT json_group_array(DISTINCT e.run) FROM records r CROSS JOIN effects e ON e.record = r.id AND e.state = 'intended'
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state = 'unconfirmed' AND r.vanished IN (0, 1)
  AND r.hold IN ('person', 'sending')

-- name: given_up_calls_ended
UPDATE effects SET ended_at = :now, ended_steady = :steady, ended_boot = :boot
WHERE state = 'intended' AND run IN (SELECT value FROM json_each(:rows)) AND record IN (
    SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1)
      AND hold IN ('person', 'sending'))

-- The process of a run that has died is gone, and with it the calls under its intents.
-- name: calls_of_dead_ended
UPDATE effects SET ended_at = :now, ended_steady = :steady, ended_boot = :boot
WHERE state = 'intended' AND run = :run AND record IN (
    SELECT id FROM records WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run)

-- name: ask_about_given_up
UPDATE records SET hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END, not_before = 0
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1)
  AND hold IN ('person', 'sending')
  AND EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state = 'intended'
              AND e.run IN (SELECT value FROM json_each(:rows)))
