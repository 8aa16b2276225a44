"""A session that comes from elsewhere, checked: what it may bring, and what is taken from it.

The law of what comes in:

- every id has its form and stands once; a message or part that names another session or message is a fault;
- a tool call without an end is closed as interrupted, an answer without an end as aborted: nothing of a dead
  process is sent to a model as if it still ran;
- it grants nothing: ``permission`` keeps ``deny`` and ``ask``, and loses ``allow``;
- what means another machine goes: ``revert`` (its snapshot is there), ``workspaceID``, ``share``;
- no time lies in the future, in which the session would stand first for ever.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from instar.event import Todo
from instar.git.project import Project
from instar.message import (
    Assistant,
    ErrorText,
    Message,
    MessageAbortedError,
    Part,
    Session,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolSpan,
    WithParts,
    decode_message,
    decode_part,
)
from instar.wire import Plain, decode
from instar.wire.pattern import late_pattern

_ID: Final = late_pattern(r"(ses|msg|prt)_[0-9A-Za-z_-]{1,120}")
_LARGEST: Final = 2**53
"""The largest number of a session's columns: beyond it JavaScript counts no more."""
_ENDED: Final = "Tool execution was interrupted: the session was exported while it ran."
_CUT: Final = "The answer was interrupted: the session was exported while it was written."


class ExchangeError(ValueError):
    """A session cannot be imported or exported; the text says what, where and what to do."""


class Taken(ExchangeError):
    """A session with this id exists, and neither --replace nor --copy was given."""


class Here(msgspec.Struct, frozen=True):
    """The target of an import: its project, and the present time (ms), which limits all times.

    Without a `project` it stays where it was: the database of the same machine knows the folder.
    """

    now: int
    project: Project | None = None


class Record(msgspec.Struct):
    """A session as read: plain values, unchecked. `messages` yields each info with its parts."""

    info: Any
    messages: Iterable[tuple[Any, Sequence[Any]]]
    todos: Sequence[Any] = ()


class Transcript(msgspec.Struct):
    """A checked session, with its messages in order; `notes` say what was changed or left out."""

    session: Session
    messages: list[WithParts]
    todos: list[Todo]
    notes: list[str]


Fault = Callable[[str, str], None]
"""What becomes of a malformed message or part, by its place and what is wrong: raise, or note it and skip."""


def transcript_of(record: Record, here: Here, *, lenient: bool = False) -> Transcript:
    """Check a record. Raises `ExchangeError` naming the place of the first fault.

    `lenient`: a message or part with a fault is left out and noted; the session's own row must be whole.
    """
    notes: list[str] = []

    def fault(where: str, why: str) -> None:
        if not lenient:
            raise ExchangeError(f"{where}: {why}")
        notes.append(f"skipped {where}: {why}")

    session = _session(record.info)
    history = list(_messages(record.messages, session.id, fault))
    history.sort(key=lambda message: (message.info.time.created, message.info.id))
    todos = list(_todos(record.todos, fault))
    interrupted = sum(_close(message) for message in history)
    if interrupted:
        notes.append(f"{interrupted} unfinished tool calls were closed as interrupted")
    notes += _disarm(session)
    if _not_after(here.now, session, history):
        notes.append("times in the future were set to now")
    _settle(session, here)
    return Transcript(session, history, todos, notes)


def _session(info: Any) -> Session:
    try:
        session = decode(info, Session) if isinstance(info, dict) else _reject("expected an object")
    except msgspec.ValidationError as error:
        raise ExchangeError(f"info: {_words(error)}") from None
    if not _is_id(session.id, "ses"):
        raise ExchangeError(f"info.id: {session.id[:40]!r} is not the id of a session")
    if min(session.time.created, session.time.updated, session.time.archived or 0) < 0:
        raise ExchangeError("info.time: a time is negative; times are milliseconds since 1970")
    # Times in the future are set to now; when it was put away is not.
    stored = {
        "time": {"archived": session.time.archived},
        "tokens": info.get("tokens"),
        "summary": info.get("summary"),
    }
    for name, value in stored.items():
        if any(abs(number) > _LARGEST for number in _numbers(value)):
            raise ExchangeError(f"info.{name}: a number is too large to be stored")
    return session


def _numbers(value: Any) -> Iterator[float]:
    """The numbers of an object and of those in it."""
    for one in value.values() if isinstance(value, dict) else ():
        if isinstance(one, int | float):
            yield one
        else:
            yield from _numbers(one)


