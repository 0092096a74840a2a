-- name: add_usage
INSERT INTO usage (record, generation, step, model, version, requests, tokens_in, tokens_out, cached_tokens,
    picodollars, unpriced, uncounted, lost, repairs, seconds)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
    value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14
FROM json_each(:rows) WHERE true
ON CONFLICT (record, generation, step, model) DO UPDATE SET version = coalesce(nullif(excluded.version, ''), version),
    requests = requests + excluded.requests, tokens_in = tokens_in + excluded.tokens_in,
    tokens_out = tokens_out + excluded.tokens_out, cached_tokens = cached_tokens + excluded.cached_tokens,
    picodollars = picodollars + excluded.picodollars, unpriced = unpriced + excluded.unpriced,
    uncounted = uncounted + excluded.uncounted, lost = lost + excluded.lost, repairs = repairs + excluded.repairs,
    seconds = seconds + excluded.seconds

-- name: add_costs
INSERT INTO costs (instance, step, version, n, unknown, first, second, third, earlier, earlier_second, crossed)
SELECT :instance, step, version, sum(known), sum(NOT known), sum(known * here), sum(known * here * here),
    sum(known * here * here * here), sum(known * before), sum(known * before * before), sum(known * here * before)
FROM (SELECT j.value ->> 2 AS step, j.value ->> 3 AS version,
          coalesce(sum(u.picodollars) FILTER (WHERE u.step = j.value ->> 2), 0) / 1e6 AS here,
          coalesce(sum(u.picodollars) FILTER (WHERE u.step <> j.value ->> 2), 0) / 1e6 AS before,
          coalesce(sum(u.unpriced + u.uncounted) FILTER (WHERE u.step = j.value ->> 2), 0) = 0 AS known
      FROM json_each(:rows) j LEFT JOIN usage u ON u.record = j.value ->> 0 AND u.generation = j.value ->> 1
      GROUP BY j.key)
WHERE true
GROUP BY step, version
ON CONFLICT (instance, step, version) DO UPDATE SET n = n + excluded.n, unknown = unknown + excluded.unknown,
    first = first + excluded.first, second = second + excluded.second, third = third + excluded.third,
    earlier = earlier + excluded.earlier, earlier_second = earlier_second + excluded.earlier_second,
    crossed = crossed + excluded.crossed

-- name: spent_and_reserved
SELECT coalesce((SELECT sum(n) FROM counts WHERE instance = :instance AND what IN ('spent picodollars', 'lost picodollars')
                 AND name = :model), 0),
       coalesce((SELECT sum(n) FROM counts WHERE instance = :instance
                 AND what IN ('spent tokens_in', 'spent tokens_out', 'lost tokens') AND name = :model), 0),
       coalesce((SELECT sum(picodollars) FROM reserved WHERE instance = :instance AND model = :model), 0)
       + coalesce((SELECT sum(picodollars) FROM chunks WHERE instance = :instance AND model = :model AND ended IS NULL), 0),
       coalesce((SELECT sum(tokens) FROM reserved WHERE instance = :instance AND model = :model), 0)
       + coalesce((SELECT sum(tokens) FROM chunks WHERE instance = :instance AND model = :model AND ended IS NULL), 0)

-- name: reserve
INSERT INTO reserved (run, model, instance, requests, picodollars, tokens)
VALUES (:run, :model, :instance, :requests, :picodollars, :tokens)
ON CONFLICT (run, model) DO UPDATE SET requests = requests + excluded.requests,
    picodollars = picodollars + excluded.picodollars, tokens = tokens + excluded.tokens

-- name: reserved_by
SELECT model, requests, picodollars, tokens FROM reserved WHERE run = :run

-- name: forget_reserved
DELETE FROM reserved WHERE run = :run

-- name: add_answers
INSERT INTO answers (instance, fingerprint, text) SELECT :instance, value ->> 0, value ->> 1 FROM json_each(:rows)
WHERE true ON CONFLICT (instance, fingerprint) DO UPDATE SET text = excluded.text

-- name: find_answer
SELECT text FROM answers WHERE instance = :instance AND fingerprint = :fingerprint
