CREATE TABLE instances (
    id              INTEGER PRIMARY KEY,
    job             TEXT NOT NULL,
    name            TEXT NOT NULL,
    location        TEXT,
    cursor          TEXT,
    fed_position    INTEGER NOT NULL DEFAULT -1,
    partly_fed      INTEGER NOT NULL DEFAULT 0, -- 1: records lie behind the cursor; 2: they did, and may be gone now
    source_complete INTEGER NOT NULL DEFAULT 0,
    pass            INTEGER NOT NULL DEFAULT 1,
    feeder          INTEGER,
    created         REAL NOT NULL,
    entries         INTEGER NOT NULL DEFAULT 0, -- of the chain of what people decide outside of runs
    head            TEXT NOT NULL DEFAULT '',
    closed          INTEGER NOT NULL DEFAULT 0, -- nothing is changed here: 1: it arrives from another store; 2: it was moved to one
    moved           TEXT, -- from where, or to where (JSON)
    UNIQUE (job, name)
);

CREATE TABLE runs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    instance    INTEGER NOT NULL REFERENCES instances (id),
    host        TEXT NOT NULL,
    params      TEXT NOT NULL,
    versions    TEXT NOT NULL,
    started     REAL NOT NULL,
    ended       REAL,
    exit_code   INTEGER,
    reason      TEXT,
    told        TEXT,
    boot        TEXT NOT NULL,
    lease_until REAL NOT NULL,
    effects     TEXT NOT NULL, -- the ledger names that its job declares, each with those that it had before
    pace        TEXT, -- how quickly records have ended lately: [seconds, windows, sum, sum of squares]
    entries     INTEGER NOT NULL DEFAULT 0, -- of its chain in the history
    head        TEXT NOT NULL DEFAULT ''
);
CREATE INDEX runs_by_instance ON runs (instance, ended);

-- One narrow row a record, rewritten at every change; what never changes (inputs, outputs) lies elsewhere.
CREATE TABLE records (
    id                   INTEGER PRIMARY KEY,
    instance             INTEGER NOT NULL,
    key                  TEXT NOT NULL,
    position             INTEGER NOT NULL,
    pass                 INTEGER NOT NULL,
    state                TEXT NOT NULL,
    vanished             INTEGER NOT NULL DEFAULT 0,
    hold                 TEXT,
    rank                 TEXT NOT NULL DEFAULT '',
    gate                 TEXT,
    not_before           REAL NOT NULL DEFAULT 0,
    run                  INTEGER,
    fence                INTEGER NOT NULL DEFAULT 0,
    generation           INTEGER NOT NULL DEFAULT 0,
    step                 TEXT,
    started              INTEGER NOT NULL DEFAULT 0,
    attempts             INTEGER NOT NULL DEFAULT 0,
    deaths               INTEGER NOT NULL DEFAULT 0,
    solo_deaths          INTEGER NOT NULL DEFAULT 0,
    failed_runs          INTEGER NOT NULL DEFAULT 0,
    input_changed        INTEGER NOT NULL DEFAULT 0,
    succeeded_generation INTEGER,
    lineage              INTEGER,
    since                REAL
);
CREATE UNIQUE INDEX records_by_key ON records (instance, key);
-- What is not done: small once the work is done, in the order in which it is claimed.
CREATE INDEX records_to_do ON records (instance, state, vanished, hold, gate, not_before, rank, position)
WHERE state <> 'succeeded';

-- What people have paused: a group by its name, or ('') all of the instance.
CREATE TABLE pauses (
    instance INTEGER NOT NULL,
    name     TEXT NOT NULL,
    at       REAL NOT NULL,
    actor    TEXT NOT NULL,
    reason   TEXT,
    PRIMARY KEY (instance, name)
) WITHOUT ROWID;

