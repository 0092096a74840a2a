-- name: insert_instance
INSERT INTO instances (job, name, location, created) VALUES (:job, :name, :location, :now)
ON CONFLICT DO NOTHING

-- name: find_instance
SELECT id, location, cursor, source_complete, pass, partly_fed, fed_position, feeder
FROM instances WHERE brief(job) = brief(:job) AND brief(name) = brief(:name)

-- name: insert_run
WITH next AS (UPDATE numbers SET n = n + 1 WHERE what = 'run' RETURNING n)
INSERT INTO runs (id, instance, host, pid, params, versions, effects, started, boot, lease_until)
SELECT n, :instance, :host, :pid, :params, :versions, :effects, :now, :boot, :steady + :lease FROM next
RETURNING id

-- name: insert_versions
INSERT INTO versions (instance, step, version, parts)
SELECT :instance, f.step, f.version, f.parts FROM listed(:rows) AS f(step text, version text, parts text)
ON CONFLICT DO NOTHING

-- name: open_runs
SELECT id, told, boot, lease_until FROM runs WHERE instance = :instance AND ended IS NULL AND id <> :run ORDER BY id

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
ORDER BY position, id

-- name: held_by
SELECT vanished, put_back, count(*), coalesce(sum(started), 0)::bigint,
       count(*) FILTER (WHERE started = 1 AND :death = 1 AND (deaths + 1 >= :to_suspect OR solo_deaths > 0))
FROM (SELECT r.*, CASE WHEN EXISTS (
        SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
        THEN 'unconfirmed' ELSE 'pending' END AS put_back
      FROM records r WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run) held
GROUP BY vanished, put_back

-- name: put_back_dead
UPDATE records SET
    state = CASE WHEN EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state IN ('intended', 'unknown', 'sent'))
            THEN 'unconfirmed' ELSE 'pending' END,
    run = NULL, fence = fence + 1, not_before = 0, since = :now,
    attempts = greatest(attempts - started, 0),
    deaths = deaths + started * :death,
    hold = CASE
        WHEN :lives = 1 AND EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state = 'intended'
                                    AND e.run = :run AND e.name <> ALL (texts(:deduped))) THEN 'sending'
        WHEN deaths + started * :death >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END,
    started = 0
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run

-- name: give_back
UPDATE records SET
    state = CASE WHEN EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state IN ('intended', 'unknown', 'sent'))
            THEN 'unconfirmed' ELSE 'pending' END,
    run = NULL, fence = fence + 1, since = :now,
    attempts = greatest(attempts - started, 0),
    hold = CASE
        WHEN EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state = 'intended' AND e.run = :run) THEN 'sending'
        WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END,
    started = 0
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND run = :run

-- name: failed_again
UPDATE records SET failed_runs = 0
WHERE state <> 'succeeded' AND instance = :instance AND state = 'failed' AND vanished = 0 AND failed_runs > 0 AND EXISTS (
    SELECT 1 FROM failures f JOIN listed(:versions::json) AS v(step text, version text) ON v.step = f.step
    WHERE f.record = records.id AND f.version <> v.version)

-- name: failed_before
SELECT id, 'record_reset', NULL, 'failed in an earlier run: tried again'
FROM records WHERE state <> 'succeeded' AND instance = :instance AND state = 'failed' AND vanished = 0
ORDER BY position, id

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
WHERE id IN (SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND (state = 'pending' AND vanished = 0 OR state = 'unconfirmed')
      AND hold IS NULL AND not_before > :now + :longest
    FOR UPDATE SKIP LOCKED)

-- Who is chosen is locked until the change ends: others pass over it.
-- name: pick_unconfirmed
SELECT json_agg(id) FROM (
    SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1)
      AND coalesce(hold, '') = coalesce(:hold, '')
      AND (:only IS NULL OR id = ANY (ids(:only)))
      AND (:shut IS NULL OR gate IS NULL OR gate <> ALL (texts(:shut)))
      AND not_before <= :now
    ORDER BY not_before, position LIMIT :limit
    FOR UPDATE SKIP LOCKED) chosen

-- name: pick_asked
SELECT json_agg(id) FROM (
    SELECT r.id FROM records r
    WHERE r.id = ANY (ids(:only)) AND r.state = 'unconfirmed' AND r.instance = :instance
      AND r.hold IS DISTINCT FROM 'sending'
    ORDER BY r.position LIMIT :limit
    FOR UPDATE SKIP LOCKED) chosen

