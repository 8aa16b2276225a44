"""``instar evolve``: what evolved in a workspace, and what a person orders there.

Works whether or not the configuration lists evolve. Needs of ``ctx.obj``: `environment`, `directory`, `trust`,
`plugin_options(name)`, the options that the configuration gives to a plugin, and `means(name)`.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""

import click

from instar.plugins.evolve.cli import departed, evals, forget, looks, orders, trying
from instar.plugins.evolve.cli.command import workspace


@click.group("evolve")
@workspace
def group() -> None:
    """Look at an evolve workspace, and decide on what the agent changes in it."""


for _one in (
    *(looks.status, looks.log, looks.show, looks.diff, looks.why, looks.attempts, looks.pending, looks.pins),
    *(orders.approve, orders.reject, orders.again, orders.rollback),
    *(orders.pin, orders.unpin, orders.freeze, orders.thaw),
    *(departed.accept, departed.restore, evals.run),
    *(trying.validate, trying.replay, trying.bisect, trying.held_out, forget.unused, forget.forget),
):
    group.add_command(_one)

__all__ = ["group"]
