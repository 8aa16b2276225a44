"""Sessions as files: opencode's export JSON in both directions.

A file is ``{"info": …, "messages": [{"info": …, "parts": […]}]}`` as ``opencode export`` prints it; ours may add
``todos`` and, with ``--children``, ``children``: a list of the same. Other keys are ignored. Whatever comes in is
untrusted: it is checked whole (`transcript`) before anything is written, and one commit writes it. `redacted` makes an
export that may be shown to others: its shape, times and counts without anybody's words.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Literal

import msgspec

from instar import event, wire
from instar.event import Todo, make
from instar.message import PART_TYPES, Session, WithParts, renew
from instar.session.sessions import slug
from instar.session.transcript import ExchangeError, Record, Taken, Transcript
from instar.store import (
    DropSession,
    Insert,
    PutMessage,
    PutPart,
    PutProject,
    PutSession,
    PutTodos,
    StoreError,
    Write,
    lease,
)
from instar.store.store import Store
from instar.wire import Plain, ids

LIMIT: Final = 256 * 1024 * 1024
"""The largest file that is read, in bytes: reading takes several times as much memory."""
Choice = Literal["refuse", "replace", "copy"]
"""What to do when a session with the same id is here already."""
_KEPT: Final = frozenset(
    {
        *("id", "sessionID", "messageID", "parentID", "projectID", "providerID", "modelID", "callID"),
        *("slug", "version", "variant", "type", "role", "status", "tool", "agent", "mode", "finish"),
        *("reason", "mime", "name", "permission", "action", "priority", "tail_start_id"),
    }
)
"""Keys whose text stays: opencode's own words, and the names of tools, agents and models. All other text goes."""
_FREE: Final = frozenset({"input", "metadata", "responseHeaders"})
"""Keys under which anything may stand: nothing below them stays."""
_DROPPED: Final = frozenset({"source", "structured", "format"})
"""Optional keys whose form opencode checks: left out whole."""


class _Message(msgspec.Struct):
    info: msgspec.Raw
    parts: list[msgspec.Raw]


class _One(msgspec.Struct):
    info: msgspec.Raw
    messages: list[_Message]
    todos: list[Any] = []


class _File(_One):
    children: list[_One] = []


