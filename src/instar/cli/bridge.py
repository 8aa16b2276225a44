"""``instar bridge``: what opencode's plugin file starts; it speaks the plugin protocol on stdin and stdout."""

import click

from instar.cli.context import Context
from instar.cli.door import door


@click.command()
@door
async def command(context: Context) -> None:
    """Serve instar's plugins to opencode over stdin and stdout (docs/plugin-protocol.md). No command for people."""
    # Start-up time: the bridge's rooms are for it alone.
    from instar.bridge.server import run

    await run(context.environment)
