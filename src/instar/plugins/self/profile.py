"""Profiles: snapshots that the evolve workspace keeps. A run with ``--profile`` starts with one.

evolve declares the two methods that keep and load a profile. What they return is checked here.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from instar.plugin import Method
from instar.plugins.self import bounds
from instar.plugins.self.access import Access, TreeChange
from instar.plugins.self.messages import Refusal, quoted
from instar.plugins.self.state import SettingsSnapshot, Variables

KEEP: Final = "evolve.profiles.keep"
"""The path of evolve's method that keeps a profile."""
LOAD: Final = "evolve.profiles.load"
"""The path of the one that returns it."""


@dataclass
class ProfileStart:
    """Sets the profile `name` once in each session, except sub-agents': they get a copy of what their caller has.

    Without a name there is nothing to set. `is_child` returns whether a session is a sub-agent's. `chosen`: the person
    named a model for this run, which wins over the profile's. `started` are the sessions in which it is set.
    """

    name: str
    access: Access
    is_child: Callable[[str], Awaitable[bool]]
    chosen: bool
    started: set[str] = field(default_factory=set)

    async def begin(self, session_id: str) -> str:
        """Set what the profile holds. Return "" when it is set, else why it cannot be."""
        if not self.name or session_id in self.started or await self.is_child(session_id):
            return ""
        try:
            await apply(self.access, await self._loaded(session_id), session_id)
        except Exception as error:
            why = self.access.said(error).removeprefix("Error: ")
            return f"the profile {self.name} cannot be used: {why}"
        self.started.add(session_id)
        return ""

    async def _loaded(self, session_id: str) -> SettingsSnapshot:
        load = self.access.tree().at(LOAD)
        if not isinstance(load, Method):
            why = "profiles stand in an evolve workspace, and none is in use (instar run --workspace PATH)"
            raise Refusal(why)
        held = _checked(await self.access.called(load, session_id, {"name": self.name}))
        kept = {name: value for name, value in held.values.items() if not (self.chosen and name == "model")}
        return SettingsSnapshot(kept, held.variables)


def _checked(found: Any) -> SettingsSnapshot:
    if type(found) is not dict or found.keys() - {"parameters", "variables"}:
        raise Refusal("a profile holds `parameters` and `variables`, and nothing else")
    values, held = found.get("parameters", {}), found.get("variables", {})
    if type(values) is not dict or type(held) is not dict:
        raise Refusal("`parameters` and `variables` are objects")
    for name, value in values.items():
        if name not in bounds.RESTRICTED:
            raise Refusal(f"{quoted(name)} is no parameter of a profile")
        bounds.check_parameter(name, value)
    return SettingsSnapshot(values, Variables(held))


async def apply(access: Access, held: SettingsSnapshot, session_id: str, call_id: str = "") -> None:
    """Set parameters and variables, or nothing of them. Raises `Refusal`."""
    session = access.sessions[session_id]
    declared = access.settable()
    before = {one: await access.raw(one, value.read, session_id) for one, value in declared.items()}
    done: list[str] = []
    try:
        # The model first: how large a window may be depends on it.
        for one in sorted((one for one in held.values if one in declared), key=lambda name: name != "model"):
            access.write(one, declared[one], held.values[one], session_id)
            done.append(one)
    except Refusal:
        for one in done:
            with contextlib.suppress(Refusal):  # the writer took this value a moment ago
                access.write(one, declared[one], before[one], session_id)
        raise
    variables, session.variables = session.variables, Variables(held.variables)
    changes = {one: (before[one], held.values[one]) for one in done}
    for one in sorted({*variables, *held.variables}):
        changes[f"_runtime_vars.{one}"] = (variables.get(one), held.variables.get(one))
    for one, (old, new) in changes.items():
        if type(old) is not type(new) or old != new:
            await access.report(TreeChange(one, old, new, session_id, call_id))
    session.changed.update({one: held.values[one] for one in done})
