-- What evolve keeps on one workspace beside git. A `value` is JSON, that of `call` compressed msgpack.

CREATE TABLE note (name TEXT PRIMARY KEY, value BLOB NOT NULL);

CREATE TABLE granted (script TEXT PRIMARY KEY, value BLOB NOT NULL);

-- `rejected` is when a person said no.
CREATE TABLE pending (id TEXT PRIMARY KEY, time INTEGER NOT NULL, rejected INTEGER, value BLOB NOT NULL);

-- `key` is the one spelling in which names are compared.
CREATE TABLE pin (key TEXT PRIMARY KEY, file TEXT NOT NULL, by TEXT NOT NULL, time INTEGER NOT NULL);

CREATE TABLE audit (number INTEGER PRIMARY KEY, value BLOB NOT NULL);

-- Commits that could not be made yet, the oldest first.
CREATE TABLE debt (number INTEGER PRIMARY KEY, value BLOB NOT NULL);

CREATE TABLE beat (number INTEGER PRIMARY KEY, value BLOB NOT NULL);

CREATE TABLE call (
  number INTEGER PRIMARY KEY, script TEXT NOT NULL, hook TEXT NOT NULL, at INTEGER NOT NULL, value BLOB NOT NULL);
CREATE INDEX call_of_hook ON call (script, hook, at, number);

-- Notices: once each, however many sessions they wait for. What is in `message` is being sent, or was when a crash came.
CREATE TABLE notice (number INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB NOT NULL);
CREATE TABLE waiting (
  session TEXT NOT NULL, notice INTEGER NOT NULL, message TEXT NOT NULL DEFAULT '', PRIMARY KEY (session, notice));
CREATE TABLE queue (
  session TEXT PRIMARY KEY, filled INTEGER NOT NULL, dropped INTEGER NOT NULL DEFAULT 0,
  message TEXT NOT NULL DEFAULT '', message_dropped INTEGER NOT NULL DEFAULT 0);
CREATE TABLE answer (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
