-- What `instar stop` ordered, for all machines: the last order of each folder, in their order. `resumes`: a person let
-- what is automatic go on.

CREATE TABLE instar_stop (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id instar_text NOT NULL UNIQUE,
  scope instar_text NOT NULL,
  time_created bigint NOT NULL,
  resumes boolean NOT NULL
);
