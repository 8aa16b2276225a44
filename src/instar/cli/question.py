"""Questions to the person at the terminal. A question can be cancelled: a turn may end while it stands."""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from instar.approval import Reply
from instar.cli.line import short
from instar.cli.text import harmless
from instar.event import PermissionAsked

_REPLIES: Final[dict[str, Reply]] = {
    **dict.fromkeys(("o", "once", "y", "yes", "1"), "once"),
    **dict.fromkeys(("a", "always", "2"), "always"),
    **dict.fromkeys(("r", "reject", "n", "no", "3"), "reject"),
}


def is_there() -> bool:
    """Whether a person is at a terminal, to read from and to write to."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def line() -> str | None:
    """Return the next line that the person types, or None at the end of input."""
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(descriptor, 4096))

    loop.add_reader(descriptor, read)
    try:
        data = await typed
    except asyncio.CancelledError:
        # The question is over without an answer: what follows begins on a line of its own.
        click.echo(err=True)
        raise
    finally:
        loop.remove_reader(descriptor)
    return data.decode(errors="replace").strip() if data else None


async def yes(question: str) -> bool:
    """Ask a question whose answer is no unless the person says yes."""
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    return (await line() or "").lower() in ("y", "yes")


def _whole(metadata: Mapping[str, Any]) -> str:
    """What a call would do, whole: a person must not agree to what a short line leaves out."""
    text = metadata.get("command") or metadata.get("diff")
    lines = harmless(text).splitlines() if isinstance(text, str) else []
    return "".join(f"  | {line}\n" for line in lines)


class PermissionQuestions:
    """Asks whether a tool call may run, one question at a time (`instar.approval.Person`)."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def __call__(self, question: PermissionAsked) -> Reply:
        """Return the person's answer; the end of input rejects."""
        async with self._turn:
            wanted = ", ".join(short(pattern) for pattern in question.patterns)
            always = ", ".join(short(pattern) for pattern in question.always) or "nothing to remember"
            click.echo(f"\n? {short(question.permission)} wants: {wanted}", err=True)
            click.echo(_whole(question.metadata), nl=False, err=True)
            while True:
                click.echo(f"  allow [o]nce, [a]lways ({always}), or [r]eject? ", nl=False, err=True)
                typed = await line()
                if typed is None:
                    return "reject"
                if typed.lower() in _REPLIES:
                    return _REPLIES[typed.lower()]
