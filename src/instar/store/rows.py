"""Values to rows and back: what stands in columns and what in JSON, as in opencode's database.

A message's ``data`` is its wire form without ``id`` and ``sessionID``, a part's its wire form without
``id``, ``sessionID`` and ``messageID``. What of a session no column holds becomes a *leftover tree*.
"""

from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any, Final

import msgspec

from instar import wire
from instar.api.project import Project, ProjectCommands, ProjectIcon
from instar.event import ProjectTime
from instar.message import (
    PART_TYPES,
    AnswerTime,
    Assistant,
    CacheTokens,
    Message,
    MessagePath,
    Origin,
    Part,
    Session,
    Tokens,
    ToolError,
    ToolRunning,
    ToolSpan,
    UnknownData,
    UnknownError,
    User,
    decode_message,
    decode_part,
    encode_part,
    unknown_part,
)
from instar.store import (
    PutProject,
    Stored,
    StoreError,
    Usage,
)
from instar.store.database import Row
from instar.wire import Plain

_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "id": ("id",),
    "project_id": ("projectID",),
    "workspace_id": ("workspaceID",),
    "parent_id": ("parentID",),
    "slug": ("slug",),
    "directory": ("directory",),
    "path": ("path",),
    "title": ("title",),
    "version": ("version",),
    "share_url": ("share", "url"),
    "summary_additions": ("summary", "additions"),
    "summary_deletions": ("summary", "deletions"),
    "summary_files": ("summary", "files"),
    "summary_diffs": ("summary", "diffs"),
    "metadata": ("metadata",),
    "cost": ("cost",),
    "tokens_input": ("tokens", "input"),
    "tokens_output": ("tokens", "output"),
    "tokens_reasoning": ("tokens", "reasoning"),
    "tokens_cache_read": ("tokens", "cache", "read"),
    "tokens_cache_write": ("tokens", "cache", "write"),
    "revert": ("revert",),
    "permission": ("permission",),
    "agent": ("agent",),
    "model": ("model",),
    "time_created": ("time", "created"),
    "time_updated": ("time", "updated"),
    "time_compacting": ("time", "compacting"),
    "time_archived": ("time", "archived"),
}
"""Where in a session's wire form each column of its row stands, in the order of the statements."""

_PLACES: Final = tuple((column, path[:-1], path[-1]) for column, path in _PATHS.items())
"""A column, the objects that lead to its value, and the value's key."""
_INNER: Final = tuple((column, path[:-2], path[-2]) for column, path in reversed(_PATHS.items()) if path[1:])
"""The same of the object that holds the value, inner ones first."""
COLUMNS: Final = tuple(_PATHS)
"""The columns of a session's row, in the order that `session_of` takes them."""

_JSON: Final = frozenset({"summary_diffs", "metadata", "revert", "permission", "model"})
_TEXTS: Final = _JSON | {"leftover"}
_MESSAGE_IDS: Final = ("id", "sessionID")
_PART_IDS: Final = ("id", "sessionID", "messageID")
_TAG: Final = len('{"type":"')
"""Where the tag's value begins in what we encode; ``role`` is as long as ``type``."""
INTERRUPTED: Final = "Tool execution was interrupted: the process that ran it ended."
"""The error of a call whose process ended."""
_ROLES: Final[dict[str, type[User | Assistant]]] = {"user": User, "assistant": Assistant}


def session_row(session: Session) -> tuple[dict[str, Any], str | None]:
    """Return a session's columns by name, and its leftover tree as JSON (None when nothing is left)."""
    # Through JSON: a column can hold no half of a surrogate pair, which a model may have put in a title.
    left: Plain = wire.parse(wire.encode(session))
    columns: dict[str, Any] = {}
    for column, parents, key in _PLACES:
        place: Any = left
        for parent in parents:
            place = place.get(parent) if isinstance(place, dict) else None
        value = place.get(key) if isinstance(place, dict) else None
        if value is not None:
            del place[key]
        columns[column] = json_text(value) if column in _JSON and value is not None else value
    for column, parents, key in _INNER:
        if columns[column] is not None:
            place = left
            for parent in parents:
                place = place[parent]
            if not place.get(key, True):
                del place[key]
    return columns, json_text(left) if left else None


def session_of(row: Row) -> Session:
    """Return the session of a row: its columns in the statements' order, then its leftover tree.

    Raises `StoreError` when the row is malformed.
    """
    try:
        plain = _session_plain(row[:-1])
        if row[-1] is not None:
            _lay_over(plain, wire.parse(row[-1]))
        return wire.decode(plain, Session)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"session {row[0]} in the database cannot be read: {error}. "
            "It was written by another program or version; nothing was changed."
        ) from error


def shown_session(row: Row) -> Session:
    """Return the session of a row of ours.

    One with damaged JSON has none of it and denies everything, since its permissions may be what cannot be read; it
    keeps the texts as ``damaged``. Raises `StoreError` when the other columns are malformed too.
    """
    try:
        return session_of(row)
    except StoreError:
        texts = {name: text for name, text in zip((*COLUMNS, "leftover"), row, strict=True) if name in _TEXTS}
        title = f"(damaged) {row[COLUMNS.index('title')]}"
        denied = json_text([{"permission": "*", "pattern": "*", "action": "deny"}])
        kept = {"title": title, "permission": denied, **dict.fromkeys(_JSON - {"permission"})}
        columns = (kept.get(name, row[at]) for at, name in enumerate(COLUMNS))
        return session_of((*columns, json_text({"damaged": texts})))


