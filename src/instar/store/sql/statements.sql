-- Every statement that the store runs, by name, for SQLite and PostgreSQL; `postgresql/statements.sql` has those that
-- PostgreSQL says in another way. Lines before the first name are comments.

-- name: put_project
INSERT INTO project (
  id, worktree, vcs, name, icon_url, icon_url_override, icon_color, commands, time_created, time_updated, sandboxes)
VALUES (:id, :worktree, :vcs, :name, :url, :override, :color, :commands, :now, :now, '[]')
ON CONFLICT (id) DO UPDATE SET
  worktree = excluded.worktree, vcs = excluded.vcs, time_updated = excluded.time_updated,
  name = coalesce(excluded.name, project.name), icon_url = coalesce(excluded.icon_url, project.icon_url),
  icon_url_override = coalesce(excluded.icon_url_override, project.icon_url_override),
  icon_color = coalesce(excluded.icon_color, project.icon_color),
  commands = coalesce(excluded.commands, project.commands);

-- name: put_session
INSERT INTO session (
  id, project_id, workspace_id, parent_id, slug, directory, path, title, version, share_url,
  summary_additions, summary_deletions, summary_files, summary_diffs, metadata, cost,
  tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,
  revert, permission, agent, model, time_created, time_updated, time_compacting, time_archived)
VALUES (
  :id, :project_id, :workspace_id, :parent_id, :slug, :directory, :path, :title, :version, :share_url,
  :summary_additions, :summary_deletions, :summary_files, :summary_diffs, :metadata, :cost,
  :tokens_input, :tokens_output, :tokens_reasoning, :tokens_cache_read, :tokens_cache_write,
  :revert, :permission, :agent, :model, :time_created, :time_updated, :time_compacting, :time_archived)
ON CONFLICT (id) DO UPDATE SET
  project_id = excluded.project_id, workspace_id = excluded.workspace_id, parent_id = excluded.parent_id,
  slug = excluded.slug, directory = excluded.directory, path = excluded.path, title = excluded.title,
  version = excluded.version, share_url = excluded.share_url,
  summary_additions = excluded.summary_additions, summary_deletions = excluded.summary_deletions,
  summary_files = excluded.summary_files, summary_diffs = excluded.summary_diffs,
  metadata = excluded.metadata, cost = excluded.cost,
  tokens_input = excluded.tokens_input, tokens_output = excluded.tokens_output,
  tokens_reasoning = excluded.tokens_reasoning, tokens_cache_read = excluded.tokens_cache_read,
  tokens_cache_write = excluded.tokens_cache_write, revert = excluded.revert,
  permission = excluded.permission, agent = excluded.agent, model = excluded.model,
  time_created = excluded.time_created, time_updated = excluded.time_updated,
  time_compacting = excluded.time_compacting, time_archived = excluded.time_archived;

-- name: add_session
INSERT INTO session (
  id, project_id, workspace_id, parent_id, slug, directory, path, title, version, share_url,
  summary_additions, summary_deletions, summary_files, summary_diffs, metadata, cost,
  tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,
  revert, permission, agent, model, time_created, time_updated, time_compacting, time_archived)
VALUES (
  :id, :project_id, :workspace_id, :parent_id, :slug, :directory, :path, :title, :version, :share_url,
  :summary_additions, :summary_deletions, :summary_files, :summary_diffs, :metadata, :cost,
  :tokens_input, :tokens_output, :tokens_reasoning, :tokens_cache_read, :tokens_cache_write,
  :revert, :permission, :agent, :model, :time_created, :time_updated, :time_compacting, :time_archived);

-- name: put_leftover
INSERT INTO instar_leftover (session_id, data) VALUES (?, ?)
ON CONFLICT (session_id) DO UPDATE SET data = excluded.data;

-- name: drop_leftover
DELETE FROM instar_leftover WHERE session_id = ?;

-- name: put_message
-- A row stays in its session (a part in its message): NULL fails the commit that would move it.
INSERT INTO message (id, session_id, data, time_created, time_updated) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
  session_id = CASE WHEN message.session_id = excluded.session_id THEN excluded.session_id END, data = excluded.data,
  time_created = excluded.time_created, time_updated = excluded.time_updated;

-- name: put_part
INSERT INTO part (id, message_id, session_id, data, time_created, time_updated) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (id) DO UPDATE SET
  message_id = CASE WHEN part.message_id = excluded.message_id THEN excluded.message_id END,
  data = excluded.data, time_updated = excluded.time_updated;

-- name: add_message
INSERT INTO message (id, session_id, data, time_created, time_updated) VALUES (?, ?, ?, ?, ?);

-- name: add_part
INSERT INTO part (id, message_id, session_id, data, time_created, time_updated) VALUES (?1, ?2, ?3, ?4, ?5, ?5);

-- name: drop_session
DELETE FROM session WHERE id = ?;

-- name: drop_events
DELETE FROM event_sequence WHERE aggregate_id = ?;

-- name: drop_message
DELETE FROM message WHERE id = ?;

