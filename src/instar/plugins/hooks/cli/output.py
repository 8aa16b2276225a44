"""What the commands share: what they print, how they fail, and that SIGTERM ends what they have started."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec

from instar.plugins.hooks.line import one_line

T = TypeVar("T")

_ENDED: Final = 128 + signal.SIGTERM

as_json: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON."
)
"""The option of each command."""


def fail(text: str) -> NoReturn:
    """End with exit code 1 and a message."""
    click.echo(f"instar: {one_line(text)}", err=True)
    raise click.exceptions.Exit(1)


def emit(value: Any, text: str, *, json: bool) -> None:
    """Print `value` as JSON, or `text`."""
    click.echo(msgspec.json.format(msgspec.json.encode(value)) if json else text)


def play(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work to its end. SIGTERM ends what it has started, as Ctrl-C does."""
    try:
        return asyncio.run(_ended_by_signal(work))
    except asyncio.CancelledError:
        raise click.exceptions.Exit(_ENDED) from None


async def _ended_by_signal(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