def message_row(message: Message) -> Row:
    """Return ``(id, session_id, data, time_created)``."""
    ids = (message.id, message.session_id)
    return *ids, _without_ids(wire.encode(message), _MESSAGE_IDS, ids), message.time.created


def message_of(row: Row) -> Message:
    """Return the message of a row ``(id, session_id, data, …)``.

    One message does not make its session unreadable: an error of a kind that this version does not know becomes an
    `UnknownError` with its text, and a damaged row an answer with an error that says so. The row stays as it is.
    """
    ids, data = row[:2], row[2]
    kind = _ROLES.get(_tag(data))
    if kind is not None:
        try:
            return wire.decode(_with_ids(data, _MESSAGE_IDS, ids), kind)
        except msgspec.DecodeError:
            pass  # not as we write it: read it with care
    try:
        plain = _object(data, _MESSAGE_IDS, ids)
        try:
            return decode_message(plain)
        except msgspec.ValidationError:
            return decode_message({**plain, "error": _unknown_error(plain)})
    except msgspec.DecodeError as error:
        return _damaged_message(ids, row[3], f"message {ids[0]} is damaged in the database: {error}")


def part_row(part: Part) -> Row:
    """Return ``(id, message_id, session_id, data)``."""
    ids = (part.id, part.session_id, part.message_id)
    return part.id, part.message_id, part.session_id, _without_ids(encode_part(part), _PART_IDS, ids)


def part_of(row: Row) -> Part:
    """Return the part of a row ``(id, message_id, session_id, data)``.

    A part that this version cannot read, of whatever type, is an `UnknownPart`: kept and shown as it is. One whose
    ``data`` is not a JSON object has the type ``damaged`` and keeps it as ``text``.
    """
    part_id, message_id, session_id, data = row
    ids = (part_id, session_id, message_id)
    kind = PART_TYPES.get(_tag(data))
    if kind is not None:
        try:
            return wire.decode(_with_ids(data, _PART_IDS, ids), kind)  # type: ignore[no-any-return]
        except msgspec.DecodeError:
            pass  # not as we write it: read it with care
    try:
        plain = _object(data, _PART_IDS, ids)
    except msgspec.DecodeError:
        plain = {"type": "damaged", "text": str(data), **dict(zip(_PART_IDS, ids, strict=True))}
    try:
        return decode_part(plain)
    except msgspec.ValidationError:
        return unknown_part(plain)


def project_row(write: PutProject) -> Plain:
    """Return the columns of a project, by their names in the statement."""
    icon = write.icon or ProjectIcon()
    return {
        "id": write.id,
        "worktree": write.worktree,
        "vcs": write.vcs,
        "now": write.now,
        "name": write.name,
        "url": icon.url,
        "override": icon.override,
        "color": icon.color,
        "commands": wire.encode(write.commands).decode() if write.commands is not None else None,
    }


def project_of(row: Sequence[Any]) -> Project:
    """Return the project of a row, its columns in the statement's order; `sandboxes` are for others to fill in."""
    project_id, worktree, vcs, name, url, override, color, created, updated, initialized, commands = row
    icon = ProjectIcon(url=url, override=override, color=color)
    return Project(
        id=project_id,
        worktree=worktree,
        vcs="git" if vcs == "git" else None,
        name=name,
        icon=icon if icon != ProjectIcon() else None,
        commands=_commands(commands),
        time=ProjectTime(created=created, updated=updated, initialized=initialized),
        sandboxes=[],
    )


def _commands(text: str | None) -> ProjectCommands | None:
    try:
        return wire.decode(text, ProjectCommands) if text else None
    except msgspec.DecodeError:  # written by another program: no reason to list no projects
        return None


def usage_row(usage: Usage) -> Row:
    """Return the columns of a booked model call, in the order of the statement."""
    tokens = usage.tokens
    counts = (
        tokens.total,
        tokens.input,
        tokens.output,
        tokens.reasoning,
        tokens.cache.read,
        tokens.cache.write,
    )
    names = (usage.session_id, usage.message_id, usage.cause, usage.provider_id, usage.model_id)
    whose = (usage.origin, usage.origin_id, usage.source, usage.agent, usage.turn_id, usage.root_id)
    return *names, *counts, usage.cost, usage.created, *whose


def usage_of(row: Row) -> Usage:
    """Return the booked model call of a row."""
    total, given, taken, reasoning, read, write = row[5:11]
    cache = CacheTokens(read=read, write=write)
    tokens = Tokens(total=total, input=given, output=taken, reasoning=reasoning, cache=cache)
    session_id, message_id, cause, provider_id, model_id = row[:5]
    return Usage(session_id, message_id, cause, provider_id, model_id, tokens, *row[11:])


