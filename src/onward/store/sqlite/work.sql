-- name: insert_instance
INSERT INTO instances (job, name, location, created) VALUES (:job, :name, :location, :now)
ON CONFLICT (job, name) DO NOTHING

-- name: find_instance
SELECT id, location, cursor, source_complete, pass, partly_fed, fed_position, feeder
FROM instances WHERE job = :job AND name = :name

-- name: insert_run
INSERT INTO runs (instance, host, pid, params, versions, effects, started, boot, lease_until)
VALUES (:instance, :host, :pid, :params, :versions, :effects, :now, :boot, :steady + :lease)
RETURNING id

-- name: insert_versions
INSERT INTO versions (instance, step, version, parts)
SELECT :instance, value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows) WHERE true
ON CONFLICT (instance, step, version) DO NOTHING

-- name: open_runs
SELECT id, told, boot, lease_until FROM runs WHERE instance = :instance AND ended IS NULL AND id <> :run

-- name: run_is_open
SELECT ended IS NULL FROM runs WHERE id = :run

-- name: renew_run
UPDATE runs SET lease_until = :steady + :lease WHERE id = :run AND ended IS NULL

-- name: note_stop
UPDATE runs SET told = coalesce(told, :reason) WHERE id = :run AND ended IS NULL

-- name: end_run
UPDATE runs SET ended = :now, exit_code = :exit_code, reason = :reason WHERE id = :run AND ended IS NULL

-- name: held_by_dead
SELECT id, 'record_reset', step, :reason
FROM records WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run

-- name: held_by
SELECT vanished, CASE WHEN EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state IN ('intended', 'unknown', 'sent'))
                 THEN 'unconfirmed' ELSE 'pending' END, count(*), coalesce(sum(started), 0),
       coalesce(sum(started AND :death AND (deaths + 1 >= :to_suspect OR solo_deaths > 0)), 0)
FROM records WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run
GROUP BY 1, 2

-- name: put_back_dead
UPDATE records SET
    state = CASE WHEN EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state IN ('intended', 'unknown', 'sent'))
            THEN 'unconfirmed' ELSE 'pending' END,
    run = NULL, fence = fence + 1, not_before = 0, since = :now,
    attempts = max(attempts - started, 0),
    deaths = deaths + (started AND :death),
    hold = CASE
        WHEN :lives AND EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state = 'intended' AND e.run = :run
                                AND e.name NOT IN (SELECT value FROM json_each(:deduped))) THEN 'sending'
        WHEN (deaths + (started AND :death)) >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END,
    started = 0
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run

-- name: give_back
UPDATE records SET
    state = CASE WHEN EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state IN ('intended', 'unknown', 'sent'))
            THEN 'unconfirmed' ELSE 'pending' END,
    run = NULL, fence = fence + 1, since = :now,
    attempts = max(attempts - started, 0),
    hold = CASE
        WHEN EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state = 'intended' AND e.run = :run) THEN 'sending'
        WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END,
    started = 0
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run

-- name: failed_again
UPDATE records SET failed_runs = 0
WHERE state <> 'succeeded' AND instance = :instance AND state = 'failed' AND vanished = 0 AND failed_runs > 0 AND EXISTS (
    SELECT 1 FROM failures f JOIN json_each(:versions) v ON v.value ->> 0 = f.step
    WHERE f.record = records.id AND f.version <> v.value ->> 1)

-- name: failed_before
SELECT id, 'record_reset', NULL, 'failed in an earlier run: tried again'
FROM records WHERE state <> 'succeeded' AND instance = :instance AND state = 'failed' AND vanished = 0

-- name: count_failures
SELECT f.step, f.kind, count(*)
FROM records r JOIN failures f ON f.record = r.id
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state IN ('failed', 'quarantined') AND r.vanished = 0
GROUP BY f.step, f.kind

-- name: reset_failed
UPDATE records SET state = 'pending', run = NULL, not_before = 0, attempts = 0, since = :now,
    hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END
WHERE state <> 'succeeded' AND instance = :instance AND state = 'failed' AND vanished = 0

-- name: clamp_waits
UPDATE records SET not_before = :now + :cap
WHERE state <> 'succeeded' AND instance = :instance AND (state = 'pending' AND vanished = 0 OR state = 'unconfirmed')
  AND hold IS NULL AND not_before > :now + :longest

