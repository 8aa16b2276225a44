"""Why a line of a workspace's file is as it is: the change that wrote it, its cause, the message that led to it.

It answers ``instar evolve why FILE:LINE``.
"""

import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from instar.plugin import Messages, NotFound, message
from instar.plugins.evolve.history import timeline
from instar.plugins.evolve.history.audit_log import AuditLog
from instar.plugins.evolve.history.repository import FAILED, Revisions
from instar.plugins.evolve.history.timeline import Change
from instar.plugins.evolve.history.trailers import one_line, plain

Fetch = Callable[[str], Awaitable[Messages]]
"""Gives the messages of a session by its id, oldest first; raises `NotFound` where it is gone."""

_HEAD: Final = re.compile(r"([0-9a-f]{40,64}) (\d+) (\d+)")
_LONGEST: Final = 4000


class NoLine(Exception):
    """A place that names no line of a workspace's file; the text says what is wrong and what to do."""


class SourceLine(NamedTuple):
    """A line, from 1, of a file, by its path in the workspace."""

    file: str
    line: int


class BlamedPrompt(msgspec.Struct, frozen=True):
    """The message that led to a change: its id, when it was written (ms since 1970) and its text.

    `tool` is the call that made the change and `title` what it said of itself.
    """

    message: str
    time: int
    text: str
    tool: str
    title: str = ""


class Why(msgspec.Struct, frozen=True):
    """Why a line is as it is; `change` is None for one that is not committed.

    `code` is the line, `was` its number in `change`. Without `prompt`, `missing` says why there is none.
    """

    file: str
    line: int
    code: str
    was: int = 0
    change: Change | None = None
    prompt: BlamedPrompt | None = None
    missing: str = ""

    def text(self) -> str:
        """Return it for a terminal."""
        lines = [f"{one_line(self.file)}:{self.line}: {plain(self.code)}"]
        if self.change is not None:
            lines += [self.change.line(), *self.change.details()]
        if self.prompt is not None:
            lines += [f"prompt: {self.prompt.message}, {timeline.moment(self.prompt.time)}"]
            lines += [f"  {line}" for line in plain(self.prompt.text).split("\n")]
        return "\n".join([*lines, self.missing] if self.missing else lines)


class BlamedLine(msgspec.Struct, frozen=True):
    """A line of a file, and the change that wrote it: its commit, "" where that is not made yet, and its `epoch`."""

    code: str
    commit: str
    epoch: int | None = None


class BlamedFile(msgspec.Struct, frozen=True):
    """A file as it stands now, line by line; `cut` lines at its end are left out."""

    file: str
    lines: list[BlamedLine]
    cut: int


def parse_place(text: str, root: Path, cwd: Path | None = None) -> SourceLine:
    """Read ``FILE:LINE``: a path in the workspace `root`, or one that leads there from `cwd`. Raises `NoLine`."""
    name, _, number = text.rpartition(":")
    if not name or "\0" in name or not re.fullmatch(r"[0-9]{1,9}", number) or int(number) < 1:
        raise NoLine(
            f"{one_line(text, 200)!r} is no place: give FILE:LINE with a line from 1, as hooks/bot.py:12"
        )
    for start in (root, cwd or root):
        # Not resolved: a link in the workspace is a file of its own to git.
        path = os.path.normpath(start / name)
        for top in (root, root.resolve()):
            if Path(path).is_relative_to(top) and os.path.lexists(path):
                return SourceLine(Path(path).relative_to(top).as_posix(), int(number))
    raise NoLine(f"there is no {one_line(name, 200)} in the workspace {root}")