-- name: drop_part
DELETE FROM part WHERE id = ?;

-- name: put_follow_up
INSERT INTO instar_follow_up (id, session_id, source, prompt, time_created, origin) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
  source = excluded.source, prompt = excluded.prompt, time_created = excluded.time_created,
  origin = excluded.origin;

-- name: put_origin
INSERT INTO instar_origin (message_id, session_id, data) VALUES (?, ?, ?)
ON CONFLICT (message_id) DO UPDATE SET data = excluded.data;

-- name: drop_follow_up
DELETE FROM instar_follow_up WHERE id = ?;

-- name: put_ask
INSERT INTO instar_ask (id, session_id, properties) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET properties = excluded.properties;

-- name: drop_ask
DELETE FROM instar_ask WHERE id = ?;

-- name: put_value
INSERT INTO instar_value (plugin, key, value) VALUES (?, ?, ?)
ON CONFLICT (plugin, key) DO UPDATE SET value = excluded.value;

-- name: drop_value
DELETE FROM instar_value WHERE plugin = ? AND key = ?;

-- name: prune_values
DELETE FROM instar_value WHERE plugin = ?1 AND key IN (
  SELECT key FROM instar_value WHERE plugin = ?1 AND key >= ?2 AND key < ?3
  ORDER BY key DESC LIMIT 9223372036854775807 OFFSET ?4
);

-- name: put_approval
INSERT INTO permission (id, project_id, action, resource, time_created, time_updated) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (project_id, action, resource) DO UPDATE SET time_updated = excluded.time_updated;

-- name: drop_todos
DELETE FROM todo WHERE session_id = ?;

-- name: put_todo
INSERT INTO todo (session_id, content, status, priority, position, time_created, time_updated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6);

