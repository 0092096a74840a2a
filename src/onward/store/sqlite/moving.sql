-- name: out_counts
SELECT instance, what, name, n FROM counts WHERE instance = :instance

-- With the instance of the record that answers for each, and whether that was moved.
-- name: out_entries
SELECT e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record, e.generation, e.fence, e.run, e.first_at,
    e.intended_at, e.ask_at, e.asks, e.sent_at, e.fields, e.ended_at, e.deadline, e.settle, o.instance, i.closed, i.job
FROM effects e LEFT JOIN records o ON o.id = e.record LEFT JOIN instances i ON i.id = o.instance
WHERE e.name = :name

-- name: known_entries
SELECT e.name, e.key, e.state, e.payload_hash, e.record
FROM json_each(:rows) j CROSS JOIN effects e ON e.name = j.value ->> 0 AND e.key = j.value ->> 1

-- name: forget_entries
DELETE FROM effects WHERE record = 0 AND (name, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))

-- The last number that a run has had, before so many more are given.
-- name: reserve_runs
SELECT max(coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'runs'), 0),
    coalesce((SELECT max(id) FROM runs), 0))

-- The first of so many numbers that no record has, and how many of them others have got meanwhile.
-- name: reserve_records
SELECT coalesce(max(id), 0) + 1, 0 FROM records

-- The numbers that entries of an unfinished copy leave free: no number is missed later on.
-- name: freed_history
SELECT min(id), count(*) FROM history WHERE instance = :instance
