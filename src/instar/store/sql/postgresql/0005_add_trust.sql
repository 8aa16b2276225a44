-- What persons decided on folders, for all machines, in their order: the last decision on each folder, and what was
-- accepted of it alone since. `value` is the decision as `instar.store.trust` writes it.

CREATE TABLE instar_trust (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id instar_text NOT NULL UNIQUE,
  folder instar_text NOT NULL,
  kind instar_text NOT NULL,
  value instar_text NOT NULL
);
