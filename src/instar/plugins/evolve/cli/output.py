"""What the commands share: what they print, how they fail, how they are run and stopped."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from json import dumps
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec

from instar.plugins.evolve.history.trailers import plain
from instar.plugins.evolve.person import FAILURES

T = TypeVar("T")

_ENDED: Final = 128 + signal.SIGTERM

as_json: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON."
)
"""The option of each command."""


def fail(text: str) -> NoReturn:
    """End with exit code 1 and a message, whose lines stay lines: a test's output is unreadable on one."""
    click.echo(f"instar: {plain(text)}", err=True)
    raise click.exceptions.Exit(1)


def emit(value: Any, text: str, *, json: bool) -> None:
    """Print `value` as JSON, or `text` where it says anything, without what a terminal would obey."""
    if json:
        click.echo(_json(value))
    elif text:
        click.echo(plain(text))


def play(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work to its end. What it refuses or fails with is one message and exit code 1.

    SIGTERM ends what it has started, as Ctrl-C does.
    """
    with failing():
        try:
            return asyncio.run(_ended_by_signal(work))
        except asyncio.CancelledError:
            raise click.exceptions.Exit(_ENDED) from None


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """Turn what evolve refuses, and what fails, into `fail`."""
    try:
        yield
    except FAILURES as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))


def stage(name: str) -> None:
    """Say on a terminal that the gate begins a stage: it may take seconds."""
    if sys.stderr.isatty():
        click.echo(f"{name} …", err=True)


def _json(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value)).decode()
    except UnicodeEncodeError:  # the name of a file need not be UTF-8
        return dumps(msgspec.to_builtins(value), indent=2)


async def _ended_by_signal(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
