-- name: add_usage
INSERT INTO usage (record, generation, step, model, version, requests, tokens_in, tokens_out, cached_tokens,
    picodollars, unpriced, uncounted, lost, repairs, seconds)
SELECT record, generation, step, model, coalesce((array_agg(nullif(version, '') ORDER BY place DESC)
        FILTER (WHERE version <> ''))[1], ''),
    sum(requests), sum(tokens_in), sum(tokens_out), sum(cached_tokens), sum(picodollars), sum(unpriced), sum(uncounted),
    sum(lost), sum(repairs), sum(seconds)
FROM listed(:rows) AS f(record bigint, generation bigint, step text, model text, version text, requests bigint,
    tokens_in bigint, tokens_out bigint, cached_tokens bigint, picodollars bigint, unpriced bigint, uncounted bigint,
    lost bigint, repairs bigint, seconds double precision)
GROUP BY record, generation, step, model
ON CONFLICT (record, generation, step, model) DO UPDATE SET version = coalesce(nullif(excluded.version, ''), usage.version),
    requests = usage.requests + excluded.requests, tokens_in = usage.tokens_in + excluded.tokens_in,
    tokens_out = usage.tokens_out + excluded.tokens_out, cached_tokens = usage.cached_tokens + excluded.cached_tokens,
    picodollars = usage.picodollars + excluded.picodollars, unpriced = usage.unpriced + excluded.unpriced,
    uncounted = usage.uncounted + excluded.uncounted, lost = usage.lost + excluded.lost,
    repairs = usage.repairs + excluded.repairs, seconds = usage.seconds + excluded.seconds

-- name: add_costs
INSERT INTO costs (instance, step, version, n, unknown, first, second, third, earlier, earlier_second, crossed)
SELECT :instance, step, version, sum(known), sum(1 - known), sum(known * here), sum(known * here * here),
    sum(known * here * here * here), sum(known * before), sum(known * before * before), sum(known * here * before)
FROM (SELECT f.step, f.version,
          coalesce(sum(u.picodollars) FILTER (WHERE u.step = f.step), 0)::double precision / 1e6 AS here,
          coalesce(sum(u.picodollars) FILTER (WHERE u.step <> f.step), 0)::double precision / 1e6 AS before,
          (coalesce(sum(u.unpriced + u.uncounted) FILTER (WHERE u.step = f.step), 0) = 0)::int AS known
      FROM listed(:rows) AS f(record bigint, generation bigint, step text, version text)
      LEFT JOIN usage u ON u.record = f.record AND u.generation = f.generation
      GROUP BY f.place, f.step, f.version) through
GROUP BY step, version
ORDER BY step, version
ON CONFLICT (instance, step, version) DO UPDATE SET n = costs.n + excluded.n, unknown = costs.unknown + excluded.unknown,
    first = costs.first + excluded.first, second = costs.second + excluded.second, third = costs.third + excluded.third,
    earlier = costs.earlier + excluded.earlier, earlier_second = costs.earlier_second + excluded.earlier_second,
    crossed = costs.crossed + excluded.crossed

-- name: spent_and_reserved
SELECT coalesce((SELECT sum(n) FROM counts WHERE instance = :instance AND what IN ('spent picodollars', 'lost picodollars')
                 AND name = :model), 0)::bigint,
       coalesce((SELECT sum(n) FROM counts WHERE instance = :instance
                 AND what IN ('spent tokens_in', 'spent tokens_out', 'lost tokens') AND name = :model), 0)::bigint,
       (coalesce((SELECT sum(picodollars) FROM reserved WHERE instance = :instance AND model = :model), 0)
        + coalesce((SELECT sum(picodollars) FROM chunks WHERE instance = :instance AND model = :model AND ended IS NULL),
                   0))::bigint,
       (coalesce((SELECT sum(tokens) FROM reserved WHERE instance = :instance AND model = :model), 0)
        + coalesce((SELECT sum(tokens) FROM chunks WHERE instance = :instance AND model = :model AND ended IS NULL),
                   0))::bigint

-- name: reserve
INSERT INTO reserved (run, model, instance, requests, picodollars, tokens)
VALUES (:run, :model, :instance, :requests, :picodollars, :tokens)
ON CONFLICT (run, model) DO UPDATE SET requests = reserved.requests + excluded.requests,
    picodollars = reserved.picodollars + excluded.picodollars, tokens = reserved.tokens + excluded.tokens

-- name: reserved_by
SELECT model, requests, picodollars, tokens FROM reserved WHERE run = :run

-- name: forget_reserved
DELETE FROM reserved WHERE run = :run

-- name: add_answers
INSERT INTO answers (instance, fingerprint, text)
SELECT :instance, fingerprint, text FROM listed(:rows) AS f(fingerprint text, text text) ORDER BY fingerprint
ON CONFLICT (instance, fingerprint) DO UPDATE SET text = excluded.text

-- name: find_answer
SELECT text FROM answers WHERE instance = :instance AND fingerprint = :fingerprint
