"""The flagships by the names that a config's ``plugin`` list may use; they load like anybody's plugin.

A table of strings, not of imports: nothing of a flagship is loaded before it is asked for.
"""

from typing import Final, NamedTuple


class Flagship(NamedTuple):
    """A plugin that ships with instar: its module, and the command that it adds to the CLI."""

    module: str
    command: str
    """``module:attribute`` of a click command, imported when it is called."""
    help: str
    environment: tuple[str, ...] = ()
    """Variables of the person's environment that switch it on."""
    flag: str | None = None
    """The command line flag that switches it on."""


FLAGSHIPS: Final[dict[str, Flagship]] = {
    "evolve": Flagship(
        module="instar.plugins.evolve",
        command="instar.plugins.evolve.cli:command",
        help="Look at an evolve workspace: status, validate, log.",
        environment=("INSTAR_WORKSPACE", "OPENCODE_EVOLVE_WORKSPACE"),
        flag="workspace",
    ),
}

ALIASES: Final[dict[str, str]] = {"opencode-evolve": "evolve"}
"""Other names in a ``plugin`` list that select a flagship."""


def flagship_name(spec: str) -> str | None:
    """Return the flagship that a spec selects, or None. A version (``opencode-evolve@1.2``) is ignored."""
    bare = spec.rpartition("@")[0] or spec
    name = ALIASES.get(bare, bare)
    return name if name in FLAGSHIPS else None
