-- name: add_batched
INSERT INTO batched (instance, fingerprint, model, place, path, body, size, picodollars, tokens, repairs)
SELECT :instance, fingerprint, model, at, path, body, octet_length(body), picodollars, tokens, repairs
FROM listed(:rows) AS f(fingerprint text, model text, at text, path text, body text, picodollars bigint, tokens bigint,
                        repairs bigint)
ORDER BY f.place
ON CONFLICT (instance, fingerprint) DO UPDATE SET path = excluded.path, body = excluded.body, size = excluded.size,
    picodollars = excluded.picodollars, tokens = excluded.tokens
WHERE batched.chunk IS NULL AND batched.answer IS NULL AND batched.path <> excluded.path

-- name: drop_waits
DELETE FROM batch_waits WHERE record = ANY (ids(:rows))

-- name: add_waits
INSERT INTO batch_waits (instance, record, generation, version, strays, fingerprint)
SELECT :instance, record, generation, version, strays, fingerprint
FROM listed(:rows) AS f(record bigint, generation bigint, version text, strays bigint, fingerprint text)
ON CONFLICT DO NOTHING

-- name: waits_of
SELECT w.record, w.fingerprint, w.generation, w.version, w.strays, b.answer IS NOT NULL
FROM batch_waits w LEFT JOIN batched b ON b.instance = w.instance AND b.fingerprint = w.fingerprint
WHERE w.record = ANY (ids(:rows))

-- name: strays_of
SELECT max(strays) FROM batch_waits WHERE record = :record AND version = :version

-- name: has_waits
SELECT 1 FROM batch_waits WHERE instance = :instance LIMIT 1

-- name: waited_for_by
SELECT json_agg(DISTINCT fingerprint) FROM batch_waits WHERE record = ANY (ids(:rows))

-- What nobody needs any more. An answer that no step has heard stays: the step may be changed back.
-- name: forget_answers
DELETE FROM batched
WHERE instance = :instance AND fingerprint = ANY (texts(:rows)) AND answer IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM batch_waits w WHERE w.instance = :instance AND w.fingerprint = batched.fingerprint)

-- name: forget_unsent
DELETE FROM batched
WHERE instance = :instance AND chunk IS NULL AND answer IS NULL
  AND NOT EXISTS (SELECT 1 FROM batch_waits w WHERE w.instance = :instance AND w.fingerprint = batched.fingerprint)

-- Records among these, or of these requests, whose requests are all answered.
-- name: let_go_records
UPDATE records SET hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END, since = :now
WHERE id = ANY (ids(:rows)) AND state = 'pending' AND hold = 'batch' AND NOT EXISTS (
    SELECT 1 FROM batch_waits w JOIN batched b ON b.instance = w.instance AND b.fingerprint = w.fingerprint
    WHERE w.record = records.id AND w.generation = records.generation AND b.answer IS NULL)

-- name: waiting_for
SELECT json_agg(DISTINCT w.record)
FROM batched b JOIN batch_waits w ON w.instance = b.instance AND w.fingerprint = b.fingerprint
WHERE b.id = ANY (ids(:rows))

-- Records that wait for answers to a step that has changed since, or of a model that is asked otherwise now.
-- name: release_batched
UPDATE records SET hold = CASE WHEN deaths >= :to_suspect OR solo_deaths > 0 THEN 'suspect' END
WHERE state <> 'succeeded' AND instance = :instance AND state = 'pending' AND vanished IN (0, 1)
  AND hold = 'batch'
  AND NOT EXISTS (
    SELECT 1 FROM batch_waits w JOIN batched b ON b.instance = w.instance AND b.fingerprint = w.fingerprint
    WHERE w.record = records.id AND w.generation = records.generation AND b.answer IS NULL
      AND EXISTS (SELECT 1 FROM listed(:versions::json) AS v(step text, version text)
                  WHERE v.step = records.step AND v.version = w.version)
      AND EXISTS (SELECT 1 FROM listed(:models) AS m(where_asked json, path text)
                  WHERE m.where_asked ->> 0 = b.model AND m.where_asked ->> 1 = b.place
                    AND (b.chunk IS NOT NULL OR m.path = b.path)))

