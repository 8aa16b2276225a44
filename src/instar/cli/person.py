"""The person who called `instar run`: what they ask for, their answers to questions, their Ctrl-C."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from instar.approval.permissions import KEEP, PermissionAnswer, Reply
from instar.approval.questions import Answers
from instar.cli import streams
from instar.cli.output import TurnView
from instar.cli.text import echo, harmless, short
from instar.event import PermissionAsked, Question, QuestionAsked
from instar.wire import Plain

INTERRUPTED: Final = 130
"""The exit code of a run that a person ended."""
KEPT: Final = "this call made what runs later, outside of what holds the model:"
_CHILDREN_END: Final = 0.6
"""Seconds that a second signal leaves for ending children."""
_REPLIES: Final[dict[str, Reply]] = {
    **dict.fromkeys(("o", "once", "y", "yes", "1"), "once"),
    **dict.fromkeys(("a", "always", "2"), "always"),
    **dict.fromkeys(("r", "reject", "n", "no", "3"), "reject"),
}


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line of `instar run` asks for. `words` are those of its message, without what was piped in."""

    directory: Path
    parts: list[Plain]
    words: str
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
    variant: str | None
    fork: bool
    view: TurnView


def is_there() -> bool:
    """Whether a person is at a terminal, to read from and to write to."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def line() -> str | None:
    """Return the next line that the person types, or None at the end of input.

    A click prompt cannot be cancelled; this one can: a turn may end while a question stands.
    """
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(descriptor, 4096))

    loop.add_reader(descriptor, read)
    try:
        data = await typed
    except asyncio.CancelledError:
        # The question ended without an answer: what follows begins on a new line.
        echo(err=True)
        raise
    finally:
        loop.remove_reader(descriptor)
    return data.decode(errors="replace").strip() if data else None


async def yes(question: str) -> bool:
    """Ask a yes-or-no question; the default is no."""
    echo(f"{question} [y/N] ", nl=False, err=True)
    return (await line() or "").lower() in ("y", "yes")


async def decided(question: str, show: Callable[[], str]) -> bool:
    """Ask until the answer is yes or no; ``show`` prints what it is about. The end of input is a no."""
    while True:
        echo(f"{question} [y/n/show] ", nl=False, err=True)
        answer = await line()
        match "n" if answer is None else answer.lower():
            case "y" | "yes":
                return True
            case "n" | "no":
                return False
            case "s" | "show":
                echo(show(), err=True)


def verdict(typed: str) -> PermissionAnswer | None:
    """Return the reply that a line gives to a permission ask; None for any other text.

    Words after a rejection are for the model. A yes with words is no answer: the words would be lost.
    """
    first, *rest = typed.split(maxsplit=1) or [""]
    reply = _REPLIES.get(first.rstrip(",.:;").lower())
    if reply is None or (rest and reply != "reject"):
        return None
    return PermissionAnswer(reply, rest[0] if rest else None)


def chosen(question: Question, typed: str) -> list[str]:
    """Return the labels that a line chooses, by number or name, or the line itself as the person's own answer.

    Several choices are separated by commas. Raises `ValueError` that says what to type instead.
    """
    pieces = [piece.strip() for piece in typed.split(",") if piece.strip()]
    several = len(pieces) > 1 and any(_label(question, piece) for piece in pieces)
    if several and not question.multiple:
        if all(_label(question, piece) for piece in pieces):
            raise ValueError("one answer only")
        several = False
    answers = pieces if several else [typed.strip()]
    return list(dict.fromkeys(_label(question, answer) or _own(question, answer) for answer in answers))


def _label(question: Question, typed: str) -> str | None:
    labels = [option.label for option in question.options]
    if typed.isdecimal() and 0 < int(typed) <= len(labels):
        return labels[int(typed) - 1]
    return next((label for label in labels if label.lower() == typed.lower()), None)


def _own(question: Question, typed: str) -> str:
    if question.custom is False:
        raise ValueError("choose one of those above")
    if question.options and typed.isdecimal():
        raise ValueError(f"there is no answer {typed}; a number of your own stands in quotes")
    return typed[1:-1] if len(typed) > 2 and typed[0] == typed[-1] == '"' else typed


def _whole(metadata: Mapping[str, Any]) -> str:
    """All that a call would do: a person must not agree to what a short line leaves out."""
    text = metadata.get("command") or metadata.get("diff")
    lines = harmless(text).splitlines() if isinstance(text, str) else []
    return "".join(f"  | {line}\n" for line in lines)


class AtTerminal:
    """The person at the terminal, who is asked one thing at a time.

    `permit` is an `instar.approval.permissions.Person`, `answer` an `instar.approval.questions.Questioner`.
    """

    def __init__(self, view: TurnView) -> None:
        self._view = view
        self._turn = asyncio.Lock()

    async def permit(self, asked: PermissionAsked) -> PermissionAnswer:
        """Ask whether a tool call may run, or whether what it made is kept; the end of input rejects."""
        async with self._turn:
            self._view.pause()
            if asked.permission == KEEP:
                return PermissionAnswer("once" if await _kept(asked) else "reject", "put it aside")
            wanted = ", ".join(short(pattern) for pattern in asked.patterns)
            always = ", ".join(short(pattern) for pattern in asked.always) or "nothing to remember"
            echo(f"\n? {short(asked.permission)} wants: {wanted}", err=True)
            echo(_whole(asked.metadata), nl=False, err=True)
            while True:
                prompt = f"  allow [o]nce, [a]lways ({always}), [r]eject, or r and what to do instead? "
                echo(prompt, nl=False, err=True)
                typed = await line()
                if typed is None:
                    return PermissionAnswer("reject")
                if (found := verdict(typed)) is not None:
                    return found

    async def answer(self, asked: QuestionAsked) -> Answers | None:
        """Ask the model's questions one after the other; None when one of them got no answer."""
        async with self._turn:
            self._view.pause()
            answers = []
            for number, question in enumerate(asked.questions, 1):
                count = f" ({number} of {len(asked.questions)})" if len(asked.questions) > 1 else ""
                _show(question, count)
                found = await _answer(question)
                if found is None:
                    return None
                answers.append(found)
            return answers


