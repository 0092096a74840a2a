-- What people say to runs at work, and what runs say of their work.
ALTER TABLE runs ADD COLUMN pid INTEGER;
ALTER TABLE runs ADD COLUMN drain TEXT; -- why it is to finish the calls in progress and end
ALTER TABLE runs ADD COLUMN done INTEGER NOT NULL DEFAULT 0; -- records that it has ended
ALTER TABLE runs ADD COLUMN rate REAL; -- of them a second, over the last minute before `noted`
ALTER TABLE runs ADD COLUMN concurrency INTEGER;
ALTER TABLE runs ADD COLUMN noted REAL;

-- How many calls each run may have in progress, as people say; `concurrency_said`: how often they have.
ALTER TABLE instances ADD COLUMN concurrency INTEGER;
ALTER TABLE instances ADD COLUMN concurrency_said INTEGER NOT NULL DEFAULT 0;

-- The few that may have outputs which newer ones have replaced.
CREATE INDEX records_made_again ON records (instance, id) WHERE generation > 0;
