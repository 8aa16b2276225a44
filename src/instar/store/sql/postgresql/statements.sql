-- The statements that PostgreSQL says in another way than `../statements.sql`.

-- name: saying
SELECT DISTINCT session_id FROM part
WHERE data LIKE '{"type":"text"%' AND strpos(data, '\u0000') = 0 AND strpos(lower(data::json ->> 'text'), ?) > 0;

-- name: parts
SELECT p.id, p.message_id, p.session_id, p.data
FROM message m JOIN part p ON p.message_id = m.id
WHERE m.session_id = ?1 AND m.time_created >= ?2 AND (m.time_created > ?2 OR m.id >= ?3)
ORDER BY m.time_created, m.id, p.id;

-- name: event_place
SELECT rowid FROM event WHERE id = ?1 UNION ALL SELECT place FROM instar_relay WHERE id = ?1;

-- name: put_relayed
INSERT INTO instar_relay (id, session_id, type, data, directory, project_id, time_created)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: prune_relayed
DELETE FROM instar_relay WHERE time_created < ?;

-- name: wake_others
SELECT pg_notify('instar_' || md5(current_schema()), '');

-- name: enqueue_task
SELECT absurd.spawn_task(?, ?, CAST(? AS jsonb), CAST(? AS jsonb));

-- name: wake_workers
SELECT pg_notify('instar_work_' || md5(current_schema()), '');

-- name: last_place
SELECT greatest((SELECT coalesce(max(rowid), 0) FROM event), (SELECT coalesce(max(place), 0) FROM instar_relay));

-- name: relayed_after
(SELECT e.rowid AS place, e.seq, e.id, e.aggregate_id, e.type, e.data, s.directory, s.project_id
FROM event e JOIN session s ON s.id = e.aggregate_id WHERE e.rowid > ?1 ORDER BY e.rowid LIMIT ?2)
UNION ALL
(SELECT place, NULL, id, session_id, type, data, directory, project_id
FROM instar_relay WHERE place > ?1 ORDER BY place LIMIT ?2)
ORDER BY place LIMIT ?2;

-- name: name_worker
SELECT set_config('application_name', 'instar worker ' || left(current_schema(), 20) || ' ' || ?, false);

-- name: stops
SELECT id, scope, time_created, resumes FROM instar_stop ORDER BY position;

-- name: drop_stops
DELETE FROM instar_stop WHERE (scope = ?1 OR CAST(?1 AS text) = '*') AND (resumes OR NOT CAST(?2 AS boolean));

-- name: put_stop
INSERT INTO instar_stop (id, scope, time_created, resumes) VALUES (?, ?, ?, ?);

-- name: trust_ids
SELECT id FROM instar_trust ORDER BY position;

-- name: trust_order
SELECT value FROM instar_trust WHERE id = ?;

-- name: drop_trust
DELETE FROM instar_trust WHERE folder = ?1 AND (kind = 'accept' OR CAST(?2 AS text) <> 'accept');

-- name: put_trust
INSERT INTO instar_trust (id, folder, kind, value) VALUES (?, ?, ?, ?);

-- name: reserved
SELECT count(*), CAST(coalesce(sum(tokens), 0) AS bigint), coalesce(sum(cost), 0.0),
  CAST(coalesce(sum(unpriced), 0) AS bigint)
FROM instar_reserved WHERE scope = ? AND key = ? AND time_expires > ?;

-- name: put_reserved
INSERT INTO instar_reserved (id, time_expires, scope, key, tokens, cost, unpriced) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: renew_reserved
UPDATE instar_reserved SET time_expires = ?2 WHERE id = ?1;

-- name: drop_reserved
DELETE FROM instar_reserved WHERE id = ?;

-- name: prune_reserved
DELETE FROM instar_reserved WHERE time_expires < ?;