async def _kept(asked: PermissionAsked) -> bool:
    """Ask whether what a call made, and what would run later, is kept."""
    echo(f"\n? {KEPT}", err=True)
    echo(_whole(asked.metadata), nl=False, err=True)
    while True:
        echo("  keep it [y/n]? ", nl=False, err=True)
        typed = await line()
        if typed is None or typed.lower() in ("n", "no"):
            return False
        if typed.lower() in ("y", "yes"):
            return True


def _show(question: Question, count: str) -> None:
    echo(f"\n? the model asks{count}: {short(question.header)}", err=True)
    for text in harmless(question.question).splitlines():
        echo(f"  | {text}", err=True)
    for number, option in enumerate(question.options, 1):
        meaning = f" - {short(option.description)}" if option.description else ""
        echo(f"  {number}. {short(option.label)}{meaning}", err=True)


async def _answer(question: Question) -> list[str] | None:
    while True:
        echo(f"  {_ways(question)}; nothing: no answer, which ends the turn? ", nl=False, err=True)
        typed = await line()
        if not typed:
            return None
        try:
            return chosen(question, typed)
        except ValueError as error:
            echo(f"  {error}", err=True)


def _ways(question: Question) -> str:
    numbers = "numbers with commas" if question.multiple else "a number"
    if not question.options:
        return "your answer"
    return numbers if question.custom is False else f"{numbers}, or your own words"


class Interrupts:
    """Ctrl-C, SIGTERM and a terminal that closes: the first ends the turn, the second quits at once.

    Enter it in the main task of the loop. `abort` ends the turn and returns whether there was one; until it is set, or
    when there was none, the main task is cancelled instead. `end_children` runs before a second signal quits.
    """

    def __init__(self) -> None:
        self.count = 0
        self.code = 0
        """The exit code that the first signal asks for."""
        self.abort: Callable[[], Awaitable[bool]] | None = None
        self.end_children: Callable[[], Awaitable[Any]] | None = None
        self._tasks: set[asyncio.Future[Any]] = set()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        self._signals = [signal.SIGINT, signal.SIGTERM]
        # What `nohup` started goes on when its terminal closes.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            self._signals.append(signal.SIGHUP)
        for number in self._signals:
            self._loop.add_signal_handler(number, self._interrupt, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._signals:
            self._loop.remove_signal_handler(number)

    def _interrupt(self, number: int) -> None:
        self.count += 1
        self.code = self.code or 128 + number
        streams.hurry()
        if self.count == 1:
            self._start(self._end())
            return
        # Quitting at once must not leave the turn's children behind.
        if self.end_children is not None:
            self._start(self.end_children())
        self._loop.call_later(_CHILDREN_END if self.end_children else 0, os._exit, INTERRUPTED)

    async def _end(self) -> None:
        if (self.abort is None or not await self.abort()) and self._main is not None:
            self._main.cancel()

    def _start(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
