-- The statements that PostgreSQL says in another way than `../statements.sql`.

-- name: saying
SELECT DISTINCT session_id FROM part
WHERE data LIKE '{"type":"text"%' AND strpos(data, '\u0000') = 0 AND strpos(lower(data::json ->> 'text'), ?) > 0;

-- name: parts
SELECT p.id, p.message_id, p.session_id, p.data
FROM message m JOIN part p ON p.message_id = m.id
WHERE m.session_id = ?1 AND m.time_created >= ?2 AND (m.time_created > ?2 OR m.id >= ?3)
ORDER BY m.time_created, m.id, p.id;
