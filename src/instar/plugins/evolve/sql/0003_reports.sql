-- What the gate found on each candidate; `audit` names the report by its id.

CREATE TABLE report (number INTEGER PRIMARY KEY, id TEXT NOT NULL, value BLOB NOT NULL);
CREATE INDEX report_by_id ON report (id);