-- name: pick_unconfirmed
SELECT json_group_array(id) FROM (
    SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1) AND hold IS :hold
      AND (:only IS NULL OR id IN (SELECT value FROM json_each(:only)))
      AND (:shut IS NULL OR gate IS NULL OR gate NOT IN (SELECT value FROM json_each(:shut)))
      AND not_before <= :now
    ORDER BY not_before, position LIMIT :limit)

-- name: pick_asked
SELECT json_group_array(id) FROM (
    SELECT r.id FROM json_each(:only) j CROSS JOIN records r ON r.id = j.value
    WHERE r.state = 'unconfirmed' AND r.instance = :instance AND r.hold IS NOT 'sending'
    ORDER BY r.position LIMIT :limit)

-- name: pick_due
SELECT json_group_array(id) FROM (
    SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS :hold
      AND (:only IS NULL OR id IN (SELECT value FROM json_each(:only)))
      AND gate IS NULL AND not_before > 0 AND not_before <= :now
    ORDER BY not_before, rank, position LIMIT :limit)

-- name: pick_fresh
SELECT json_group_array(id) FROM (
    SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS :hold
      AND (:only IS NULL OR id IN (SELECT value FROM json_each(:only)))
      AND gate IS NULL AND not_before = 0
    ORDER BY rank, position LIMIT :limit)

-- name: next_due
SELECT min(due) FROM (
    SELECT min(not_before) AS due FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
      AND gate IS NULL AND not_before > 0 AND :fresh
    UNION ALL
    SELECT min(not_before) FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1) AND hold IS NULL
      AND (:shut IS NULL OR gate IS NULL OR gate NOT IN (SELECT value FROM json_each(:shut))))

-- name: candidates
SELECT json_group_array(json_array(
    r.id, r.fence, r.generation, r.key, r.position,
    (SELECT CASE WHEN octet_length(value) > :whole THEN octet_length(value) ELSE value END FROM inputs i
     WHERE i.record = r.id AND i.generation <= r.generation ORDER BY i.generation DESC LIMIT 1),
    r.step, r.attempts, r.deaths, r.solo_deaths, r.failed_runs,
    CASE WHEN r.fence > 0 THEN (SELECT json_group_array(json_array(step, version, output)) FROM checkpoints c
                                WHERE c.record = r.id AND c.generation = r.generation) END,
    r.state, r.vanished))
FROM json_each(:rows) j JOIN records r ON r.id = j.value

-- name: input
SELECT value FROM inputs WHERE record = :record AND generation <= :generation ORDER BY generation DESC LIMIT 1

-- name: claim
UPDATE records SET state = 'in_progress', run = :run, fence = fence + 1, hold = NULL, not_before = 0,
    started = :start, attempts = attempts + :start, since = :now
WHERE id IN (SELECT value FROM json_each(:rows)) AND state IN ('pending', 'unconfirmed')

-- name: finish
UPDATE records SET state = 'succeeded', run = NULL, started = 0, step = NULL, attempts = 0, deaths = 0, solo_deaths = 0,
    failed_runs = 0, lineage = :lineage, succeeded_generation = generation, since = :now
WHERE id IN (SELECT value FROM json_each(:rows)) AND fence = :fence AND run = :run AND state = 'in_progress'

-- name: advance
UPDATE records SET step = :step, started = :started, attempts = :attempts, deaths = :deaths,
    solo_deaths = :solo_deaths, since = :now
WHERE id IN (SELECT value FROM json_each(:rows)) AND fence = :fence AND run = :run AND state = 'in_progress'

-- name: leave
UPDATE records SET state = f.state, run = NULL, fence = records.fence + 1, started = 0, step = f.step,
    attempts = f.attempts, not_before = f.not_before, deaths = f.deaths, solo_deaths = f.solo_deaths,
    failed_runs = f.failed_runs, hold = f.hold, gate = f.gate, since = :now
FROM (SELECT value ->> 0 AS id, value ->> 1 AS fence, value ->> 2 AS state, value ->> 3 AS step,
             value ->> 4 AS attempts, value ->> 5 AS not_before, value ->> 6 AS deaths, value ->> 7 AS solo_deaths,
             value ->> 8 AS failed_runs, value ->> 9 AS hold, value ->> 10 AS gate FROM json_each(:rows)) f
WHERE records.id = f.id AND records.fence = f.fence AND records.run = :run AND records.state = 'in_progress'

