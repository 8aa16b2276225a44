-- The tables of the SQLite database in its third form. `rowid` is the order of arrival, which SQLite keeps by itself.
-- Text sorts by its bytes, as in SQLite, whatever the database's own order is.

CREATE DOMAIN instar_text AS text COLLATE "C";

CREATE TABLE project (
  id instar_text PRIMARY KEY,
  worktree instar_text NOT NULL,
  vcs instar_text,
  name instar_text,
  icon_url instar_text,
  icon_url_override instar_text,
  icon_color instar_text,
  time_created bigint NOT NULL,
  time_updated bigint NOT NULL,
  time_initialized bigint,
  sandboxes instar_text NOT NULL,
  commands instar_text
);

CREATE TABLE session (
  id instar_text PRIMARY KEY,
  project_id instar_text NOT NULL REFERENCES project (id) ON DELETE CASCADE,
  workspace_id instar_text,
  parent_id instar_text,
  slug instar_text NOT NULL,
  directory instar_text NOT NULL,
  path instar_text,
  title instar_text NOT NULL,
  version instar_text NOT NULL,
  share_url instar_text,
  summary_additions bigint,
  summary_deletions bigint,
  summary_files bigint,
  summary_diffs instar_text,
  metadata instar_text,
  cost double precision DEFAULT 0 NOT NULL,
  tokens_input bigint DEFAULT 0 NOT NULL,
  tokens_output bigint DEFAULT 0 NOT NULL,
  tokens_reasoning bigint DEFAULT 0 NOT NULL,
  tokens_cache_read bigint DEFAULT 0 NOT NULL,
  tokens_cache_write bigint DEFAULT 0 NOT NULL,
  revert instar_text,
  permission instar_text,
  agent instar_text,
  model instar_text,
  time_created bigint NOT NULL,
  time_updated bigint NOT NULL,
  time_compacting bigint,
  time_archived bigint
);
CREATE INDEX session_parent_idx ON session (parent_id);
CREATE INDEX session_project_idx ON session (project_id);
CREATE INDEX session_directory_idx ON session (directory);

CREATE TABLE message (
  id instar_text PRIMARY KEY,
  session_id instar_text NOT NULL REFERENCES session (id) ON DELETE CASCADE,
  time_created bigint NOT NULL,
  time_updated bigint NOT NULL,
  data instar_text NOT NULL
);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);

CREATE TABLE part (
  id instar_text PRIMARY KEY,
  message_id instar_text NOT NULL REFERENCES message (id) ON DELETE CASCADE,
  session_id instar_text NOT NULL,
  time_created bigint NOT NULL,
  time_updated bigint NOT NULL,
  data instar_text NOT NULL
);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);

CREATE TABLE todo (
  session_id instar_text NOT NULL REFERENCES session (id) ON DELETE CASCADE,
  content instar_text NOT NULL,
  status instar_text NOT NULL,
  priority instar_text NOT NULL,
  position bigint NOT NULL,
  time_created bigint NOT NULL,
  time_updated bigint NOT NULL,
  PRIMARY KEY (session_id, position)
);

CREATE TABLE permission (
  rowid bigserial,
  id instar_text PRIMARY KEY,
  project_id instar_text NOT NULL REFERENCES project (id) ON DELETE CASCADE,
  action instar_text NOT NULL,
  resource instar_text NOT NULL,
  time_created bigint NOT NULL,
  time_updated bigint NOT NULL
);
CREATE UNIQUE INDEX permission_project_action_resource_idx ON permission (project_id, action, resource);

CREATE TABLE event_sequence (
  aggregate_id instar_text PRIMARY KEY,
  seq bigint NOT NULL,
  owner_id instar_text
);

CREATE TABLE event (
  rowid bigserial UNIQUE,
  id instar_text PRIMARY KEY,
  aggregate_id instar_text NOT NULL REFERENCES event_sequence (aggregate_id) ON DELETE CASCADE,
  seq bigint NOT NULL,
  type instar_text NOT NULL,
  data instar_text NOT NULL
);
CREATE UNIQUE INDEX event_aggregate_seq_idx ON event (aggregate_id, seq);

CREATE TABLE instar_leftover (
  session_id instar_text PRIMARY KEY REFERENCES session (id) ON DELETE CASCADE,
  data instar_text NOT NULL
);

CREATE TABLE instar_follow_up (
  position bigserial PRIMARY KEY,
  id instar_text NOT NULL UNIQUE,
  session_id instar_text NOT NULL REFERENCES session (id) ON DELETE CASCADE,
  source instar_text NOT NULL,
  prompt instar_text NOT NULL,
  time_created bigint NOT NULL,
  origin instar_text
);
CREATE INDEX instar_follow_up_session ON instar_follow_up (session_id, position);

CREATE TABLE instar_ask (
  position bigserial PRIMARY KEY,
  id instar_text NOT NULL UNIQUE,
  session_id instar_text NOT NULL REFERENCES session (id) ON DELETE CASCADE,
  properties instar_text NOT NULL
);
CREATE INDEX instar_ask_session ON instar_ask (session_id, position);

CREATE TABLE instar_value (
  plugin instar_text NOT NULL,
  key instar_text NOT NULL,
  value instar_text NOT NULL,
  PRIMARY KEY (plugin, key)
);

-- No reference to `session`: what was spent stays spent when the session is deleted.
CREATE TABLE instar_usage (
  position bigserial PRIMARY KEY,
  session_id instar_text NOT NULL,
  message_id instar_text,
  cause instar_text NOT NULL,
  provider_id instar_text NOT NULL,
  model_id instar_text NOT NULL,
  tokens_total bigint,
  tokens_input bigint NOT NULL,
  tokens_output bigint NOT NULL,
  tokens_reasoning bigint NOT NULL,
  tokens_cache_read bigint NOT NULL,
  tokens_cache_write bigint NOT NULL,
  cost double precision,
  time_created bigint NOT NULL,
  origin instar_text NOT NULL DEFAULT 'person',
  origin_id instar_text NOT NULL DEFAULT '',
  source instar_text NOT NULL DEFAULT '',
  agent instar_text NOT NULL DEFAULT '',
  turn_id instar_text NOT NULL DEFAULT '',
  root_id instar_text NOT NULL DEFAULT ''
);
CREATE INDEX instar_usage_session ON instar_usage (session_id, time_created);
CREATE INDEX instar_usage_time ON instar_usage (time_created);

CREATE TABLE instar_lease (
  session_id instar_text PRIMARY KEY REFERENCES session (id) ON DELETE CASCADE,
  owner instar_text NOT NULL,
  fence bigint NOT NULL,
  time_expires bigint NOT NULL
);
CREATE INDEX instar_lease_time ON instar_lease (time_expires);

-- A message without a row is a person's.
CREATE TABLE instar_origin (
  message_id instar_text PRIMARY KEY REFERENCES message (id) ON DELETE CASCADE,
  session_id instar_text NOT NULL,
  data instar_text NOT NULL
);
CREATE INDEX instar_origin_session ON instar_origin (session_id);

-- Sums of the calls of a scope: `session` (a tree's root), `origin` (name:id), and by the hour `day` and `cause`.
-- `hour` counts hours since the epoch; it is 0 where no time matters.
CREATE TABLE instar_spent (
  scope instar_text NOT NULL,
  key instar_text NOT NULL,
  hour bigint NOT NULL,
  calls bigint NOT NULL,
  tokens bigint NOT NULL,
  cost double precision NOT NULL,
  unpriced bigint NOT NULL,
  PRIMARY KEY (scope, key, hour)
);
