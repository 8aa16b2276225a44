"""``instar acp``: speaks the Agent Client Protocol on stdin and stdout, for an editor that starts it."""

import asyncio
import sys
from contextlib import suppress
from typing import Any, cast

import click

from instar.approval import permissions, questions
from instar.cli import complete
from instar.cli.attach import heard
from instar.cli.door import Context, Failure, door
from instar.cli.person import Interrupts
from instar.cli.stdio import Lines, clients
from instar.client import ApiError, NotFound, Unreachable
from instar.settings.install import installing


@click.command()
@click.option("--attach", "url", metavar="URL", help="Work in the server there (http://… or unix:PATH).")
@click.option(
    "--agent", metavar="NAME", shell_complete=complete.agents, help="The agent that new sessions begin with."
)
@door
async def command(context: Context, url: str | None, agent: str | None) -> None:
    """Let an editor talk with the agent: the Agent Client Protocol on stdin and stdout (docs/editors.md)."""
    if sys.stdin.isatty():
        raise Failure(
            "an editor starts instar acp and talks with it (docs/editors.md); for yourself: instar chat"
        )
    try:
        # An extra: only this command needs it.
        import acp.core

        from instar.cli.acp.agent import AgentSide, Messages
    except ModuleNotFoundError as error:
        if error.name not in ("acp", "pydantic"):
            raise
        raise Failure(f"instar acp needs the package agent-client-protocol: {installing('acp')}") from None
    # Where a model started it, no person is at the other end.
    by_model = context.environment.get("INSTAR_RUN")
    person = permissions.relayed if by_model else permissions.relayed_to_person
    lines, asked = Lines(), (person, questions.relayed)
    with Interrupts(), suppress(BrokenPipeError):
        async with clients(context, url, asked) as client_of, client_of(None) as everywhere:
            # Of each directory: sessions of the client may be in several.
            everywhere.directory = None
            try:
                async with heard(everywhere) as events:
                    spoken = AgentSide(client_of, agent, here=url is None)
                    connection = acp.core.AgentSideConnection(
                        cast("acp.core.Agent", spoken),
                        Messages(lines),
                        listening=False,
                        use_unstable_protocol=True,
                    )
                    try:
                        await _until_one_ends(connection.listen(), spoken.listen(events))
                    finally:
                        await spoken.close()
                        await connection.close()
            except (ApiError, NotFound, Unreachable) as error:
                raise Failure(str(error)) from error


async def _until_one_ends(*works: Any) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