-- name: holders
SELECT json_group_array(json_array(r.id, r.fence)) FROM json_each(:rows) j JOIN records r ON r.id = j.value ->> 0
WHERE r.fence = j.value ->> 1 AND r.run = :run AND r.state = 'in_progress'

-- name: insert_checkpoints
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
SELECT CAST(key AS INTEGER), :generation, :step, :version, value, :run, :now FROM json_each(:rows)

-- Of records that go on as they were claimed.
-- name: checkpoint_of_held
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
SELECT r.id, :generation, :step, :version, j.value, :run, :now
FROM json_each(:rows) j CROSS JOIN records r ON r.id = CAST(j.key AS INTEGER)
WHERE r.fence = :fence AND r.run = :run AND r.state = 'in_progress'

-- name: insert_failures
INSERT OR REPLACE INTO failures (record, step, version, kind, error_type, message, attempts, received, run, at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, :run, :now
FROM json_each(:rows)

-- name: keys_of
SELECT json_group_array(json_array(id, key)) FROM records WHERE id IN (SELECT value FROM json_each(:rows))

-- name: insert_history
INSERT INTO history (instance, run, at, actor, seq, hash, record, event, step, reason, detail)
SELECT :instance, :run, :now, :actor, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
    value ->> 6
FROM json_each(:rows)

-- name: run_head
SELECT entries, head FROM runs WHERE id = :run

-- name: acts_head
SELECT entries, head FROM instances WHERE id = :instance

-- name: move_run_head
UPDATE runs SET entries = :seq, head = :head WHERE id = :run

-- name: move_acts_head
UPDATE instances SET entries = :seq, head = :head WHERE id = :instance

-- Chains that may have grown since the run before began: acts of people, that run's, those of runs that were alive since.
-- name: heads_before
SELECT NULL, entries, head FROM instances WHERE id = :instance AND entries > 0
UNION ALL
SELECT runs.id, runs.entries, runs.head
FROM runs, (SELECT id, started FROM runs WHERE instance = :instance AND id <> :run ORDER BY id DESC LIMIT 1) newest
WHERE runs.instance = :instance AND runs.id <> :run
  AND (runs.ended IS NULL OR runs.ended >= newest.started OR runs.id = newest.id)

-- name: insert_lineage
INSERT INTO lineages (instance, versions, skipped) SELECT :instance, :versions, :skipped
WHERE NOT EXISTS (SELECT 1 FROM lineages WHERE instance = :instance AND versions = :versions AND skipped IS :skipped)

-- name: find_lineage
SELECT id FROM lineages WHERE instance = :instance AND versions = :versions AND skipped IS :skipped

-- name: add_counts
INSERT INTO counts (instance, what, name, n)
SELECT :instance, value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows) WHERE true
ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: counts
SELECT what, name, n FROM counts WHERE instance = :instance

-- name: drop_failure_counts
DELETE FROM counts WHERE instance = :instance AND what = 'failure'

-- name: take_feed
UPDATE instances SET feeder = :run WHERE id = :instance AND (feeder IS NULL OR feeder = :run
    OR EXISTS (SELECT 1 FROM runs WHERE runs.id = feeder AND ended IS NOT NULL))

-- name: feed_state
SELECT cursor, source_complete, pass, partly_fed, fed_position FROM instances WHERE id = :instance

-- name: forget_partial
UPDATE records SET pass = pass - 1
WHERE instance = :instance AND pass = :pass_number AND position > :fed_position

-- name: partial_forgotten
UPDATE instances SET partly_fed = 2 WHERE id = :instance

-- name: continue_pass
UPDATE instances SET source_complete = 0 WHERE id = :instance

-- name: new_pass
UPDATE instances SET source_complete = 0, cursor = NULL, fed_position = -1, partly_fed = 0,
    pass = pass + EXISTS (SELECT 1 FROM records WHERE instance = :instance)
WHERE id = :instance

-- name: fed
UPDATE instances SET cursor = :cursor, fed_position = max(fed_position, :fed_position), source_complete = :complete
WHERE id = :instance

-- name: partly_fed
UPDATE instances SET partly_fed = 1 WHERE id = :instance

-- name: last_record
SELECT coalesce(max(id), 0) FROM records

-- name: insert_records
INSERT INTO records (instance, key, position, pass, state)
SELECT :instance, key, value, :pass_number, 'pending' FROM json_each(:rows) WHERE true
ON CONFLICT (instance, key) DO NOTHING

