"""What `instar run` is asked for, how its turn is shown, and its exit code: here and in a server."""

import sys
from pathlib import Path

import msgspec

from instar.cli.follow import Follower, View
from instar.cli.plain import JsonLines, Plain
from instar.cli.signals import CODE, Stop
from instar.message import Assistant, MessageAbortedError, WithParts
from instar.wire import Plain as Object


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line of `instar run` asks for."""

    directory: Path
    parts: list[Object]
    model: str | None
    agent: str | None
    session: str | None
    continued: bool
    title: str | None
    format: str
    auto: bool
    workspace: str | None
    safe: bool
    profile: str | None
    worktree: str | None
    workspace_id: str | None = None
    command: str | None
    said: str


def shown(wanted: Wanted, session_id: str) -> View:
    """Return what shows the turn: lines of JSON, plain text, or a terminal's."""
    if wanted.format == "json":
        return JsonLines(session_id)
    if not sys.stdout.isatty():
        return Plain()
    # Start-up time: rich costs 50 ms and only a terminal needs it.
    from instar.cli.terminal import Terminal

    return Terminal()


def code(answer: WithParts, follower: Follower, stop: Stop) -> int:
    """0 for an answer, 1 for an error or a limit, 130 when a person ended it."""
    info = answer.info
    error = info.error if isinstance(info, Assistant) else None
    if stop.pressed and (error is None or isinstance(error, MessageAbortedError)):
        return CODE
    failed = error is not None or not isinstance(info, Assistant) or follower.limited
    return 1 if failed else 0
