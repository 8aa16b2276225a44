-- What other processes' clients are told and nobody keeps: pieces of text, what a session does, questions, messages
-- between processes. Its places and those of `event` are one order. Lost when the server crashes, as its clients are.

CREATE UNLOGGED TABLE instar_relay (
  place bigint PRIMARY KEY DEFAULT nextval('event_rowid_seq'),
  id instar_text NOT NULL UNIQUE,
  session_id instar_text NOT NULL,
  type instar_text NOT NULL,
  data instar_text NOT NULL,
  directory instar_text NOT NULL,
  project_id instar_text NOT NULL,
  time_created bigint NOT NULL
);
CREATE INDEX instar_relay_time ON instar_relay (time_created);
