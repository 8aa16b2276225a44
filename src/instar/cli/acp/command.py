"""``instar acp``: speaks the Agent Client Protocol on stdin and stdout, for an editor that starts it."""

import sys
from contextlib import suppress

import click

from instar.approval import permissions, questions
from instar.cli import complete
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
    """Let an editor talk with the agent: the Agent Client Protocol on stdin and stdout (instar docs editors)."""
    if sys.stdin.isatty():
        raise Failure(
            "an editor starts instar acp and talks with it (instar docs editors); for yourself: instar chat"
        )
    try:
        # An extra: only this command needs it.
        from instar.cli.acp.agent import AgentSide, Messages, converse
    except ModuleNotFoundError as error:
        if error.name not in ("acp", "pydantic"):
            raise
        raise Failure(f"instar acp needs the package agent-client-protocol: {installing('acp')}") from None
    # Where a model started it, no person is at the other end.
    by_model = context.environment.get("INSTAR_RUN")
    person = permissions.relayed if by_model else permissions.relayed_to_person
    lines, asked = Lines(), (person, questions.relayed)
    with Interrupts(), suppress(BrokenPipeError):
        async with clients(context, url, asked) as client_of:
            is_own = url is None
            try:
                side = AgentSide(client_of, agent, here=is_own, alone=is_own)
                await converse(side, client_of, Messages(lines))
            except (ApiError, NotFound, Unreachable) as error:
                raise Failure(str(error)) from error