def spent_rows(usage: Usage) -> list[Row]:
    """Return what a booked call adds to the running sums: ``(scope, key, hour, tokens, cost, unpriced)``.

    `hour` counts hours since the epoch; it is 0 where no time matters.
    """
    tokens = usage.tokens
    spent = tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write
    hour = hour_of(usage.created)
    added = (spent, usage.cost or 0.0, int(usage.cost is None))
    causes = dict.fromkeys(name for name in (usage.origin, usage.source, usage.cause) if name)
    found: list[Row] = [("day", "", hour, *added)]
    found += [("cause", cause, hour, *added) for cause in causes]
    if root := usage.root_id or usage.session_id:
        found.append(("session", root, 0, *added))
    if usage.origin_id:
        found.append(("origin", f"{usage.origin}:{usage.origin_id}", 0, *added))
    return found


def hour_of(time: int) -> int:
    """Return the hour, since the epoch, that a time (ms) stands in."""
    return time // 3_600_000


def origin_text(origin: Origin) -> str | None:
    """Return an origin as JSON; None for a person's, which has no row."""
    return None if origin == Origin() else json_text(origin)


def origin_of(text: str | None) -> Origin:
    """Return the origin that `origin_text` made. What cannot be read is nobody's we know, so not a person's."""
    if text is None:
        return Origin()
    try:
        return wire.decode(text, Origin)
    except msgspec.DecodeError:
        return Origin("unknown")


def json_text(value: Any) -> str:
    """Return JSON-ready values as JSON text."""
    return wire.encode(value).decode()


def _tag(data: str) -> str:
    """The type or role that the text begins with; anything when it begins otherwise."""
    end = data.find('"', _TAG)
    return data[_TAG:end] if data.startswith(('{"type":"', '{"role":"')) else ""


def _ids_text(keys: Row, ids: Row) -> str:
    return "".join([f',"{key}":{text}' for key, text in zip(keys, map(encode_basestring, ids), strict=True)])


def _without_ids(raw: bytes, keys: Row, ids: Row) -> str:
    """`raw` without its ids, which stand right after the tag in everything that msgspec encodes."""
    text = raw.decode()
    middle = _ids_text(keys, ids)
    head = text.find('"', _TAG) + 1
    if text.startswith(middle, head):
        return text[:head] + text[head + len(middle) :]
    plain = wire.parse(raw)
    return json_text({key: value for key, value in plain.items() if key not in keys})


def _with_ids(data: str, keys: Row, ids: Row) -> str:
    head = data.find('"', _TAG) + 1
    return data[:head] + _ids_text(keys, ids) + data[head:]


def _object(data: str, keys: Row, ids: Row) -> Plain:
    """Return a row's data with its ids. Raises `msgspec.DecodeError`."""
    plain = msgspec.convert(wire.parse(data), Plain)
    return {**plain, **dict(zip(keys, ids, strict=True))}


def _unknown_error(plain: Plain) -> Plain:
    found = plain.get("error")
    given = found if isinstance(found, dict) else {}
    data = given.get("data")
    text = data.get("message") if isinstance(data, dict) else given.get("name")
    return {"name": "UnknownError", "data": {"message": str(text)}}


def _damaged_message(ids: Row, created: int, text: str) -> Message:
    return Assistant(
        id=ids[0],
        session_id=ids[1],
        time=AnswerTime(created=created, completed=created),
        parent_id=ids[0],
        model_id="",
        provider_id="",
        mode="",
        agent="",
        path=MessagePath(cwd="", root=""),
        cost=0.0,
        tokens=Tokens.zero(),
        error=UnknownError(data=UnknownData(message=text)),
    )


def _session_plain(row: Row) -> Plain:
    plain: Plain = {}
    for (column, path), value in zip(_PATHS.items(), row, strict=True):
        if value is None:
            continue
        place = plain
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = wire.parse(value) if column in _JSON else value
    return plain


def _lay_over(plain: Plain, left: Plain) -> None:
    for key, item in left.items():
        if isinstance(item, dict) and isinstance(plain.get(key), dict):
            _lay_over(plain[key], item)
        else:
            plain.setdefault(key, item)


def stored_event(row: Row) -> Stored:
    """Return the event of a row of `events_after` or `relayed_after`."""
    place, seq, event_id, session_id, kind, data, directory, project_id = row
    name, _, version = kind.rpartition(".")
    # Another program may have written it with line ends, which would end a message of an event stream.
    text = data.replace("\n", " ").replace("\r", " ")
    number = int(version) if version.isdecimal() else 1
    return Stored(place, seq, event_id, session_id, name, number, text, directory, project_id)


def interrupted(state: Any, now: int) -> ToolError:
    """Return the end of a call whose process ended at `now` (ms); its metadata says ``interrupted``, and ``began``."""
    began = {"began": True} if isinstance(state, ToolRunning) else {}
    metadata = {**(getattr(state, "metadata", None) or {}), "interrupted": True, **began}
    start = state.time.start if isinstance(state, ToolRunning) else now
    return ToolError(
        input=state.input, error=INTERRUPTED, metadata=metadata, time=ToolSpan(start=start, end=now)
    )
