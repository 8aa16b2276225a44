"""The working directory with its rules read, for the time of one command."""

import contextlib
from collections.abc import AsyncIterator

import click

from instar.plugin import Means
from instar.plugins.hooks.armed import arm
from instar.plugins.hooks.report import Place, place_of


@contextlib.asynccontextmanager
async def opened(ctx: click.Context) -> AsyncIterator[tuple[Place, Means]]:
    """Read the rules of the working directory, as an instance does that opens there; no plugin is loaded."""
    async with ctx.obj.means("hooks") as means:
        yield place_of(arm(means), means), means
