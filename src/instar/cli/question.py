"""Questions to the person at the terminal. A question can be cancelled: a turn may end while it stands."""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from instar.approval import Reply, Verdict
from instar.cli.line import short
from instar.cli.text import harmless
from instar.event import PermissionAsked, Question, QuestionAsked
from instar.question import Answers

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


def verdict(typed: str) -> Verdict | None:
    """Return what a line answers to a tool call; None when it is no answer.

    Words that follow a rejection are for the model; a yes with words is none, since they would be lost.
    """
    first, *rest = typed.split(maxsplit=1) or [""]
    reply = _REPLIES.get(first.rstrip(",.:;").lower())
    if reply is None or (rest and reply != "reject"):
        return None
    return Verdict(reply, rest[0] if rest else None)


def chosen(question: Question, typed: str) -> list[str]:
    """Return the labels that a line chooses, by number or name, or the line itself as an answer of its own.

    Where several may be chosen they are separated by commas. Raises `ValueError`, saying what to type instead.
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
    """What a call would do, whole: a person must not agree to what a short line leaves out."""
    text = metadata.get("command") or metadata.get("diff")
    lines = harmless(text).splitlines() if isinstance(text, str) else []
    return "".join(f"  | {line}\n" for line in lines)


class AtTerminal:
    """The person at the terminal, who is asked one thing at a time.

    `permit` is a `instar.approval.Person`, `answer` a `instar.question.Questioner`.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def permit(self, asked: PermissionAsked) -> Verdict:
        """Ask whether a tool call may run; the end of input rejects."""
        async with self._turn:
            wanted = ", ".join(short(pattern) for pattern in asked.patterns)
            always = ", ".join(short(pattern) for pattern in asked.always) or "nothing to remember"
            click.echo(f"\n? {short(asked.permission)} wants: {wanted}", err=True)
            click.echo(_whole(asked.metadata), nl=False, err=True)
            while True:
                prompt = f"  allow [o]nce, [a]lways ({always}), [r]eject, or r and what to do instead? "
                click.echo(prompt, nl=False, err=True)
                typed = await line()
                if typed is None:
                    return Verdict("reject")
                if (found := verdict(typed)) is not None:
                    return found

    async def answer(self, asked: QuestionAsked) -> Answers | None:
        """Put the model's questions one after the other; None when one of them got no answer."""
        async with self._turn:
            answers = []
            for number, question in enumerate(asked.questions, 1):
                count = f" ({number} of {len(asked.questions)})" if len(asked.questions) > 1 else ""
                _show(question, count)
                found = await _answer(question)
                if found is None:
                    return None
                answers.append(found)
            return answers


def _show(question: Question, count: str) -> None:
    click.echo(f"\n? the model asks{count}: {short(question.header)}", err=True)
    for text in harmless(question.question).splitlines():
        click.echo(f"  | {text}", err=True)
    for number, option in enumerate(question.options, 1):
        meaning = f" - {short(option.description)}" if option.description else ""
        click.echo(f"  {number}. {short(option.label)}{meaning}", err=True)


async def _answer(question: Question) -> list[str] | None:
    while True:
        click.echo(f"  {_ways(question)}; nothing: no answer, which ends the turn? ", nl=False, err=True)
        typed = await line()
        if not typed:
            return None
        try:
            return chosen(question, typed)
        except ValueError as error:
            click.echo(f"  {error}", err=True)


def _ways(question: Question) -> str:
    numbers = "numbers with commas" if question.multiple else "a number"
    if not question.options:
        return "your answer"
    return numbers if question.custom is False else f"{numbers}, or your own words"
