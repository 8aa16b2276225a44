"""``instar evolve``: what evolved in a workspace, and what a person orders there.

Works whether or not the configuration lists evolve. Needs of ``ctx.obj``: `environment`, `directory`, `trust`,
`plugin_options(name)`, the options that the configuration gives to a plugin, and `means(name)`.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""

import click

from instar.plugins.evolve.cli import departed, named, orders, past, trying, waiting


@click.group("evolve")
@named.workspace
def command() -> None:
    """Look at an evolve workspace, and decide on what the agent changes in it."""


for _one in (
    *(waiting.status, past.log, past.show, past.diff, past.why),
    *(waiting.pending, waiting.approve, waiting.reject),
    *(orders.rollback, departed.accept, departed.restore),
    *(orders.pin, orders.unpin, orders.pins, orders.freeze, orders.thaw),
    *(trying.validate, trying.replay, trying.bisect),
):
    command.add_command(_one)

__all__ = ["command"]