-- name: put_usage
INSERT INTO instar_usage (
  session_id, message_id, cause, provider_id, model_id, tokens_total, tokens_input, tokens_output,
  tokens_reasoning, tokens_cache_read, tokens_cache_write, cost, time_created,
  origin, origin_id, source, agent, turn_id, root_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_spent
INSERT INTO instar_spent (scope, key, hour, calls, tokens, cost, unpriced) VALUES (?, ?, ?, 1, ?, ?, ?)
ON CONFLICT (scope, key, hour) DO UPDATE SET
  calls = instar_spent.calls + 1, tokens = instar_spent.tokens + excluded.tokens,
  cost = instar_spent.cost + excluded.cost, unpriced = instar_spent.unpriced + excluded.unpriced;

-- name: advance
INSERT INTO event_sequence (aggregate_id, seq) VALUES (?1, ?2)
ON CONFLICT (aggregate_id) DO UPDATE SET seq = event_sequence.seq + ?2 RETURNING seq;

-- name: put_event
INSERT INTO event (id, aggregate_id, seq, type, data)
SELECT ?1, aggregate_id, seq - ?3, ?4, ?5 FROM event_sequence WHERE aggregate_id = ?2;

-- name: oldest_events
SELECT rowid, id FROM event ORDER BY rowid LIMIT ?;

-- name: prune_events
DELETE FROM event WHERE rowid < ?;

-- name: take_lease
INSERT INTO instar_lease (session_id, owner, fence, time_expires) VALUES (:session_id, :owner, 1, :expires)
ON CONFLICT (session_id) DO UPDATE SET
  fence = instar_lease.fence + CASE WHEN instar_lease.owner = excluded.owner THEN 0 ELSE 1 END,
  owner = excluded.owner, time_expires = excluded.time_expires
WHERE instar_lease.owner = excluded.owner OR instar_lease.time_expires <= :now
RETURNING fence;

-- name: holder
SELECT owner, fence, time_expires FROM instar_lease WHERE session_id = ? AND time_expires > ?;

-- name: is_leased
SELECT 1 FROM instar_lease WHERE session_id = ? AND owner = ? AND fence = ?;

-- name: release_lease
UPDATE instar_lease SET time_expires = 0 WHERE session_id = ? AND owner = ? AND fence = ?;

-- name: schema
SELECT max(version) FROM instar_migration;

-- name: running
SELECT session.id, session.title, session.directory, lease.owner
FROM instar_lease AS lease JOIN session ON session.id = lease.session_id
WHERE lease.time_expires > ? ORDER BY session.id DESC;

-- name: waiting
SELECT session.id, session.title, session.directory, queue.source, count(*)
FROM instar_follow_up AS queue JOIN session ON session.id = queue.session_id
GROUP BY session.id, session.title, session.directory, queue.source ORDER BY session.id DESC, min(queue.position);

-- name: projects
SELECT id, worktree, vcs, name, icon_url, icon_url_override, icon_color, time_created, time_updated, time_initialized,
  commands
FROM project WHERE CAST(:id AS text) IS NULL OR id = :id ORDER BY time_updated DESC, id;

-- name: whereabouts
SELECT directory, time_updated FROM session WHERE id = ?;

-- name: session
SELECT s.id, project_id, workspace_id, parent_id, slug, directory, path, title, version, share_url,
  summary_additions, summary_deletions, summary_files, summary_diffs, metadata, cost,
  tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,
  revert, permission, agent, model, time_created, time_updated, time_compacting, time_archived, l.data
FROM session s LEFT JOIN instar_leftover l ON l.session_id = s.id
WHERE s.id = ?;

-- name: sessions
SELECT s.id, project_id, workspace_id, parent_id, slug, directory, path, title, version, share_url,
  summary_additions, summary_deletions, summary_files, summary_diffs, metadata, cost,
  tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,
  revert, permission, agent, model, time_created, time_updated, time_compacting, time_archived, l.data
FROM session s LEFT JOIN instar_leftover l ON l.session_id = s.id
WHERE (CAST(:project_id AS text) IS NULL OR project_id = :project_id)
  AND (CAST(:directory AS text) IS NULL OR directory = :directory)
  AND (CAST(:parent_id AS text) IS NULL OR parent_id = :parent_id)
  AND (:archived OR time_archived IS NULL)
ORDER BY time_updated DESC, s.id LIMIT :limit;

-- name: saying
SELECT DISTINCT session_id FROM part
WHERE data LIKE '{"type":"text"%' AND CASE WHEN json_valid(data) THEN instr(lower(data ->> '$.text'), ?) END;

-- name: messages
SELECT id, session_id, data, time_created FROM message
WHERE session_id = ? ORDER BY time_created DESC, id DESC LIMIT ?;

-- name: parts
SELECT p.id, p.message_id, p.session_id, p.data
FROM message m CROSS JOIN part p ON p.message_id = m.id
WHERE m.session_id = ?1 AND m.time_created >= ?2 AND (m.time_created > ?2 OR m.id >= ?3)
ORDER BY m.time_created, m.id, p.id;

-- name: open_tool_parts
SELECT id, message_id, session_id, data FROM part
WHERE session_id = ? AND data LIKE '%"tool"%' AND (data LIKE '%"pending"%' OR data LIKE '%"running"%')
ORDER BY message_id, id;

-- name: open_answers
SELECT id, session_id, data, time_created FROM message
WHERE session_id = ? AND data LIKE '%"assistant"%'
  AND (data NOT LIKE '%"completed":%' OR data LIKE '%"structured"%' OR data LIKE '%"error"%')
ORDER BY time_created, id;

-- name: events
SELECT seq, id, aggregate_id, type, data FROM event WHERE aggregate_id = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: last_seq
SELECT seq FROM event_sequence WHERE aggregate_id = ?;

-- name: event_place
SELECT rowid FROM event WHERE id = ?;

-- name: event_place_by_time
SELECT coalesce(min(rowid) - 1, (SELECT coalesce(max(rowid), 0) FROM event)) FROM event WHERE id > ? AND id < ?;

-- name: events_after
SELECT e.rowid, e.seq, e.id, e.aggregate_id, e.type, e.data, s.directory, s.project_id
FROM event e JOIN session s ON s.id = e.aggregate_id
WHERE e.rowid > :place AND (CAST(:directory AS text) IS NULL OR s.directory = :directory)
ORDER BY e.rowid LIMIT :limit;

-- name: follow_ups
SELECT id, session_id, source, prompt, time_created, origin FROM instar_follow_up WHERE session_id = ? ORDER BY position;

-- name: asks
SELECT id, session_id, properties FROM instar_ask WHERE CAST(?1 AS text) IS NULL OR session_id = ?1 ORDER BY position;

-- name: todos
SELECT content, status, priority FROM todo WHERE session_id = ? ORDER BY position;

-- name: approvals
SELECT action, resource FROM permission WHERE project_id = ? ORDER BY time_created, rowid;

-- name: value
SELECT value FROM instar_value WHERE plugin = ? AND key = ?;

-- name: values
SELECT key, value FROM instar_value WHERE plugin = ? AND key >= ? ORDER BY key;

-- name: usage
SELECT session_id, message_id, cause, provider_id, model_id, tokens_total, tokens_input, tokens_output,
  tokens_reasoning, tokens_cache_read, tokens_cache_write, cost, time_created,
  origin, origin_id, source, agent, turn_id, root_id
FROM instar_usage WHERE time_created >= ? ORDER BY time_created, position;

-- name: session_usage
SELECT session_id, message_id, cause, provider_id, model_id, tokens_total, tokens_input, tokens_output,
  tokens_reasoning, tokens_cache_read, tokens_cache_write, cost, time_created,
  origin, origin_id, source, agent, turn_id, root_id
FROM instar_usage WHERE session_id = ? AND time_created >= ? ORDER BY time_created, position;

-- name: spent
SELECT CAST(coalesce(sum(calls), 0) AS bigint), CAST(coalesce(sum(tokens), 0) AS bigint), coalesce(sum(cost), 0.0),
  CAST(coalesce(sum(unpriced), 0) AS bigint)
FROM instar_spent WHERE scope = ? AND key = ? AND hour >= ?;

-- name: origins
SELECT message_id, data FROM instar_origin WHERE session_id = ?;