async def why(revisions: Revisions, audit_log: AuditLog, fetch: Fetch, place: SourceLine) -> Why:
    """Return why a line is as it is. Raises `NoLine`, also for what git says, and `repository.NoSuchChange`."""
    file, line = place
    try:
        commit, was, code = _read(await revisions.blame(file, line))
    except FAILED as error:
        raise NoLine(_explained(str(error), file, line)) from None
    if not commit.strip("0"):
        return Why(file, line, code, missing="this line is not committed: somebody changed the file since")
    shown = await revisions.find(commit)
    entries = timeline.merge([shown], [one for one in audit_log.read().entries if one.commit])
    change = next(one for one in entries if one.commit == shown.id)
    found = Why(file, line, code, was, change)
    if not change.session or not change.call:
        whose = "instar's" if change.by == "instar" else "a person's"
        return msgspec.structs.replace(found, missing=f"no session made this change: it is {whose} own")
    try:
        history = await fetch(change.session)
    except NotFound:
        gone = f"session {change.session} is gone, and the message that led to this with it"
        return msgspec.structs.replace(found, missing=gone)
    prompt = led_to(history, change.call)
    missing = "" if prompt else f"session {change.session} no longer holds call {change.call}"
    return msgspec.structs.replace(found, prompt=prompt, missing=missing)


async def blame(revisions: Revisions, place: str, root: Path, most: int = 5000) -> BlamedFile:
    """Return which change wrote each line of a file of the workspace `root`. Raises as `why`."""
    file = parse_place(f"{place}:1", root).file
    try:
        said = await revisions.blame(file)
        epochs = {one.id: one.trailers.epoch for one in await revisions.touching([file])}
    except FAILED as error:
        raise NoLine(_explained(str(error), file, 1)) from None
    lines, commit = list[BlamedLine](), ""
    for line in said.split("\n"):
        if (head := _HEAD.match(line)) is not None:
            commit = head[1] if head[1].strip("0") else ""
        elif line.startswith("\t"):
            lines.append(BlamedLine(line[1:], commit, epochs.get(commit)))
    return BlamedFile(file, lines[:most], max(0, len(lines) - most))


def led_to(history: Messages, call: str) -> BlamedPrompt | None:
    """Return the prompt before the tool call: the last that a person wrote, else the last of any kind.

    None where no message holds the call, or none stands before it.
    """
    for at, one in enumerate(history):
        calls = [part for part in one.parts if isinstance(part, message.ToolPart)]
        part = next((part for part in calls if _holds(part.call_id, call)), None)
        if part is not None:
            prompts = [each for each in history[:at] if isinstance(each.info, message.User)]
            own = [each for each in prompts if _written(each).strip()]
            return _prompt((own or prompts)[-1], part) if prompts else None
    return None


def _holds(outer: str, call: str) -> bool:
    """Whether a call is this one, or was made by it: a tool that was invoked has its caller's id and a number."""
    return call == outer or call.startswith(f"{outer}.")


def _prompt(found: message.WithParts, part: message.ToolPart) -> BlamedPrompt:
    text = _written(found) or message.text_of(found)
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    title = getattr(part.state, "title", None)
    return BlamedPrompt(found.info.id, found.info.time.created, short, part.tool, one_line(str(title or "")))


def _written(found: message.WithParts) -> str:
    """The text that was not added by the runtime."""
    texts = [part for part in found.parts if isinstance(part, message.TextPart)]
    return "\n".join(part.text for part in texts if not part.synthetic and not part.ignored)


def _read(porcelain: str) -> tuple[str, int, str]:
    """Read ``git blame --porcelain`` of one line: the commit, the line's number in it, and the line."""
    lines = porcelain.split("\n")
    head = _HEAD.match(lines[0])
    if head is None:
        raise NoLine("git blame answered nothing that can be read")
    code = next((line[1:] for line in lines if line.startswith("\t")), "")
    return head[1], int(head[2]), code


def _explained(said: str, file: str, line: int) -> str:
    if "no such path" in said:
        return f"{file} is not committed, so nothing is known of its lines"
    found = re.search(r"has only (\d+) line", said)
    if found is not None:
        return f"{file} has no line {line}, only {found[1]}"
    return said
