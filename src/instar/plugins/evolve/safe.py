"""Safe: a start with none of the agent's changes (``instar run --safe``).

Scripts, prompts, tests and settings are those that a person left (`own`), in a tree of their own beside the last good
one. Nothing is changed meanwhile, and nothing of this outlasts the run.
"""

from typing import Any

from instar.plugins.evolve.ledger.goodtree import GoodTree, Served
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.ledger.own import Own
from instar.plugins.evolve.ledger.standing import Version


class Safe:
    """What a person left of a workspace, served from `tree`."""

    def __init__(self, ledger: Ledger, own: Own, tree: GoodTree) -> None:
        self._ledger = ledger
        self._own = own
        self._tree = tree

    @property
    def files(self) -> dict[str, Version]:
        """Return what a person left, by path in the workspace. What they deleted since is not in it."""
        left = self._ledger.left
        return {path: left[path] for path in self._ledger.files if path in left}

    @property
    def changed(self) -> list[str]:
        """Return the files that are not what is live now, a phrase each."""
        files, mine = self._ledger.files, self.files
        return [
            f"{path} {'as a person left it' if path in mine else 'left out, since the agent made it'}"
            for path in sorted(files)
            if mine.get(path) != files[path]
        ]

    @property
    def why(self) -> str:
        """Say that this run is safe, what differs from what is live, and how to end it."""
        changed = ", ".join(self.changed) or "the agent has changed nothing here"
        doubt = f"; {self._own.problem}" if self._own.problem else ""
        return f"this run is safe (--safe): {changed}{doubt}; nothing is changed until instar is started without it"

    async def serve(self) -> Served:
        """Return where scripts run: in the tree, put right if need be. Raises `NotServed`."""
        self._ledger.refresh()
        return await self._tree.make(self.files)

    def gather(self) -> None:
        """Move what scripts made in the tree into the workspace."""
        self._tree.gather()


class Unkept:
    """A plugin's values that end with the process: what a safe run learns must not meet what is live."""

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}

    async def get(self, key: str) -> Any:
        """Return the value for `key`, or None."""
        return self._held.get(key)

    async def set(self, key: str, value: Any) -> None:
        """Set the value for `key`; None deletes it."""
        if value is None:
            self._held.pop(key, None)
        else:
            self._held[key] = value

    async def list(self, prefix: str = "") -> dict[str, Any]:
        """Return the keys that start with `prefix`, with their values."""
        return {key: value for key, value in self._held.items() if key.startswith(prefix)}
