-- Candidates that the gate refused, by what they were and were judged against; `value` is the report's id.

CREATE TABLE tried (number INTEGER PRIMARY KEY, file TEXT NOT NULL, mark TEXT NOT NULL, value TEXT NOT NULL);
CREATE INDEX tried_by_mark ON tried (mark);