-- name: find_batched
SELECT answer, fault, spent FROM batched WHERE instance = :instance AND fingerprint = :fingerprint

-- name: drop_batched
DELETE FROM batched WHERE instance = :instance AND fingerprint = :fingerprint

-- name: batched_is_told
UPDATE batched SET spent = NULL
WHERE instance = :instance AND fingerprint = ANY (texts(:rows))

-- name: batch_queues
SELECT b.model, b.place, b.path, count(*), sum(b.size)::bigint FROM batched b
WHERE b.instance = :instance AND b.chunk IS NULL AND b.answer IS NULL AND EXISTS (
    SELECT 1 FROM batch_waits w JOIN records r ON r.id = w.record
    WHERE w.instance = :instance AND w.fingerprint = b.fingerprint AND r.generation = w.generation
      AND r.state = 'pending' AND r.hold = 'batch' AND r.vanished = 0)
GROUP BY b.model, b.place, b.path
ORDER BY b.model, b.place, b.path

-- name: pick_batched
SELECT b.id, b.size, b.picodollars, b.tokens FROM batched b
WHERE b.instance = :instance AND b.model = :model AND b.place = :place AND b.path = :path
  AND b.chunk IS NULL AND b.answer IS NULL AND EXISTS (
    SELECT 1 FROM batch_waits w JOIN records r ON r.id = w.record
    WHERE w.instance = :instance AND w.fingerprint = b.fingerprint AND r.generation = w.generation
      AND r.state = 'pending' AND r.hold = 'batch' AND r.vanished = 0)
ORDER BY b.id LIMIT :limit

-- name: insert_chunk
INSERT INTO chunks (id, instance, run, model, place, path, requests, picodollars, tokens, at)
VALUES (:id, :instance, :run, :model, :place, :path, :requests, :picodollars, :tokens, :now)

-- name: put_into_chunk
UPDATE batched SET chunk = :chunk, tries = tries + 1 WHERE id = ANY (ids(:rows))

-- name: adopt_chunks
UPDATE chunks SET run = :run
WHERE instance = :instance AND ended IS NULL
  AND run NOT IN (SELECT id FROM runs WHERE instance = :instance AND ended IS NULL)

-- name: own_chunks
SELECT id, model, place, path, requests, at, file, batch FROM chunks
WHERE instance = :instance AND ended IS NULL AND run = :run ORDER BY at, id

-- name: chunks_elsewhere
SELECT count(*) FROM chunks WHERE instance = :instance AND ended IS NULL AND run <> :run

-- name: bodies
SELECT id, fingerprint, body FROM batched WHERE chunk = :chunk AND answer IS NULL AND id > :after ORDER BY id LIMIT :limit

-- name: note_file
UPDATE chunks SET file = :file WHERE id = :chunk

-- name: note_batch
UPDATE chunks SET batch = :batch, status = :status, done = :done, total = :total WHERE id = :chunk

-- name: find_chunk
SELECT model, requests, batch, ended FROM chunks WHERE id = :chunk

-- name: sent_among
SELECT b.id, b.fingerprint, b.picodollars, b.tokens, b.repairs
FROM listed(:rows) AS f(fingerprint text) JOIN batched b ON b.instance = :instance AND b.fingerprint = f.fingerprint
WHERE b.chunk = :chunk AND b.answer IS NULL
ORDER BY f.place

-- name: answer_batched
UPDATE batched SET answer = f.answer, fault = f.fault, spent = f.spent, body = ''
FROM listed(:rows) AS f(id bigint, answer text, fault bigint, spent text)
WHERE batched.id = f.id

-- name: free_of_chunk
UPDATE chunks SET picodollars = greatest(picodollars - :picodollars, 0), tokens = greatest(tokens - :tokens, 0)
WHERE id = :chunk

-- name: left_of_chunk
SELECT id, tries, picodollars, tokens, fingerprint FROM batched WHERE chunk = :chunk AND answer IS NULL ORDER BY id

-- name: put_out_of_chunk
UPDATE batched SET chunk = NULL, tries = tries - :uncounted
WHERE id = ANY (ids(:rows))

-- name: end_chunk
UPDATE chunks SET ended = :now, status = :status, picodollars = 0, tokens = 0 WHERE id = :chunk AND ended IS NULL
