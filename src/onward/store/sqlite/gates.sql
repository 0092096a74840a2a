-- name: gates_waited_at
WITH RECURSIVE found(gate) AS (
    SELECT min(gate) FROM records
    WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS :hold AND gate > ''
    UNION ALL
    SELECT (SELECT min(gate) FROM records
            WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS :hold
              AND gate > found.gate)
    FROM found WHERE found.gate IS NOT NULL)
SELECT json_group_array(gate) FROM found WHERE gate IS NOT NULL

-- Back-offs that are over join those that never failed, so that all stand in one order.
-- name: wake_due
UPDATE records SET not_before = 0 WHERE id IN (
    SELECT r.id FROM json_each(:rows) j CROSS JOIN records r
    WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state = 'pending' AND r.vanished = 0 AND r.hold IS :hold
      AND r.gate IS j.value AND r.not_before > 0 AND r.not_before <= :now
    LIMIT :most)

-- name: pick_at_gates
SELECT json_group_array(id) FROM (
    SELECT id FROM (
        SELECT r.id, r.rank, r.position, j.value ->> 1 AS room,
               row_number() OVER (PARTITION BY r.gate ORDER BY r.rank, r.position) AS place
        FROM json_each(:rows) j CROSS JOIN records r ON r.id IN (
            SELECT id FROM records
            WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS :hold
              AND gate = j.value ->> 0 AND not_before = 0
              AND (:only IS NULL OR id IN (SELECT value FROM json_each(:only)))
              AND id NOT IN (SELECT value FROM json_each(:later))
            ORDER BY rank, position LIMIT :most))
    WHERE place <= room ORDER BY rank, position LIMIT :limit)

-- name: gates_of
SELECT json_group_array(gate) FROM (
    SELECT DISTINCT gate FROM records WHERE id IN (SELECT value FROM json_each(:rows)) AND state = 'pending')

-- name: next_due_at_gates
SELECT min(r.not_before) FROM json_each(:rows) j CROSS JOIN records r
WHERE r.state <> 'succeeded' AND r.instance = :instance AND r.state = 'pending' AND r.vanished = 0 AND r.hold IS NULL
  AND r.gate = j.value AND r.not_before > 0

-- name: first_waits_began_at_gates
SELECT (SELECT since FROM records
        WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS NULL
          AND gate = j.value AND not_before > 0
        ORDER BY not_before LIMIT 1)
FROM json_each(:rows) j

-- name: forget_gates
UPDATE records SET gate = NULL
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0 AND hold IS :hold
  AND gate IN (SELECT value FROM json_each(:rows))

-- name: waiting_by_gate
SELECT gate, count(*) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished = 0
  AND (hold IS NULL OR hold = 'suspect') AND (:only IS NULL OR id IN (SELECT value FROM json_each(:only)))
GROUP BY gate

-- name: answers_by_gate
SELECT gate, min(not_before) FROM records
WHERE state <> 'succeeded' AND instance = :instance AND state = 'unconfirmed' AND vanished IN (0, 1) AND hold IS NULL
  AND (:only IS NULL OR id IN (SELECT value FROM json_each(:only)))
GROUP BY gate

-- name: insert_ranked_records
INSERT INTO records (instance, key, position, rank, gate, pass, state)
SELECT :instance, value ->> 0, value ->> 1, value ->> 2, value ->> 3, :pass_number, 'pending'
FROM json_each(:rows) WHERE true
ON CONFLICT (instance, key) DO NOTHING

-- name: rank_again
UPDATE records SET rank = f.rank, gate = f.gate
FROM (SELECT value ->> 0 AS id, value ->> 1 AS rank, value ->> 2 AS gate FROM json_each(:rows)) f
WHERE records.id = f.id

-- name: pauses
SELECT name, at, actor, reason FROM pauses WHERE instance = :instance ORDER BY name

-- name: pause
INSERT INTO pauses (instance, name, at, actor, reason) VALUES (:instance, :name, :now, :actor, :reason)
ON CONFLICT (instance, name) DO NOTHING

-- name: resume
DELETE FROM pauses WHERE instance = :instance AND name = :name

-- name: drop_standings
DELETE FROM gates WHERE instance = :instance AND (run = :run OR run IN (SELECT id FROM runs WHERE ended IS NOT NULL))

-- name: insert_standings
INSERT OR REPLACE INTO gates (instance, run, gate, whole, reason, until)
SELECT :instance, :run, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:rows)