-- name: pick_due
SELECT json_agg(id) FROM (
    SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
      AND coalesce(hold, '') = coalesce(:hold, '') AND brief(coalesce(gate, '')) = ''
      AND (:only IS NULL OR id = ANY (ids(:only)))
      AND not_before > 0 AND not_before <= :now
    ORDER BY not_before, rank, position LIMIT :limit
    FOR UPDATE SKIP LOCKED) chosen

-- name: pick_fresh
SELECT json_agg(id) FROM (
    SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
      AND coalesce(hold, '') = coalesce(:hold, '') AND brief(coalesce(gate, '')) = ''
      AND (:only IS NULL OR id = ANY (ids(:only)))
      AND not_before = 0
    ORDER BY rank, position LIMIT :limit
    FOR UPDATE SKIP LOCKED) chosen

-- name: next_due
SELECT min(due) FROM (
    SELECT min(not_before) AS due FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
      AND coalesce(hold, '') = '' AND brief(coalesce(gate, '')) = '' AND not_before > 0 AND :fresh = 1
    UNION ALL
    SELECT min(not_before) FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1)
      AND coalesce(hold, '') = ''
      AND (:shut IS NULL OR gate IS NULL OR gate <> ALL (texts(:shut)))) dues

-- name: candidates
SELECT json_agg(json_build_array(
    r.id, r.fence, r.generation, r.key, r.position, v.value,
    r.step, r.attempts, r.deaths, r.solo_deaths, r.failed_runs,
    CASE WHEN r.fence > 0 THEN (SELECT json_agg(json_build_array(step, version, output)) FROM checkpoints c
                                WHERE c.record = r.id AND c.generation = r.generation) END,
    r.state, r.vanished) ORDER BY f.place)
FROM unnest(ids(:rows)) WITH ORDINALITY AS f(id, place) JOIN records r ON r.id = f.id
LEFT JOIN LATERAL (
    SELECT CASE WHEN octet_length(i.value) > :whole THEN to_json(octet_length(i.value)) ELSE to_json(i.value) END AS value
    FROM inputs i WHERE i.record = r.id AND i.generation <= r.generation ORDER BY i.generation DESC LIMIT 1) v ON true

-- name: input
SELECT value FROM inputs WHERE record = :record AND generation <= :generation ORDER BY generation DESC LIMIT 1

-- Records that are known by their numbers are found by these alone: `coalesce` keeps the index of what is to do, which has
-- many dead entries between two vacuums, from being walked.
-- name: claim
UPDATE records SET state = 'in_progress', run = :run, fence = fence + 1, hold = NULL, not_before = 0,
    started = :start, attempts = attempts + :start, since = :now
WHERE id = ANY (ids(:rows)) AND coalesce(state, '') IN ('pending', 'unconfirmed')

-- name: finish
UPDATE records SET state = 'succeeded', run = NULL, started = 0, step = NULL, attempts = 0, deaths = 0, solo_deaths = 0,
    failed_runs = 0, lineage = :lineage, succeeded_generation = generation, since = :now
WHERE id = ANY (ids(:rows)) AND fence = :fence AND run = :run AND coalesce(state, '') = 'in_progress'

-- name: advance
UPDATE records SET step = :step, started = :started, attempts = :attempts, deaths = :deaths,
    solo_deaths = :solo_deaths, since = :now
WHERE id = ANY (ids(:rows)) AND fence = :fence AND run = :run AND coalesce(state, '') = 'in_progress'

-- name: leave
UPDATE records SET state = f.state, run = NULL, fence = records.fence + 1, started = 0, step = f.step,
    attempts = f.attempts, not_before = f.not_before, deaths = f.deaths, solo_deaths = f.solo_deaths,
    failed_runs = f.failed_runs, hold = f.hold, gate = f.gate, since = :now
FROM listed(:rows) AS f(id bigint, fence bigint, state text, step text, attempts bigint, not_before double precision,
                        deaths bigint, solo_deaths bigint, failed_runs bigint, hold text, gate text)
WHERE records.id = f.id AND records.fence = f.fence AND records.run = :run AND coalesce(records.state, '') = 'in_progress'

-- name: holders
SELECT json_agg(json_build_array(r.id, r.fence)) FROM listed(:rows) AS f(id bigint, fence bigint)
JOIN records r ON r.id = f.id
WHERE r.fence = f.fence AND r.run = :run AND coalesce(r.state, '') = 'in_progress'

