-- What each run may use of ceilings that all runs of its instance are under.
ALTER TABLE runs ADD COLUMN sharing INTEGER; -- 0: it has all of each; 1: what its rows say; NULL: it is under none
UPDATE runs SET sharing = 0 WHERE ended IS NULL; -- older ones know of no shares

-- Calls in progress, or calls (tokens) a minute. `since`: since when it holds some, or none; `asked`: when it last was
-- heard of.
CREATE TABLE shares (
    instance INTEGER NOT NULL,
    ceiling  TEXT NOT NULL,
    run      INTEGER NOT NULL,
    held     REAL NOT NULL,
    wanted   REAL NOT NULL,
    since    REAL NOT NULL,
    asked    REAL NOT NULL,
    PRIMARY KEY (instance, ceiling, run)
) WITHOUT ROWID;
