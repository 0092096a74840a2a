-- name: gates_waited_at
WITH RECURSIVE found(brief_gate) AS (
    SELECT (SELECT min(brief(coalesce(gate, ''))) FROM records
            WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
              AND coalesce(hold, '') = coalesce(:hold, '') AND brief(coalesce(gate, '')) > '')
    UNION ALL
    SELECT (SELECT min(brief(coalesce(gate, ''))) FROM records
            WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
              AND coalesce(hold, '') = coalesce(:hold, '') AND brief(coalesce(gate, '')) > found.brief_gate)
    FROM found WHERE found.brief_gate IS NOT NULL)
SELECT json_agg((SELECT gate FROM records
                 WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
                   AND coalesce(hold, '') = coalesce(:hold, '') AND brief(coalesce(gate, '')) = found.brief_gate LIMIT 1))
FROM found WHERE brief_gate IS NOT NULL

-- Back-offs that are over join those that never failed, so that all stand in one order.
-- name: wake_due
UPDATE records SET not_before = 0 WHERE id IN (
    SELECT r.id FROM json_array_elements_text(:rows) AS f(gate) CROSS JOIN LATERAL (
        SELECT id FROM records
        WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
          AND coalesce(hold, '') = coalesce(:hold, '') AND brief(coalesce(gate, '')) = brief(coalesce(f.gate, ''))
          AND not_before > 0 AND not_before <= :now
        LIMIT :most
        FOR UPDATE SKIP LOCKED) r
    LIMIT :most)

-- name: pick_at_gates
SELECT json_agg(id) FROM (
    SELECT r.id, r.rank, r.position
    FROM listed(:rows) AS f(gate text, room bigint) CROSS JOIN LATERAL (
        SELECT id, rank, position FROM records
        WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
          AND coalesce(hold, '') = coalesce(:hold, '') AND brief(coalesce(gate, '')) = brief(f.gate) AND not_before = 0
          AND (:only IS NULL OR id = ANY (ids(:only)))
          AND id <> ALL (ids(:later))
        ORDER BY rank, position LIMIT least(f.room, :most)
        FOR UPDATE SKIP LOCKED) r
    ORDER BY rank, position LIMIT :limit) chosen

-- name: gates_of
SELECT json_agg(DISTINCT gate) FROM records WHERE id = ANY (ids(:rows)) AND state = 'pending'

-- name: next_due_at_gates
SELECT min(r.not_before) FROM json_array_elements_text(:rows) AS f(gate) JOIN records r
    ON r.state <> 'succeeded' AND r.instance = :instance AND r.state = 'pending' AND r.vanished = 0
    AND coalesce(r.hold, '') = '' AND brief(coalesce(r.gate, '')) = brief(f.gate) AND r.not_before > 0

-- name: first_waits_began_at_gates
SELECT (SELECT since FROM records
        WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
          AND coalesce(hold, '') = '' AND brief(coalesce(gate, '')) = brief(f.gate) AND not_before > 0
        ORDER BY not_before LIMIT 1)
FROM json_array_elements_text(:rows) AS f(gate)

-- name: forget_gates
UPDATE records SET gate = NULL
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
  AND coalesce(hold, '') = coalesce(:hold, '') AND gate = ANY (texts(:rows))

-- name: waiting_by_gate
SELECT gate, count(*) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
  AND coalesce(hold, '') IN ('', 'suspect') AND (:only IS NULL OR id = ANY (ids(:only)))
GROUP BY gate

-- name: answers_by_gate
SELECT gate, min(not_before) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1)
  AND coalesce(hold, '') = '' AND (:only IS NULL OR id = ANY (ids(:only)))
GROUP BY gate

-- name: insert_ranked_records
INSERT INTO records (id, instance, key, position, rank, gate, pass, state)
SELECT :base + place, :instance, key, position, rank, gate, :pass_number, 'pending'
FROM listed(:rows) AS f(key text, position bigint, rank text, gate text)
ON CONFLICT (instance, brief(key)) DO NOTHING

-- name: rank_again
UPDATE records SET rank = f.rank, gate = f.gate
FROM listed(:rows) AS f(id bigint, rank text, gate text)
WHERE records.id = f.id

-- name: pauses
SELECT name, at, actor, reason FROM pauses WHERE instance = :instance ORDER BY name

-- name: pause
INSERT INTO pauses (instance, name, at, actor, reason) VALUES (:instance, :name, :now, :actor, :reason)
ON CONFLICT DO NOTHING

-- name: resume
DELETE FROM pauses WHERE instance = :instance AND name = :name

-- name: drop_standings
DELETE FROM gates WHERE instance = :instance AND (run = :run OR run IN (SELECT id FROM runs WHERE ended IS NOT NULL))

-- name: insert_standings
INSERT INTO gates (instance, run, gate, whole, reason, until)
SELECT DISTINCT ON (brief(gate)) :instance, :run, gate, whole, reason, until
FROM listed(:rows) AS f(gate text, whole bigint, reason text, until double precision)
ORDER BY brief(gate), place DESC
