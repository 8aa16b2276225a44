"""What every command is given: the person's environment, and places found from it when asked for."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from instar.cli.text import one_line

if TYPE_CHECKING:
    import contextlib

    from instar.paths import Paths
    from instar.plugin import Client, Means
    from instar.trust import Trust


class Context:
    """The object of every click command (``ctx.obj``), a flagship's too."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    @cached_property
    def directory(self) -> Path:
        """The working directory, as the system has it, not ``$PWD``. Raises `click.UsageError` when it is gone."""
        try:
            return Path.cwd()
        except FileNotFoundError:
            raise click.UsageError("the working directory does not exist any more; cd somewhere") from None

    @cached_property
    def paths(self) -> "Paths":
        """Where instar keeps things."""
        # Start-up time: the help needs no places.
        from instar.paths import Paths

        return Paths.from_environment(self.environment)

    @cached_property
    def trust(self) -> "Trust":
        """The person's list of trusted folders."""
        # Start-up time, as above.
        from instar.trust import Trust

        return Trust(self.paths, self.environment)

    def plugin_options(self, name: str) -> dict[str, Any]:
        """Return the options that the working directory's configuration gives to the flagship `name`.

        Empty when its ``plugin`` list has no such entry. Says on stderr what was not read because the folder is
        not trusted. Raises `DocumentError` for a configuration with a mistake.
        """
        # Start-up time, as above.
        import asyncio

        from instar.flagship import flagship_name
        from instar.process import Processes
        from instar.project import discover
        from instar.settings import read_settings

        project = asyncio.run(discover(self.directory, Processes()))
        read = read_settings(self.directory, project, self.paths, self.environment, {}, self.trust)
        tell_untrusted(read.dropped)
        named = [one.options for one in read.plugins if flagship_name(one.target) == name]
        return named[-1] if named else {}

    def means(self, name: str) -> "contextlib.AbstractAsyncContextManager[Means]":
        """Open what a flagship's command works with in the working directory."""
        # Start-up time, as above.
        from instar.cli.means import means

        return means(name, self.directory, self.paths, self.environment, self.trust)

    @asynccontextmanager
    async def instance(self, flags: Mapping[str, Any], *, automatic: bool = False) -> "AsyncIterator[Client]":
        """Let an instance live in the working directory, opened with `flags`, with its plugins at work.

        `automatic` as in `PluginInput`.
        """
        # Start-up time, as above.
        from instar.runtime import Options, Runtime

        options = Options(self.directory, self.environment, dict(flags), automatic=automatic)
        async with await Runtime.open(options) as runtime:
            tell_untrusted(runtime.untrusted)
            for notice in runtime.notices:
                click.echo(f"instar: {one_line(notice)}", err=True)
            yield runtime

    def folder(self, given: str | None) -> Path:
        """Return the folder that ``--dir`` names, else the working directory. Raises `click.UsageError`."""
        path = self.directory / Path(given).expanduser() if given else self.directory
        if not path.is_dir():
            raise click.UsageError(f"there is no folder {path}")
        return in_utf8(path.resolve())

    def absolute(self, given: str | None) -> str | None:
        """Return a path of the command line as an absolute one; None for None."""
        return str(self.directory / Path(given).expanduser()) if given else None


def tell_untrusted(dropped: Sequence[str]) -> None:
    """Print on stderr, as one line, what was skipped because its folder is not trusted; nothing for nothing."""
    if dropped:
        skipped = one_line("; ".join(dropped))
        click.echo(f"instar: not trusted, so skipped (see: instar trust --help): {skipped}", err=True)


def in_utf8(path: Path) -> Path:
    """Return the path. Raises `click.UsageError` when its name is no UTF-8: JSON and SQLite could not hold it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="replace")
        raise click.UsageError(f"{shown} has a name that is not UTF-8: rename it") from None
    return path