-- Why a run takes up no records that wait at a gate. `whole`: nor those that wait at none.
CREATE TABLE gates (
    instance INTEGER NOT NULL,
    run      INTEGER NOT NULL,
    gate     TEXT NOT NULL,
    whole    INTEGER NOT NULL,
    reason   TEXT NOT NULL,
    until    REAL,
    PRIMARY KEY (instance, run, gate)
) WITHOUT ROWID;

-- An input belongs to the generation at which it began and holds until a later one replaces it. Where a person gave
-- it, source_hash is that of what the source had presented: presented again, it does not undo the correction.
CREATE TABLE inputs (
    record      INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    hash        TEXT NOT NULL,
    value       TEXT,
    source_hash TEXT,
    PRIMARY KEY (record, generation)
) WITHOUT ROWID;

CREATE TABLE checkpoints (
    record     INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    step       TEXT NOT NULL,
    version    TEXT NOT NULL,
    output     TEXT NOT NULL,
    run        INTEGER,
    at         REAL NOT NULL,
    PRIMARY KEY (record, generation, step)
) WITHOUT ROWID;

-- The versions that made a finished record, as one interned value: [[step, version], …].
CREATE TABLE lineages (
    id       INTEGER PRIMARY KEY,
    instance INTEGER NOT NULL,
    versions TEXT NOT NULL,
    skipped  TEXT,
    UNIQUE (instance, versions, skipped)
);

-- What versions were made of, as far as it is known: {"code": …, "model": …, "prompt": …}.
CREATE TABLE versions (
    instance INTEGER NOT NULL,
    step     TEXT NOT NULL,
    version  TEXT NOT NULL,
    parts    TEXT NOT NULL,
    PRIMARY KEY (instance, step, version)
) WITHOUT ROWID;

-- Finished generations that a newer one has followed.
CREATE TABLE generations (
    record     INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    lineage    INTEGER NOT NULL,
    PRIMARY KEY (record, generation)
) WITHOUT ROWID;

-- The newest failure of a record. Texts are JSON text: they may hold anything.
CREATE TABLE failures (
    record     INTEGER PRIMARY KEY,
    step       TEXT,
    version    TEXT,
    kind       TEXT NOT NULL,
    error_type TEXT NOT NULL,
    message    TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    run        INTEGER,
    at         REAL NOT NULL,
    received   TEXT -- what a model had answered, as JSON text
);

-- What the requests of one record's step to a model came to, with those of attempts that failed.
CREATE TABLE usage (
    record        INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    step          TEXT NOT NULL,
    model         TEXT NOT NULL,
    version       TEXT NOT NULL,
    requests      INTEGER NOT NULL,
    tokens_in     INTEGER NOT NULL,
    tokens_out    INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    picodollars   INTEGER NOT NULL,
    unpriced      INTEGER NOT NULL,
    uncounted     INTEGER NOT NULL,
    lost          INTEGER NOT NULL,
    repairs       INTEGER NOT NULL,
    seconds       REAL NOT NULL,
    PRIMARY KEY (record, generation, step, model)
) WITHOUT ROWID;

-- What records that are through with a step cost there, with attempts that failed: sums of the powers of microdollars,
-- and what the same records had cost at other steps before.
CREATE TABLE costs (
    instance       INTEGER NOT NULL,
    step           TEXT NOT NULL,
    version        TEXT NOT NULL,
    n              INTEGER NOT NULL,
    unknown        INTEGER NOT NULL, -- so many more, whose cost is not known
    first          REAL NOT NULL,
    second         REAL NOT NULL,
    third          REAL NOT NULL,
    earlier        REAL NOT NULL,
    earlier_second REAL NOT NULL,
    crossed        REAL NOT NULL,
    PRIMARY KEY (instance, step, version)
) WITHOUT ROWID;

-- What a run has set aside for requests that are under way: where it dies, that counts as spent.
CREATE TABLE reserved (
    run         INTEGER NOT NULL,
    model       TEXT NOT NULL,
    instance    INTEGER NOT NULL,
    requests    INTEGER NOT NULL,
    picodollars INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    PRIMARY KEY (run, model)
) WITHOUT ROWID;
CREATE INDEX reserved_by_instance ON reserved (instance, model);

