"""What an agent rule's ``context`` names: files of the project, and the session's history as text."""

import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from instar.plugin import message
from instar.plugins.hooks.evaluate import EvaluationContext
from instar.plugins.hooks.event import HookEvent

HISTORY: Final = "history"
LARGEST: Final = 64 << 10
"""Bytes of one file that are given."""
MOST: Final = 256 << 10
"""Bytes of all files together."""
_PER_TOKEN: Final = 4
"""Characters that count as a token, an estimate for English and code."""
_LONGEST: Final = 2000
"""Characters of one tool's input or result."""


async def gather(
    names: tuple[str, ...], event: HookEvent, context: EvaluationContext
) -> list[tuple[str, str]]:
    """Return the text for each name, with a label. What cannot be read is replaced by the reason."""
    found: list[tuple[str, str]] = []
    left = MOST
    for name in dict.fromkeys(names):
        if name == HISTORY:
            found.append((HISTORY, await _history(event, context)))
            continue
        text = file(name, event.directory, context, min(LARGEST, left))
        left -= len(text.encode())
        found.append((f"file {' '.join(name.split())}", text))
    return found


def file(name: str, directory: Path, context: EvaluationContext, most: int) -> str:
    """Return a file of the project, its first `most` bytes; in brackets why there is none.

    Relative names start at `directory`. A file outside the project, also through a link, is not read.
    """
    try:
        path = (directory / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        return f"(it cannot be found: {error})"
    if not any(path.is_relative_to(root.resolve()) for root in (context.project, directory)):
        return "(it lies outside the project and is not read)"
    refusal = context.children.refusal(path, writing=False)
    if refusal is not None:
        return f"(it is not read: {refusal})"
    return _read(path, max(0, most))


async def _history(event: HookEvent, context: EvaluationContext) -> str:
    if context.client is None:
        return "(there is none)"
    history = await context.client.session.messages(event.speaker)
    return history_text(history, context.settings.history_tokens) or "(it is empty)"


def _read(path: Path, most: int) -> str:
    try:
        # Do not wait for a pipe, nor follow a link that was made after the check.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return "(there is no such file)"
    except OSError as error:
        return f"(it cannot be read: {error.strerror})"
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return "(it is no file)"
        text = os.read(handle, most).decode(errors="replace")
    finally:
        os.close(handle)
    return text if status.st_size <= most else f"{text}\n(… {status.st_size - most} bytes are left out …)"


def history_text(history: Sequence[message.WithParts], tokens: int) -> str:
    """Return the newest messages that fit into `tokens`, oldest first; of one that does not fit, its end."""
    room = tokens * _PER_TOKEN
    found: list[str] = []
    for one in reversed(history):
        text = "\n".join(_lines(one))
        if len(text) > room:
            found.append(
                f"(… {len(text) - room} characters and what was before are left out …)\n{text[len(text) - room :]}"
            )
            break
        found.append(text)
        room -= len(text)
    return "\n\n".join(reversed([text for text in found if text]))


def _lines(one: message.WithParts) -> Iterator[str]:
    for part in one.parts:
        if isinstance(part, message.TextPart) and not part.ignored and part.text.strip():
            yield f"{one.info.role}: {part.text.strip()}"
        elif isinstance(part, message.ToolPart):
            state = part.state
            yield f"tool {part.tool} {_cut(json.dumps(state.input, ensure_ascii=False))}"
            result = getattr(state, "output", None) or getattr(state, "error", None)
            if result:
                yield f"result: {_cut(str(result))}"


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]} (… {len(text) - _LONGEST} characters left out …) {text[-half:]}"