-- name: insert_first_inputs
INSERT INTO inputs (record, generation, hash, value)
SELECT :base + key, 0, substr(value, 1, :hash_length), CASE WHEN :stored THEN substr(value, :hash_length + 1) END
FROM json_each(:rows)

-- name: presented
SELECT json_group_array(json_array(j.key, r.id, r.pass, r.position, r.state, r.generation, r.vanished,
    r.input_changed, r.lineage,
    r.state <> 'succeeded' AND r.fence > 0 AND (EXISTS (
        SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
        OR EXISTS (SELECT 1 FROM awaits a WHERE a.record = r.id)),
    json((SELECT json_array(hash, source_hash) FROM inputs i WHERE i.record = r.id ORDER BY i.generation DESC LIMIT 1)),
    json((SELECT json_array(hash, source_hash) FROM inputs i WHERE i.record = r.id AND i.generation <= r.generation
          ORDER BY i.generation DESC LIMIT 1))))
FROM json_each(:rows) j CROSS JOIN records r ON r.instance = :instance AND r.key = j.value ->> 0 -- in this order

-- name: seen_again
UPDATE records SET pass = :pass_number, position = f.position, vanished = 0
FROM (SELECT value ->> 0 AS id, value ->> 1 AS position FROM json_each(:rows)) f
WHERE records.id = f.id

-- name: replace_unfinished
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, generation = generation + 1, step = NULL,
    started = 0, attempts = 0, not_before = 0, deaths = 0, solo_deaths = 0, failed_runs = 0, hold = NULL, gate = NULL,
    input_changed = 0, since = :now
WHERE id IN (SELECT value ->> 0 FROM json_each(:rows))

-- name: inputs_wait
SELECT 1 FROM counts WHERE instance = :instance AND what = 'waits' AND name = 'input' AND n > 0

-- Records that another input waits for, and nothing of the one that they have is known to be sent.
-- name: not_to_be_sent
SELECT json_group_array(r.id) FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value ->> 0
WHERE r.input_changed = 1 AND NOT EXISTS (
    SELECT 1 FROM sent_for s WHERE s.record = r.id AND s.generation = r.generation)

-- So for first intents, rows of record and [[name, key], …]: what another has done meanwhile is adopted, and not sent.
-- name: not_to_be_begun
SELECT json_group_array(r.id) FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value ->> 0
WHERE r.input_changed = 1 AND NOT EXISTS (
    SELECT 1 FROM sent_for s WHERE s.record = r.id AND s.generation = r.generation)
  AND NOT EXISTS (
    SELECT 1 FROM json_each(j.value, '$[1]') p CROSS JOIN effects e ON e.name = p.value ->> 0 AND e.key = p.value ->> 1
    WHERE e.state <> 'absent')
  AND NOT EXISTS (SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
  AND NOT EXISTS (SELECT 1 FROM awaits w WHERE w.record = r.id)

-- name: due_to_take
SELECT json_group_array(json_array(r.id, r.state, r.vanished))
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value ->> 0
WHERE r.input_changed = 1 AND r.state IN ('pending', 'failed', 'quarantined')
  AND NOT EXISTS (SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
  AND NOT EXISTS (SELECT 1 FROM awaits a WHERE a.record = r.id)
  AND (r.state <> 'pending' OR r.hold IS 'stale' OR NOT EXISTS (
      SELECT 1 FROM sent_for s WHERE s.record = r.id AND s.generation = r.generation AND s.state = 'confirmed'))

-- name: without_another
SELECT json_group_array(r.id) FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value ->> 0
WHERE r.input_changed = 0

-- name: finished_with_another
SELECT json_group_array(json_array(r.id, r.vanished))
FROM json_each(:rows) j CROSS JOIN records r ON r.id = j.value ->> 0
WHERE r.input_changed = 1 AND r.state = 'succeeded'

-- name: go_on_to_settle
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, not_before = 0, attempts = 0, started = 0,
    failed_runs = 0, since = :now, deaths = CASE WHEN solo_deaths > 0 THEN max(deaths, :to_suspect) ELSE deaths END,
    solo_deaths = 0, hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END
WHERE id IN (SELECT value ->> 0 FROM json_each(:rows))

-- name: rank_alone
UPDATE records SET rank = f.rank
FROM (SELECT value ->> 0 AS id, value ->> 1 AS rank FROM json_each(:rows)) f
WHERE records.id = f.id

-- name: superseded_steps
SELECT c.step, count(*) FROM checkpoints c JOIN records r ON r.id = c.record AND r.generation = c.generation
WHERE r.id IN (SELECT value ->> 0 FROM json_each(:rows)) GROUP BY c.step

-- name: next_inputs
INSERT OR REPLACE INTO inputs (record, generation, hash, value)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:rows)

-- name: drop_next_inputs
DELETE FROM inputs WHERE (record, generation) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))