-- Answers that other records with the same request may take.
CREATE TABLE answers (
    instance    INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    text        TEXT NOT NULL,
    PRIMARY KEY (instance, fingerprint)
) WITHOUT ROWID;

-- Requests that are sent together with others, by what they ask. `answer`: what came of it (JSON text); `fault`: it is
-- to be asked again once that has been heard; `spent`: what it came to (JSON), until a record has told it as its own.
CREATE TABLE batched (
    id          INTEGER PRIMARY KEY,
    instance    INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    model       TEXT NOT NULL,
    place       TEXT NOT NULL,
    path        TEXT NOT NULL,
    body        TEXT NOT NULL,
    size        INTEGER NOT NULL,
    picodollars INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    repairs     INTEGER NOT NULL,
    tries       INTEGER NOT NULL DEFAULT 0,
    chunk       TEXT,
    answer      TEXT,
    fault       INTEGER NOT NULL DEFAULT 0,
    spent       TEXT
);
CREATE UNIQUE INDEX batched_by_fingerprint ON batched (instance, fingerprint);
CREATE INDEX batched_waiting ON batched (instance, model, place, path, id) WHERE chunk IS NULL AND answer IS NULL;
CREATE INDEX batched_sent ON batched (chunk, id) WHERE chunk IS NOT NULL AND answer IS NULL;

-- Who waits for which of them, or has used its answer: a step's version in a record's generation. `strays`: how often
-- that step has asked something else when it was called again.
CREATE TABLE batch_waits (
    instance    INTEGER NOT NULL,
    record      INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    version     TEXT NOT NULL,
    strays      INTEGER NOT NULL,
    PRIMARY KEY (record, fingerprint)
) WITHOUT ROWID;
CREATE INDEX batch_waits_by_fingerprint ON batch_waits (instance, fingerprint);

-- Requests that are submitted as one batch. `batch` and `file` are the provider's names, `status`, `done` and `total`
-- what it said last; `picodollars` and `tokens` what is set aside for those that are not answered yet.
CREATE TABLE chunks (
    id          TEXT PRIMARY KEY,
    instance    INTEGER NOT NULL,
    run         INTEGER NOT NULL,
    model       TEXT NOT NULL,
    place       TEXT NOT NULL,
    path        TEXT NOT NULL,
    requests    INTEGER NOT NULL,
    picodollars INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    at          REAL NOT NULL,
    file        TEXT,
    batch       TEXT,
    status      TEXT,
    done        INTEGER NOT NULL DEFAULT 0,
    total       INTEGER NOT NULL DEFAULT 0,
    ended       REAL
) WITHOUT ROWID;
CREATE INDEX chunks_open ON chunks (instance, model) WHERE ended IS NULL;

-- The ledger: one row an obligation, in all jobs and instances. `record` answers for it. The key is text that the far
-- side has seen, made of `fields`. Steady times are comparable within one boot only.
CREATE TABLE effects (
    name            TEXT NOT NULL,
    key             TEXT NOT NULL,
    state           TEXT NOT NULL,
    payload         TEXT NOT NULL,
    payload_hash    TEXT NOT NULL,
    receipt         TEXT,
    record          INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    fence           INTEGER NOT NULL,
    run             INTEGER NOT NULL,
    first_at        REAL NOT NULL,
    intended_at     REAL NOT NULL,
    intended_steady REAL NOT NULL DEFAULT 0,
    boot            TEXT NOT NULL DEFAULT '',
    ask_at          REAL NOT NULL DEFAULT 0,
    asks            INTEGER NOT NULL DEFAULT 0,
    sent_at         REAL,
    fields          TEXT NOT NULL DEFAULT '[]',
    ended_at        REAL, -- when it was seen that the call under the newest intent had ended without an answer
    ended_steady    REAL,
    ended_boot      TEXT,
    deadline        REAL NOT NULL, -- seconds, as declared when the newest intent was made
    settle          REAL NOT NULL,
    UNIQUE (name, key)
);
CREATE INDEX effects_by_record ON effects (record);

