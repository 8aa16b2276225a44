"""What the rooms of the core show of themselves, and what of it may be set or called (issue 9, item 1).

The paths are those that seed 001 names. Readers return plain data of the session that asks; other sessions are
counted at most. A flagship shows its own room; where it is not in use, its branch says so.
"""

from collections.abc import Callable
from pathlib import Path

from instar.instance import Instance
from instar.plugin import Registry, Value, View
from instar.turns import Turns
from instar.views import guards, parameters, place, spending, tasks, work
from instar.views.seen import Seen

FLAGSHIPS = {
    "evolve": "The evolve workspace",
    "dream": "The heartbeat of an evolve workspace",
    "hooks": "The rules of hooks",
}
"""Branches that a flagship declares where it is in use."""
UNUSED = "unused"
"""Under which name stands what `complete` adds."""


def declare(registry: Registry, instance: Instance, turns: Turns, trusted: Callable[[Path], bool]) -> None:
    """Add the views of the core's rooms. Nothing is read before somebody asks."""
    seen = Seen(instance)
    top = {**parameters.values(seen), "commands": work.commands(seen), "cost": spending.cost(seen)}
    views = [
        View("parameters", "What a session may set of its turns, and what stands beside that.", top, path=""),
        *tasks.views(seen, turns),
        *work.views(seen),
        *guards.views(seen, trusted),
        spending.view(seen),
        place.view(instance),
    ]
    for view in views:
        registry.add_view(view)


def complete(registry: Registry) -> None:
    """Say of each flagship's branch that nobody declared that it is not in use."""
    held = {view.at[0] for view in registry.views.values() if view.at}
    for name, what in FLAGSHIPS.items():
        if name not in held and name not in registry.views:
            told = Value(doc="Whether it is in use here.", read=lambda session_id: False, scope="instance")
            registry.of(UNUSED).add_view(View(name, f"{what}, which is not in use here.", {"active": told}))
