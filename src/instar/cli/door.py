"""What the commands share: logging options, one-line errors, and a runtime that is open for a while."""

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from instar.cli import collector, logs
from instar.cli.context import Context, tell_untrusted
from instar.cli.failure import drop_output, one_line_errors
from instar.cli.text import one_line

if TYPE_CHECKING:
    from instar.client import AsyncClient
    from instar.runtime import Options, Runtime

GONE: Final = 141
"""The exit code when nobody reads stdout any more: 128 and SIGPIPE."""


def door(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--print-logs`` and ``--log-level``, and make what it raises one line.

    The function gets the `Context` first; a coroutine function is run to its end.
    """

    @click.option(
        "--print-logs", is_flag=True, help="Print log lines on stderr instead of into the log file."
    )
    @click.option(
        "--log-level",
        type=click.Choice(list(logs.LEVELS), case_sensitive=False),
        default="INFO",
        show_default=True,
        help="Which lines are logged; DEBUG also shows where an unexpected error comes from.",
    )
    @click.pass_obj
    @functools.wraps(function)
    def opened(context: Context, /, *args: Any, **options: Any) -> Any:
        print_logs, log_level = options.pop("print_logs"), options.pop("log_level")
        logs.start(context.paths.log_file, log_level, printed=print_logs)
        with one_line_errors(traceback=log_level == "DEBUG"), quiet_end():
            result = function(context, *args, **options)
            code = asyncio.run(result) if isinstance(result, Coroutine) else result
            sys.stdout.flush()
            return code

    return opened


def equip(command: click.Command) -> click.Command:
    """Give a command that knows no `door`, and each one in it, what `door` gives; once."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            equip(inner)
    elif command.callback is not None and all(one.name != "print_logs" for one in command.params):
        plain = command.callback
        opened = door(lambda _context, /, *args, **options: plain(*args, **options))
        command.params += reversed(opened.__click_params__)  # type: ignore[attr-defined]
        command.callback = opened
    return command


@contextmanager
def quiet_end() -> Iterator[None]:
    """End quietly when the reader of stdout has gone, with the exit code of SIGPIPE."""
    try:
        yield
    except BrokenPipeError:
        drop_output()
        raise click.exceptions.Exit(GONE) from None


def in_process(runtime: "Runtime") -> "AsyncClient":
    """Return a client of a runtime's HTTP interface, for its plugins (`PluginInput.http`)."""
    # Start-up time: Starlette and the client are for plugins that ask.
    from instar.server.within import client_of

    return client_of(runtime)


@asynccontextmanager
async def opened_runtime(options: "Options", *, automatic: bool = False) -> "AsyncIterator[Runtime]":
    """Open a runtime, say on stderr what it skipped, and close it at the end. `automatic` as in `Options`."""
    # Start-up time: only a command that needs a runtime pays for its rooms.
    from msgspec.structs import replace

    from instar.cli.own_server import OwnServer
    from instar.runtime import Runtime

    asked = replace(options, automatic=automatic, http=in_process, serve=OwnServer)
    async with await Runtime.open(asked) as runtime:
        collector.started()
        tell(runtime)
        yield runtime


def tell(runtime: "Runtime") -> None:
    """Print what was skipped on stderr, one line each; what trust took away is one line together."""
    tell_untrusted(runtime.untrusted)
    for notice in runtime.notices:
        click.echo(f"instar: {one_line(notice)}", err=True)
