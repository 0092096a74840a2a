-- What people say to runs at work, and what runs say of their work.
ALTER TABLE runs ADD COLUMN pid bigint;
ALTER TABLE runs ADD COLUMN drain text COLLATE "C"; -- why it is to finish the calls in progress and end
ALTER TABLE runs ADD COLUMN done bigint NOT NULL DEFAULT 0; -- records that it has ended
ALTER TABLE runs ADD COLUMN rate double precision; -- of them a second, over the last minute before `noted`
ALTER TABLE runs ADD COLUMN concurrency bigint;
ALTER TABLE runs ADD COLUMN noted double precision;

-- How many calls each run may have in progress, as people say; `concurrency_said`: how often they have.
ALTER TABLE instances ADD COLUMN concurrency bigint;
ALTER TABLE instances ADD COLUMN concurrency_said bigint NOT NULL DEFAULT 0;

-- The few that may have outputs which newer ones have replaced.
CREATE INDEX records_made_again ON records (instance, id) WHERE generation > 0;

-- An entry's state changes with each act of its effect. No index may depend on it, nor on what else changes then: so the
-- new row stays on its page and costs no index anything (a HOT update), and there is room for it.
DROP INDEX effects_open;
CREATE INDEX effects_by_time ON effects (intended_at);
ALTER TABLE effects SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02);
