-- Where messages come from, whose the model calls are, and their running sums.

-- A message without a row is a person's.
CREATE TABLE instar_origin (
  message_id text PRIMARY KEY REFERENCES message(id) ON DELETE CASCADE,
  session_id text NOT NULL,
  data text NOT NULL
) WITHOUT ROWID;
CREATE INDEX instar_origin_session ON instar_origin (session_id);

-- NULL: a person's.
ALTER TABLE instar_follow_up ADD COLUMN origin text;

ALTER TABLE instar_usage ADD COLUMN origin text NOT NULL DEFAULT 'person';
ALTER TABLE instar_usage ADD COLUMN origin_id text NOT NULL DEFAULT '';
ALTER TABLE instar_usage ADD COLUMN source text NOT NULL DEFAULT '';
ALTER TABLE instar_usage ADD COLUMN agent text NOT NULL DEFAULT '';
ALTER TABLE instar_usage ADD COLUMN turn_id text NOT NULL DEFAULT '';
ALTER TABLE instar_usage ADD COLUMN root_id text NOT NULL DEFAULT '';

-- Sums of the calls of a scope: `session` (a tree's root), `origin` (name:id), and by the hour `day` and `cause`.
-- `hour` counts hours since the epoch; it is 0 where no time matters.
CREATE TABLE instar_spent (
  scope text NOT NULL,
  key text NOT NULL,
  hour integer NOT NULL,
  calls integer NOT NULL,
  tokens integer NOT NULL,
  cost real NOT NULL,
  unpriced integer NOT NULL,
  PRIMARY KEY (scope, key, hour)
) WITHOUT ROWID;

WITH RECURSIVE tree (id, root) AS (
  SELECT id, id FROM session WHERE parent_id IS NULL
  UNION
  SELECT s.id, tree.root FROM session s JOIN tree ON s.parent_id = tree.id
)
UPDATE instar_usage SET root_id = ifnull((SELECT root FROM tree WHERE tree.id = session_id), session_id);

INSERT INTO instar_spent
SELECT 'day', '', time_created / 3600000, count(*),
  sum(tokens_input + tokens_output + tokens_reasoning + tokens_cache_read + tokens_cache_write),
  ifnull(sum(cost), 0.0), count(*) - count(cost)
FROM instar_usage GROUP BY time_created / 3600000;

INSERT INTO instar_spent
SELECT 'cause', cause, time_created / 3600000, count(*),
  sum(tokens_input + tokens_output + tokens_reasoning + tokens_cache_read + tokens_cache_write),
  ifnull(sum(cost), 0.0), count(*) - count(cost)
FROM instar_usage GROUP BY cause, time_created / 3600000;

INSERT OR IGNORE INTO instar_spent
SELECT 'cause', 'person', time_created / 3600000, count(*),
  sum(tokens_input + tokens_output + tokens_reasoning + tokens_cache_read + tokens_cache_write),
  ifnull(sum(cost), 0.0), count(*) - count(cost)
FROM instar_usage GROUP BY time_created / 3600000;

INSERT INTO instar_spent
SELECT 'session', root_id, 0, count(*),
  sum(tokens_input + tokens_output + tokens_reasoning + tokens_cache_read + tokens_cache_write),
  ifnull(sum(cost), 0.0), count(*) - count(cost)
FROM instar_usage WHERE root_id <> '' GROUP BY root_id;
