"""Which workspace a command works on, as ``--workspace``, the environment, the configuration or the default name it."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import click
import msgspec

from instar.plugin import Means
from instar.plugins.evolve.cli.output import fail
from instar.plugins.evolve.workspace import VARIABLES, LocatedWorkspace, Workspace, locate

_KEY = "instar.evolve.located"
_INSIDE = "INSTAR_RUN"
"""The variable that instar gives to each program that it starts."""


def _name(ctx: click.Context, _parameter: click.Parameter, given: str | None) -> None:
    if given:
        ctx.meta[_KEY] = str(Path(given).expanduser().absolute())


workspace: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--workspace",
    metavar="PATH",
    expose_value=False,
    callback=_name,
    help=f"The workspace (default: ${VARIABLES[0]}, else the configuration's, else ~/workspace).",
)
"""The option of the group and of each command."""


class NamedWorkspace(msgspec.Struct, frozen=True):
    """A workspace that was named and is there. `cwd` is the person's folder."""

    located: LocatedWorkspace
    workspace: Workspace
    trusted: bool
    environment: Mapping[str, str]
    cwd: Path
    means: Callable[[], AbstractAsyncContextManager[Means]]

    @property
    def root(self) -> Path:
        """The workspace's folder, links resolved."""
        return self.workspace.root

    @property
    def distrust(self) -> str:
        """Why nothing of it is run; empty when the person trusts it."""
        if self.trusted:
            return ""
        return (
            f"{self.root} is not trusted, so nothing in it is run: instar trust {self.root}, "
            "or name it by --workspace"
        )

    def path(self, text: str) -> str:
        """Return the path in the workspace that `text` means: as it stands there, or one that leads there from `cwd`.

        What exists is preferred; it need not. Links are not followed: a link in the workspace is a file of its own.
        """
        named = [
            Path(path).relative_to(top).as_posix()
            for start in (self.root, self.cwd)
            for top in (self.root, self.located.root)
            if Path(path := os.path.normpath(start / text)).is_relative_to(top)
        ]
        return next((one for one in named if os.path.lexists(self.root / one)), named[0] if named else text)


def find(ctx: click.Context) -> NamedWorkspace:
    """Return the workspace that was named; ends the command where there is none."""
    given, environment = ctx.meta.get(_KEY), ctx.obj.environment
    named = given or any(environment.get(name) for name in VARIABLES)
    located = locate(environment, {"workspace": given}, {} if named else ctx.obj.plugin_options("evolve"))
    if not located.root.is_dir():
        fail(
            f"there is no workspace at {located.root} ({located.source}): name one by --workspace or "
            f"{VARIABLES[0]}, or make one with: instar init FOLDER"
        )
    trusted = located.by_person or ctx.obj.trust.is_trusted(located.root)
    return NamedWorkspace(
        located,
        Workspace(located.root),
        trusted,
        environment,
        ctx.obj.directory,
        lambda: ctx.obj.means("evolve"),
    )


def find_for_order(ctx: click.Context) -> NamedWorkspace:
    """Return the workspace for what only a person may order.

    The shield is what keeps a program of the model's from it: instar's data and the workspace cannot be written there.
    This says so in words before it fails.
    """
    if ctx.obj.environment.get(_INSIDE):
        group = ctx.parent.info_name if ctx.parent is not None else ""
        fail(
            f"instar {group} {ctx.info_name} is a person's: it is not done for a program that instar started. "
            "Type it in a terminal of your own"
        )
    return find(ctx)
