-- Our own records. `position` is the order of arrival.

-- What of a session the columns of `session` cannot hold: unknown fields, as a tree laid over the rest.
CREATE TABLE instar_leftover (
  session_id text PRIMARY KEY REFERENCES session(id) ON DELETE CASCADE,
  data text NOT NULL
) WITHOUT ROWID;

CREATE TABLE instar_follow_up (
  position integer PRIMARY KEY,
  id text NOT NULL UNIQUE,
  session_id text NOT NULL REFERENCES session(id) ON DELETE CASCADE,
  source text NOT NULL,
  prompt text NOT NULL,
  time_created integer NOT NULL
);
CREATE INDEX instar_follow_up_session ON instar_follow_up (session_id, position);

CREATE TABLE instar_ask (
  position integer PRIMARY KEY,
  id text NOT NULL UNIQUE,
  session_id text NOT NULL REFERENCES session(id) ON DELETE CASCADE,
  properties text NOT NULL
);
CREATE INDEX instar_ask_session ON instar_ask (session_id, position);

CREATE TABLE instar_value (
  plugin text NOT NULL,
  key text NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (plugin, key)
) WITHOUT ROWID;

-- No reference to `session`: what was spent stays spent when the session is deleted.
CREATE TABLE instar_usage (
  position integer PRIMARY KEY,
  session_id text NOT NULL,
  message_id text,
  cause text NOT NULL,
  provider_id text NOT NULL,
  model_id text NOT NULL,
  tokens_total integer,
  tokens_input integer NOT NULL,
  tokens_output integer NOT NULL,
  tokens_reasoning integer NOT NULL,
  tokens_cache_read integer NOT NULL,
  tokens_cache_write integer NOT NULL,
  cost real,
  time_created integer NOT NULL
);
CREATE INDEX instar_usage_session ON instar_usage (session_id, time_created);
CREATE INDEX instar_usage_time ON instar_usage (time_created);

CREATE TABLE instar_lease (
  session_id text PRIMARY KEY REFERENCES session(id) ON DELETE CASCADE,
  owner text NOT NULL,
  fence integer NOT NULL,
  time_expires integer NOT NULL
) WITHOUT ROWID;