-- name: mark_input_changed
UPDATE records SET input_changed = f.changed
FROM (SELECT value ->> 0 AS id, value ->> 4 AS changed FROM json_each(:rows)) f
WHERE records.id = f.id

-- name: set_aside
UPDATE records SET state = 'quarantined', hold = NULL, not_before = 0, since = :now
WHERE state = 'pending' AND id IN (SELECT value ->> 0 FROM json_each(:rows))

-- name: vanishing
SELECT state, count(*) FROM records
WHERE instance = :instance AND pass < :pass_number AND vanished = 0 GROUP BY state

-- name: vanishing_lineages
SELECT lineage, input_changed, count(*) FROM records
WHERE instance = :instance AND pass < :pass_number AND vanished = 0 AND state = 'succeeded' GROUP BY lineage, input_changed

-- name: vanishing_steps
SELECT c.step, count(*) FROM records r CROSS JOIN checkpoints c ON c.record = r.id AND c.generation = r.generation
WHERE r.instance = :instance AND r.pass < :pass_number AND r.vanished = 0 GROUP BY c.step

-- name: early_ends
SELECT id, skipped FROM lineages WHERE instance = :instance AND skipped IS NOT NULL

-- name: gone_among
SELECT json_group_array(id) FROM records WHERE id IN (SELECT value FROM json_each(:rows)) AND vanished = 1

-- name: has_gone
SELECT 1 FROM counts WHERE instance = :instance AND what = 'vanished' AND n > 0 LIMIT 1

-- name: vanishing_records
SELECT id, 'record_vanished', NULL, 'no longer in the source'
FROM records WHERE instance = :instance AND pass < :pass_number AND vanished = 0

-- name: vanish_in_mid_send
UPDATE records SET vanished = 1
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND vanished = 0 AND pass < :pass_number
  AND EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state IN ('intended', 'unknown', 'sent'))

-- name: vanish
UPDATE records SET vanished = 1,
    state = CASE state WHEN 'in_progress' THEN 'pending' ELSE state END,
    hold = CASE WHEN state = 'in_progress' AND (deaths >= :to_suspect OR solo_deaths > 0) THEN 'suspect' ELSE hold END,
    fence = fence + (state = 'in_progress'), run = NULL, attempts = max(attempts - started, 0), started = 0
WHERE instance = :instance AND pass < :pass_number AND vanished = 0

-- name: first_failed
SELECT id, 'record_reset', NULL, 'the first records all failed alike: put back'
FROM records WHERE state <> 'succeeded' AND instance = :instance AND state IN ('failed', 'quarantined') AND vanished = 0
  AND EXISTS (SELECT 1 FROM failures f WHERE f.record = records.id AND f.step IS NOT NULL)

-- name: reset_first
UPDATE records SET state = 'pending', run = NULL, not_before = 0, attempts = 0, failed_runs = 0, since = :now,
    hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END
WHERE state <> 'succeeded' AND instance = :instance AND state = :state AND vanished = 0
  AND EXISTS (SELECT 1 FROM failures f WHERE f.record = records.id AND f.step IS NOT NULL)

-- name: release_stale
UPDATE records SET hold = NULL WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold = 'stale'

-- name: release_undecodable
UPDATE records SET hold = NULL
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1)
  AND hold = 'undecodable'

-- name: count_held
SELECT hold, count(*) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state IN ('pending', 'unconfirmed') AND vanished = 0
  AND hold IS NOT NULL
GROUP BY hold

-- name: move_instance
UPDATE instances SET location = :location WHERE id = :instance

-- name: first_wait_began
SELECT since FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
  AND gate IS NULL AND not_before > 0
ORDER BY not_before LIMIT 1

-- name: mend_waits
UPDATE records SET not_before = :now + not_before - since, since = :now
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
  AND not_before > :now AND since > :now