-- name: insert_checkpoints
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
SELECT f.key::bigint, :generation, :step, :version, f.value, :run, :now FROM json_each_text(:rows) f

-- Of records that go on as they were claimed.
-- name: checkpoint_of_held
INSERT INTO checkpoints (record, generation, step, version, output, run, at)
SELECT r.id, :generation, :step, :version, f.value, :run, :now
FROM json_each_text(:rows) f JOIN records r ON r.id = f.key::bigint
WHERE r.fence = :fence AND r.run = :run AND coalesce(r.state, '') = 'in_progress'

-- name: insert_failures
INSERT INTO failures (record, step, version, kind, error_type, message, attempts, received, run, at)
SELECT record, step, version, kind, error_type, message, attempts, received, :run, :now
FROM listed(:rows) AS f(record bigint, step text, version text, kind text, error_type text, message text, attempts bigint,
                        received text)
ON CONFLICT (record) DO UPDATE SET step = excluded.step, version = excluded.version, kind = excluded.kind,
    error_type = excluded.error_type, message = excluded.message, attempts = excluded.attempts,
    received = excluded.received, run = excluded.run, at = excluded.at

-- name: keys_of
SELECT json_agg(json_build_array(id, key)) FROM records WHERE id = ANY (ids(:rows))

-- name: insert_history
INSERT INTO history (instance, run, at, actor, seq, hash, record, event, step, reason, detail)
SELECT :instance, :run, :now, :actor, seq, hash, record, event, step, reason, detail
FROM listed(:rows) AS f(seq bigint, hash text, record bigint, event text, step text, reason text, detail text)
ORDER BY place

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
SELECT NULL::bigint, entries, head FROM instances WHERE id = :instance AND entries > 0
UNION ALL
SELECT runs.id, runs.entries, runs.head
FROM runs, (SELECT id, started FROM runs WHERE instance = :instance AND id <> :run ORDER BY id DESC LIMIT 1) newest
WHERE runs.instance = :instance AND runs.id <> :run
  AND (runs.ended IS NULL OR runs.ended >= newest.started OR runs.id = newest.id)

-- name: insert_lineage
INSERT INTO lineages (instance, versions, skipped) SELECT :instance, :versions, :skipped
WHERE NOT EXISTS (SELECT 1 FROM lineages WHERE instance = :instance AND brief(versions) = brief(:versions)
                  AND coalesce(skipped, '') = coalesce(:skipped, ''))
ON CONFLICT DO NOTHING

-- name: find_lineage
SELECT id FROM lineages
WHERE instance = :instance AND brief(versions) = brief(:versions) AND coalesce(skipped, '') = coalesce(:skipped, '')

-- name: add_counts
INSERT INTO counts (instance, run, what, name, n)
SELECT :instance, coalesce(:run, 0), what, name, n FROM listed(:rows) AS f(what text, name text, n bigint)
ORDER BY place
ON CONFLICT (instance, what, brief(name), run) DO UPDATE SET n = counts.n + excluded.n

-- name: counts
SELECT what, name, sum(n)::bigint FROM counts WHERE instance = :instance GROUP BY what, name

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
    pass = pass + (EXISTS (SELECT 1 FROM records WHERE instance = :instance))::int
WHERE id = :instance

-- name: fed
UPDATE instances SET cursor = :cursor, fed_position = greatest(fed_position, :fed_position), source_complete = :complete
WHERE id = :instance

-- name: partly_fed
UPDATE instances SET partly_fed = 1 WHERE id = :instance

-- Numbers of a block of the source lie behind one another, in a million of their own.
-- name: last_record
SELECT (nextval('record_blocks') - 1) * 1048576

-- name: insert_records
INSERT INTO records (id, instance, key, position, pass, state)
SELECT :base + place - 1, :instance, key, value::bigint, :pass_number, 'pending'
FROM json_each_text(:rows) WITH ORDINALITY AS f(key, value, place)
ON CONFLICT (instance, brief(key)) DO NOTHING

-- name: insert_first_inputs
INSERT INTO inputs (record, generation, hash, value)
SELECT :base + place - 1, 0, substr(value, 1, :hash_length::int), CASE WHEN :stored = 1 THEN substr(value, :hash_length::int + 1) END
FROM json_array_elements_text(:rows) WITH ORDINALITY AS f(value, place)