def read_archive(data: bytes, name: str) -> list[Record]:
    """Return the sessions of a file, the parent first; `name` is the file's, for the errors.

    Raises `ExchangeError` with line and column for what is not JSON, and with the place for another shape.
    Messages are decoded one by one, when they are asked for.
    """
    if len(data) > LIMIT:
        raise too_large(name)
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        file = _decoded(data)
    except msgspec.ValidationError as error:
        words = str(error).replace("`$.", "`")
        raise ExchangeError(
            f"{name}: not an exported session: {words}; it must be what `opencode export` or `instar export` prints"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _malformed(data, name) from None
    return [_record(one, data, name) for one in (file, *file.children)]


def _decoded(data: bytes) -> _File:
    try:
        return msgspec.json.decode(data, type=_File)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Half of a surrogate pair, which JavaScript writes: the whole is read with care, at twice the memory.
        return msgspec.json.decode(wire.encode(wire.parse(data)), type=_File)


def too_large(name: str) -> ExchangeError:
    """Return the error for a file beyond the limit."""
    return ExchangeError(
        f"{name}: larger than {LIMIT >> 20} MB; import it from the database instead (--opencode-db)"
    )


def _record(one: _One, data: bytes, name: str) -> Record:
    def value(raw: msgspec.Raw) -> Any:
        try:
            return wire.parse(bytes(raw))
        except msgspec.DecodeError:
            raise _malformed(data, name) from None

    def messages() -> Iterator[tuple[Any, list[Any]]]:
        for message in one.messages:
            yield value(message.info), [value(part) for part in message.parts]

    return Record(info=value(one.info), messages=messages(), todos=one.todos)


def _malformed(data: bytes, name: str) -> ExchangeError:
    """The error with its line and column; the standard library's parser knows both."""
    try:
        json.loads(data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return ExchangeError(f"{name}:{line}: not UTF-8 text; save the file in that encoding")
    except json.JSONDecodeError as error:
        return ExchangeError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}")
    except (RecursionError, ValueError) as error:
        return ExchangeError(f"{name}: not JSON that can be read: {error}")
    return ExchangeError(f"{name}: not JSON that can be read: nested too deeply")


async def bring_in(
    store: Store, transcripts: Sequence[Transcript], project: PutProject, choice: Choice = "refuse"
) -> list[Transcript]:
    """Write sessions that belong together in one commit, and return them as they were written.

    Publishes ``session.created`` for each. Raises `Taken` for a session that is here already, and `ExchangeError`
    when a message's or part's id is another session's, or another process runs a session that is to be replaced;
    nothing is written then.
    """
    found = renewed(transcripts) if choice == "copy" else list(transcripts)
    taken = [one for one in found if await store.session(one.session.id) is not None]
    if taken and choice == "refuse":
        raise Taken(
            f"session {taken[0].session.id} is here already; --replace puts this one in its place, --copy adds it"
            " beside under new ids"
        )
    await _keep_known_parents(store, found)
    writes: list[Write] = [DropSession(one.session.id) for one in taken]
    writes.append(project)
    for one in found:
        writes += _rows(one)
    happened = [make(event.SessionCreated(session_id=one.session.id, info=one.session)) for one in found]
    async with _held(store, [one.session.id for one in taken]):
        try:
            await store.commit(writes, happened)
        except StoreError as error:
            if "UNIQUE" not in str(error):
                raise
            raise ExchangeError(
                "a message or part of this file has the id of one that another session here has; nothing was"
                " written. --copy brings it in under new ids"
            ) from None
    return found


def _rows(one: Transcript) -> list[Write]:
    rows: list[Write] = [Insert(PutSession(one.session))]
    for message in one.messages:
        rows.append(Insert(PutMessage(message.info)))
        rows += [Insert(PutPart(part)) for part in message.parts]
    if one.todos:
        rows.append(PutTodos(one.session.id, one.todos))
    return rows


async def _keep_known_parents(store: Store, found: Sequence[Transcript]) -> None:
    coming = {one.session.id for one in found}
    for one in found:
        parent = one.session.parent_id
        if parent is None or parent in coming:
            continue
        if await store.session(parent) is None:
            one.session.parent_id = None
            one.notes.append(f"its parent {parent[:40]} is not here, so it stands by itself")


@asynccontextmanager
async def _held(store: Store, session_ids: Sequence[str]) -> AsyncIterator[None]:
    """Hold sessions while they are replaced. Raises `ExchangeError` when somebody runs one of them."""
    async with AsyncExitStack() as stack:
        for session_id in session_ids:
            held = await lease.take(store, session_id)
            if held is None:
                raise ExchangeError(str(await lease.busy(store, session_id)))
            stack.push_async_callback(store.release, held)
        yield


def renewed(transcripts: Sequence[Transcript]) -> list[Transcript]:
    """Give sessions, messages and parts new ids, and update references to them.

    Children stay their parents', answers their questions', a compaction keeps its tail, and a `task` call its
    sub-agent's session. Changes what it is given. Order is kept: the new ids sort as the messages stand.
    """
    known = {one.session.id: ids.new("ses") for one in transcripts}
    for one in transcripts:
        known.update((message.info.id, ids.new("msg")) for message in one.messages)
    for one in transcripts:
        session = one.session
        session.id, session.slug = known[session.id], slug()
        session.parent_id = known.get(session.parent_id or "", session.parent_id)
        for message in one.messages:
            renew(message, known)
    return list(transcripts)


async def export(store: Store, session: Session, *, children: bool = False) -> Plain:
    """Return ``{"info", "messages"}`` as ``opencode export`` prints it, JSON-ready.

    ``todos`` stands in it when there are any, and ``children`` (all descendants) when they are asked for;
    opencode reads a file with these keys and ignores them.
    """
    found = await plain_of(store, session)
    if children:
        found["children"] = [await plain_of(store, child) for child in await _descendants(store, session)]
    return found


async def plain_of(store: Store, session: Session) -> Plain:
    """Return one session with its messages, and its todos if it has any."""
    return archive(session, await store.messages(session.id), await store.todos(session.id))


def archive(session: Session, messages: Sequence[WithParts], todos: Sequence[Todo]) -> Plain:
    """Return a session with its messages in the form of a file, and its todos if it has any."""
    found: dict[str, Any] = {
        "info": wire.to_plain(session),
        "messages": [message.to_plain() for message in messages],
    }
    return {**found, "todos": [wire.to_plain(todo) for todo in todos]} if todos else found


async def _descendants(store: Store, session: Session) -> list[Session]:
    """Children, their children and so on, parents first."""
    found: list[Session] = []
    seen = {session.id}
    waiting = [session.id]
    for parent in waiting:
        for child in await store.sessions(parent_id=parent, archived=True):
            if child.id not in seen:
                seen.add(child.id)
                waiting.append(child.id)
                found.append(child)
    return found


def redacted(plain: Plain) -> Plain:
    """Return an exported session without its texts, like ``opencode export --sanitize``.

    Fails closed: a key that is not known loses its text. Unlike opencode's, the errors of tools go too, since
    they quote files and commands.
    """
    cleaned: Plain = _cleaned(plain, "", "")
    return cleaned


def _cleaned(value: Any, key: str, owner: str) -> Any:
    if isinstance(value, str):
        return value if key in _KEPT or value in ("", "*") else f"[redacted:{key}:{owner}]"
    if isinstance(value, list):
        return [_cleaned(item, key, owner) for item in value]
    if not isinstance(value, dict):
        return value
    if key in _FREE:
        return {"redacted": f"{key}:{owner}"}
    owner = str(value.get("id") or owner)
    if isinstance(value.get("type"), str) and value["type"] not in PART_TYPES and "messageID" in value:
        return _head(value)
    return {name: _cleaned(item, name, owner) for name, item in value.items() if name not in _DROPPED}


def _head(part: Plain) -> Plain:
    """Return a sanitized part of an unknown kind: all its texts are removed, since any may be content."""
    return {key: part[key] for key in ("id", "sessionID", "messageID", "type") if key in part}
