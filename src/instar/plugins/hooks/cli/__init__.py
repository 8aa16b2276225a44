"""``instar hooks``: which rules are armed, what one of them would do, and what they have cost (issue 8, item 1).

Needs of ``ctx.obj``: `means(name)` and `instance(flags)`. Exit codes: 0 done, 1 refused or failed, 2 wrong usage, or
rules that do not hold as they are written.
"""

import click

from instar.plugins.hooks.cli import checking, stats, trying


@click.group("hooks")
def command() -> None:
    """Look at the rules that decide before and after things happen, and try them."""


for _one in (checking.check, trying.test, stats.stats):
    command.add_command(_one)

__all__ = ["command"]
