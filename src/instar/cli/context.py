"""What every command is given: the person's environment, and places found from it when asked for."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from instar.paths import Paths
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

    def folder(self, given: str | None) -> Path:
        """Return the folder that ``--dir`` names, else the working directory. Raises `click.UsageError`."""
        path = self.directory / Path(given).expanduser() if given else self.directory
        if not path.is_dir():
            raise click.UsageError(f"there is no folder {path}")
        return path.resolve()

    def absolute(self, given: str | None) -> str | None:
        """Return a path of the command line as an absolute one; None for None."""
        return str(self.directory / Path(given).expanduser()) if given else None
