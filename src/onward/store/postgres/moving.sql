-- name: out_counts
SELECT instance, what, name, sum(n)::bigint FROM counts WHERE instance = :instance GROUP BY instance, what, name

-- With the instance of the record that answers for each, and whether that was moved.
-- name: out_entries
SELECT e.name, e.key, e.state, e.payload, e.payload_hash, e.receipt, e.record, e.generation, e.fence, e.run, e.first_at,
    e.intended_at, e.ask_at, e.asks, e.sent_at, e.fields, e.ended_at, e.deadline, e.settle, o.instance, i.closed, i.job
FROM effects e LEFT JOIN records o ON o.id = e.record LEFT JOIN instances i ON i.id = o.instance
WHERE brief(e.name) = brief(:name)

-- name: known_entries
SELECT e.name, e.key, e.state, e.payload_hash, e.record
FROM listed(:rows) AS f(name text, key text)
JOIN effects e ON brief(e.name) = brief(f.name) AND brief(e.key) = brief(f.key)

-- name: forget_entries
DELETE FROM effects e USING listed(:rows) AS f(name text, key text)
WHERE e.record = 0 AND brief(e.name) = brief(f.name) AND brief(e.key) = brief(f.key)

-- The last number that a run has had, before so many more are given.
-- name: reserve_runs
UPDATE numbers SET n = n + :number WHERE what = 'run' RETURNING n - :number

-- The first of so many numbers that no record has, and how many of them others have got meanwhile.
-- name: reserve_records
SELECT (min(n) - 1) * 1048576 + 1, max(n) - min(n) + 1 - count(*)
FROM (SELECT nextval('record_blocks') AS n FROM generate_series(1, (:number + 1048575) / 1048576)) taken

-- The numbers that entries of an unfinished copy leave free: here some may be missing.
-- name: freed_history
SELECT NULL::bigint, 0::bigint
