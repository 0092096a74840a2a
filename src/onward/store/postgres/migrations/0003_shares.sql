-- What each run may use of ceilings that all runs of its instance are under.
ALTER TABLE runs ADD COLUMN sharing bigint; -- 0: it has all of each; 1: what its rows say; NULL: it is under none
UPDATE runs SET sharing = 0 WHERE ended IS NULL; -- older ones know of no shares

-- Calls in progress, or calls (tokens) a minute. `since`: since when it holds some, or none; `asked`: when it last was
-- heard of. Names are short.
CREATE TABLE shares (
    instance bigint NOT NULL,
    ceiling  text COLLATE "C" NOT NULL,
    run      bigint NOT NULL,
    held     double precision NOT NULL,
    wanted   double precision NOT NULL,
    since    double precision NOT NULL,
    asked    double precision NOT NULL,
    PRIMARY KEY (instance, ceiling, run)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02);