-- name: presented
SELECT json_agg(json_build_array(f.place, r.id, r.pass, r.position, r.state, r.generation, r.vanished,
    r.input_changed, r.lineage,
    r.state <> 'succeeded' AND r.fence > 0 AND (EXISTS (
        SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
        OR EXISTS (SELECT 1 FROM awaits a WHERE a.record = r.id)),
    (SELECT json_build_array(hash, source_hash) FROM inputs i WHERE i.record = r.id ORDER BY i.generation DESC LIMIT 1),
    (SELECT json_build_array(hash, source_hash) FROM inputs i WHERE i.record = r.id AND i.generation <= r.generation
     ORDER BY i.generation DESC LIMIT 1)) ORDER BY f.place)
FROM listed(:rows) AS f(key text) JOIN records r ON r.instance = :instance AND brief(r.key) = brief(f.key)

-- name: seen_again
UPDATE records SET pass = :pass_number, position = f.position, vanished = 0
FROM listed(:rows) AS f(id bigint, position bigint)
WHERE records.id = f.id

-- name: replace_unfinished
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, generation = generation + 1, step = NULL,
    started = 0, attempts = 0, not_before = 0, deaths = 0, solo_deaths = 0, failed_runs = 0, hold = NULL, gate = NULL,
    input_changed = 0, since = :now
FROM listed(:rows) AS f(id bigint)
WHERE records.id = f.id

-- name: inputs_wait
SELECT 1 FROM counts WHERE instance = :instance AND what = 'waits' AND name = 'input' HAVING sum(n) > 0

-- Records that another input waits for, and nothing of the one that they have is known to be sent.
-- name: not_to_be_sent
SELECT json_agg(r.id) FROM listed(:rows) AS f(id bigint) JOIN records r ON r.id = f.id
WHERE r.input_changed = 1 AND NOT EXISTS (
    SELECT 1 FROM sent_for s WHERE s.record = r.id AND s.generation = r.generation)

-- So for first intents, rows of record and [[name, key], …]: what another has done meanwhile is adopted, and not sent.
-- name: not_to_be_begun
SELECT json_agg(r.id) FROM listed(:rows) AS f(id bigint, places json) JOIN records r ON r.id = f.id
WHERE r.input_changed = 1 AND NOT EXISTS (
    SELECT 1 FROM sent_for s WHERE s.record = r.id AND s.generation = r.generation)
  AND NOT EXISTS (
    SELECT 1 FROM listed(f.places) AS p(name text, key text)
    JOIN effects e ON brief(e.name) = brief(p.name) AND brief(e.key) = brief(p.key)
    WHERE e.state <> 'absent')
  AND NOT EXISTS (SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
  AND NOT EXISTS (SELECT 1 FROM awaits w WHERE w.record = r.id)

-- name: due_to_take
SELECT json_agg(json_build_array(r.id, r.state, r.vanished))
FROM listed(:rows) AS f(id bigint) JOIN records r ON r.id = f.id
WHERE r.input_changed = 1 AND r.state IN ('pending', 'failed', 'quarantined')
  AND NOT EXISTS (SELECT 1 FROM effects e WHERE e.record = r.id AND e.state IN ('intended', 'unknown', 'sent'))
  AND NOT EXISTS (SELECT 1 FROM awaits a WHERE a.record = r.id)
  AND (r.state <> 'pending' OR r.hold IS NOT DISTINCT FROM 'stale' OR NOT EXISTS (
      SELECT 1 FROM sent_for s WHERE s.record = r.id AND s.generation = r.generation AND s.state = 'confirmed'))

-- name: without_another
SELECT json_agg(r.id) FROM listed(:rows) AS f(id bigint) JOIN records r ON r.id = f.id
WHERE r.input_changed = 0

-- name: finished_with_another
SELECT json_agg(json_build_array(r.id, r.vanished))
FROM listed(:rows) AS f(id bigint) JOIN records r ON r.id = f.id
WHERE r.input_changed = 1 AND r.state = 'succeeded'

-- name: go_on_to_settle
UPDATE records SET state = 'pending', run = NULL, fence = fence + 1, not_before = 0, attempts = 0, started = 0,
    failed_runs = 0, since = :now, deaths = CASE WHEN solo_deaths > 0 THEN greatest(deaths, :to_suspect) ELSE deaths END,
    solo_deaths = 0, hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END
FROM listed(:rows) AS f(id bigint)
WHERE records.id = f.id

-- name: rank_alone
UPDATE records SET rank = f.rank
FROM listed(:rows) AS f(id bigint, rank text)
WHERE records.id = f.id

-- name: superseded_steps
SELECT c.step, count(*)
FROM listed(:rows) AS f(id bigint) JOIN records r ON r.id = f.id
JOIN checkpoints c ON c.record = r.id AND c.generation = r.generation
GROUP BY c.step

-- name: next_inputs
INSERT INTO inputs (record, generation, hash, value)
SELECT record, generation, hash, value FROM listed(:rows) AS f(record bigint, generation bigint, hash text, value text)
ON CONFLICT (record, generation) DO UPDATE SET hash = excluded.hash, value = excluded.value, source_hash = NULL

-- name: drop_next_inputs
DELETE FROM inputs USING listed(:rows) AS f(record bigint, generation bigint)
WHERE inputs.record = f.record AND inputs.generation = f.generation

-- name: mark_input_changed
UPDATE records SET input_changed = f.changed
FROM listed(:rows) AS f(id bigint, _ bigint, _ text, _ text, changed bigint)
WHERE records.id = f.id

-- name: set_aside
UPDATE records SET state = 'quarantined', hold = NULL, not_before = 0, since = :now
FROM listed(:rows) AS f(id bigint)
WHERE records.state = 'pending' AND records.id = f.id

-- name: vanishing
SELECT state, count(*) FROM records
WHERE instance = :instance AND pass < :pass_number AND vanished = 0 GROUP BY state

-- name: vanishing_lineages
SELECT lineage, input_changed, count(*) FROM records
WHERE instance = :instance AND pass < :pass_number AND vanished = 0 AND state = 'succeeded' GROUP BY lineage, input_changed

-- name: vanishing_steps
SELECT c.step, count(*) FROM records r JOIN checkpoints c ON c.record = r.id AND c.generation = r.generation
WHERE r.instance = :instance AND r.pass < :pass_number AND r.vanished = 0 GROUP BY c.step

-- name: early_ends
SELECT id, skipped FROM lineages WHERE instance = :instance AND skipped IS NOT NULL

-- name: gone_among
SELECT json_agg(id) FROM records WHERE id = ANY (ids(:rows)) AND vanished = 1

-- name: has_gone
SELECT 1 FROM counts WHERE instance = :instance AND what = 'vanished' GROUP BY name HAVING sum(n) > 0 LIMIT 1

-- name: vanishing_records
SELECT id, 'record_vanished', NULL, 'no longer in the source'
FROM records WHERE instance = :instance AND pass < :pass_number AND vanished = 0
ORDER BY position, id

-- name: vanish_in_mid_send
UPDATE records SET vanished = 1
WHERE state <> 'succeeded' AND instance = :instance AND state = 'in_progress' AND vanished = 0 AND pass < :pass_number
  AND EXISTS (SELECT 1 FROM effects e WHERE e.record = records.id AND e.state IN ('intended', 'unknown', 'sent'))

-- name: vanish
UPDATE records SET vanished = 1,
    state = CASE state WHEN 'in_progress' THEN 'pending' ELSE state END,
    hold = CASE WHEN state = 'in_progress' AND (deaths >= :to_suspect OR solo_deaths > 0) THEN 'suspect' ELSE hold END,
    fence = fence + (state = 'in_progress')::int, run = NULL, attempts = greatest(attempts - started, 0), started = 0
WHERE instance = :instance AND pass < :pass_number AND vanished = 0

-- name: first_failed
SELECT id, 'record_reset', NULL, 'the first records all failed alike: put back'
FROM records WHERE state <> 'succeeded' AND instance = :instance AND state IN ('failed', 'quarantined') AND vanished = 0
  AND EXISTS (SELECT 1 FROM failures f WHERE f.record = records.id AND f.step IS NOT NULL)
ORDER BY position, id

-- name: reset_first
UPDATE records SET state = 'pending', run = NULL, not_before = 0, attempts = 0, failed_runs = 0, since = :now,
    hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END
WHERE state <> 'succeeded' AND instance = :instance AND state = :state AND vanished = 0
  AND EXISTS (SELECT 1 FROM failures f WHERE f.record = records.id AND f.step IS NOT NULL)

-- name: release_stale
UPDATE records SET hold = NULL
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold = 'stale'

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
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND coalesce(hold, '') = ''
  AND brief(coalesce(gate, '')) = '' AND not_before > 0
ORDER BY not_before LIMIT 1

-- name: mend_waits
UPDATE records SET not_before = :now + not_before - since, since = :now
WHERE id IN (SELECT id FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND coalesce(hold, '') = ''
      AND not_before > :now AND since > :now
    FOR UPDATE SKIP LOCKED)