def _messages(
    given: Iterable[tuple[Any, Sequence[Any]]], session_id: str, fault: Fault
) -> Iterator[WithParts]:
    seen: set[str] = set()
    for index, (info, parts) in enumerate(given):
        where = f"messages[{index}]"
        try:
            message = _checked(decode_message(_object(info)), session_id, seen, "msg")
            if message.time.created < 0:
                _reject("time.created is negative; times are milliseconds since 1970")
        except msgspec.ValidationError as error:
            fault(f"{where}.info{_named(info)}", _words(error))
            continue
        found = sorted(_parts(parts, message, seen, where, fault), key=lambda part: part.id)
        yield WithParts(info=message, parts=found)


def _parts(
    given: Sequence[Any], message: Message, seen: set[str], where: str, fault: Fault
) -> Iterator[Part]:
    for index, plain in enumerate(given):
        try:
            part = _checked(decode_part(_object(plain)), message.session_id, seen, "prt")
            if part.message_id != message.id:
                _reject(f"messageID is {part.message_id[:40]!r}, and it stands in message {message.id}")
        except msgspec.ValidationError as error:
            fault(f"{where}.parts[{index}]{_named(plain)}", _words(error))
            continue
        yield part


def _checked(value: Any, session_id: str, seen: set[str], prefix: str) -> Any:
    """The message or part. Raises `msgspec.ValidationError` for an id that it cannot have."""
    if not _is_id(value.id, prefix):
        _reject(f"{value.id[:40]!r} is not an id that begins with {prefix}_")
    if value.id in seen:
        _reject(f"the id {value.id} stands twice")
    if value.session_id != session_id:
        _reject(f"sessionID is {value.session_id[:40]!r}, and the session is {session_id}")
    seen.add(value.id)
    return value


def _todos(given: Sequence[Any], fault: Fault) -> Iterator[Todo]:
    for index, plain in enumerate(given):
        try:
            yield decode(_object(plain), Todo)
        except msgspec.ValidationError as error:
            fault(f"todos[{index}]", _words(error))


def _close(message: WithParts) -> int:
    """Mark open tool calls and answers as ended; return the number of tool calls."""
    open_calls = [
        part
        for part in message.parts
        if isinstance(part, ToolPart) and isinstance(part.state, ToolPending | ToolRunning)
    ]
    for part in open_calls:
        part.state = _ended(part.state, message.info.time.created)
    info = message.info
    if isinstance(info, Assistant) and info.time.completed is None:
        info.time.completed = info.time.created
        info.error = info.error or MessageAbortedError(data=ErrorText(message=_CUT))
    return len(open_calls)


def _ended(state: Any, created: int) -> ToolError:
    start = state.time.start if isinstance(state, ToolRunning) else created
    metadata = {**(getattr(state, "metadata", None) or {}), "interrupted": True}
    return ToolError(
        input=state.input, error=_ENDED, metadata=metadata, time=ToolSpan(start=start, end=start)
    )


def _disarm(session: Session) -> list[str]:
    """Remove what an import must not bring."""
    notes = []
    kept = [rule for rule in session.permission or [] if rule.action != "allow"]
    if session.permission is not None and len(kept) != len(session.permission):
        notes.append("permission rules that allow something were left out")
        session.permission = kept or None
    if session.revert is not None:
        notes.append("it had been taken back to an earlier message there; here all of it is visible")
    session.revert = session.workspace_id = session.share = None
    session.time.compacting = None
    return notes


def _not_after(now: int, session: Session, history: Sequence[WithParts]) -> bool:
    """Set times after `now` to `now`, keeping the order of messages; return whether there were any."""
    limit = now
    for message in reversed(history):
        if message.info.time.created <= limit:
            break
        message.info.time.created = limit
        limit -= 1
    stamps = session.time
    moved = limit != now or stamps.created > now or stamps.updated > now
    stamps.created, stamps.updated = min(stamps.created, now), min(stamps.updated, now)
    return moved


def _settle(session: Session, here: Here) -> None:
    """Assign the session to the target project, as opencode's import does."""
    if here.project is None:
        return
    session.project_id, session.directory = here.project.id, str(here.project.directory)
    if session.path is not None:
        session.path = here.project.below(here.project.directory) or ""


def _is_id(text: str, prefix: str) -> bool:
    found = _ID.fullmatch(text)
    return found is not None and found[1] == prefix


def _named(plain: Any) -> str:
    """Return the id of a malformed object, if it has one, for the error's text."""
    found = plain.get("id") if isinstance(plain, dict) else None
    return f" ({found[:40]})" if isinstance(found, str) else ""


def _object(plain: Any) -> Plain:
    return plain if isinstance(plain, dict) else _reject("expected an object")


def _reject(text: str) -> Any:
    raise msgspec.ValidationError(text)


def _words(error: Exception) -> str:
    return str(error).replace("`$.", "`")