-- Records whose open obligation another record has taken over: they go on when it is settled.
CREATE TABLE awaits (
    name   TEXT NOT NULL,
    key    TEXT NOT NULL,
    record INTEGER NOT NULL,
    PRIMARY KEY (name, key, record)
) WITHOUT ROWID;
CREATE INDEX awaits_by_record ON awaits (record);

-- Whose obligations another record has taken over, also of those that are settled: what they have owed for an input they
-- do not owe once more under another key.
CREATE TABLE owed (
    record     INTEGER NOT NULL,
    name       TEXT NOT NULL,
    key        TEXT NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (record, name, key, generation)
) WITHOUT ROWID;

-- What is known to be sent for which input, whoever answers for it by now.
CREATE VIEW sent_for AS
SELECT record, generation, state FROM effects WHERE state IN ('sent', 'confirmed')
UNION ALL
SELECT o.record, o.generation, e.state FROM owed o CROSS JOIN effects e ON e.name = o.name AND e.key = o.key
WHERE e.state IN ('sent', 'confirmed');

-- What is to be said of records that are set aside. One that is unconfirmed need not have failed: its newest failure
-- counts only if it is that of its newest send or of a question about it, and without one it is said what it waits for.
-- A death has left no failure; one is told by the record's count, or, where that run was told to stop, by its row.
CREATE VIEW set_aside AS
SELECT r.id AS record, r.instance, r.position, r.key, r.state, r.vanished, r.hold, r.not_before, r.since,
    r.deaths + r.solo_deaths AS deaths, r.failed_runs, coalesce(f.step, r.step) AS step,
    CASE WHEN f.record IS NOT NULL THEN f.kind WHEN e.state IN ('intended', 'unknown') AND (
        r.deaths + r.solo_deaths > 0
        OR EXISTS (SELECT 1 FROM runs WHERE runs.id = e.run AND runs.ended IS NOT NULL AND runs.exit_code IS NULL)
    ) THEN 'system' END AS kind,
    coalesce(f.error_type, 'Unconfirmed') AS error_type, f.message,
    CASE r.state WHEN 'unconfirmed' THEN (
        SELECT h.reason FROM history h WHERE h.record = r.id AND h.event = 'effect_unconfirmed' ORDER BY h.id DESC LIMIT 1)
    END AS waits_for,
    coalesce(f.attempts, r.attempts) AS attempts, coalesce(f.at, r.since) AS at, f.received
FROM records r
LEFT JOIN effects e ON r.state = 'unconfirmed' AND e.record = r.id AND e.generation = r.generation
    AND e.state IN ('intended', 'unknown', 'sent')
LEFT JOIN failures f ON f.record = r.id
    AND (r.state <> 'unconfirmed' OR f.step IS r.step AND f.at >= coalesce(e.sent_at, e.intended_at, 0))
WHERE r.state <> 'succeeded';

-- Every decision and its reason, in chains: one a run, and one an instance for acts without a run (policy/chain.py).
CREATE TABLE history (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    instance INTEGER NOT NULL,
    record   INTEGER,
    run      INTEGER,
    seq      INTEGER NOT NULL,
    hash     TEXT NOT NULL,
    at       REAL NOT NULL,
    actor    TEXT,
    event    TEXT NOT NULL,
    step     TEXT,
    reason   TEXT,
    detail   TEXT,
    as_instance INTEGER, -- the numbers that it was hashed with, where it was written in another store
    as_record   INTEGER,
    as_run      INTEGER
);
CREATE INDEX history_by_record ON history (record) WHERE record IS NOT NULL;

-- Counters, changed by the same commit that changes what they count.
CREATE TABLE counts (
    instance INTEGER NOT NULL,
    what     TEXT NOT NULL,
    name     TEXT NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (instance, what, name)
) WITHOUT ROWID;
