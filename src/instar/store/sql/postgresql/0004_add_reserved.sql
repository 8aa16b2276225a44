-- The largest possible cost of the model calls that run now, at all processes, by the shares that they will be booked in.
-- Each row is renewed while its call runs. Lost when the server crashes, as are the calls' bookings.

CREATE UNLOGGED TABLE instar_reserved (
  scope instar_text NOT NULL,
  key instar_text NOT NULL,
  id instar_text NOT NULL,
  tokens bigint NOT NULL,
  cost double precision NOT NULL,
  unpriced bigint NOT NULL,
  time_expires bigint NOT NULL,
  PRIMARY KEY (scope, key, id)
);
CREATE INDEX instar_reserved_id ON instar_reserved (id);
CREATE INDEX instar_reserved_time ON instar_reserved (time_expires);
