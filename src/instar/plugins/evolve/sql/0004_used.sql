-- How often what stands in a workspace was called, a row a day. `part` is a hook, or `execute_tool` and a tool's own name;
-- requests to the model have no file. `used` counts calls that were of use, `ms` is what all took, `last` when it was of use.

CREATE TABLE used (
  day INTEGER NOT NULL, file TEXT NOT NULL, part TEXT NOT NULL, calls INTEGER NOT NULL, used INTEGER NOT NULL,
  ms REAL NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (day, file, part));
