"""evolve's own hook points, which other plugins may subscribe to as to the core's."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from instar.plugin import HookPoint, Means, PluginInput, Refused, points, wire


class CandidateInput(wire.Wire):
    """A candidate that passed its trials and would be installed now, or wait for a person.

    `path` is its file in the workspace, `before` and `after` are its whole texts; `before` is None for a new file.
    `tool`, `session_id`, `call_id` and `agent` say whose change it is. `raised` are sentences on what it would reach
    beyond what was granted; a person must then allow it.
    """

    path: str
    before: str | None
    after: str
    diff: str
    raised: list[str]
    tool: str
    session_id: str
    call_id: str
    agent: str


class HeartbeatInput(wire.Wire):
    """A heartbeat that is about to be sent: its number, its session, its system prompt and its text."""

    number: int
    session_id: str
    system: list[str]
    user: str


CANDIDATE: Final = HookPoint(
    "evolve.candidate",
    CandidateInput,
    points.Empty,
    True,
    "Before a candidate is installed; an exception refuses it.",
)
HEARTBEAT: Final = HookPoint(
    "evolve.heartbeat",
    HeartbeatInput,
    points.Empty,
    True,
    "Before a heartbeat is sent; an exception skips it.",
)


def asker(given: PluginInput | Means, point: HookPoint[Any, points.Empty]) -> Callable[[Any], Awaitable[str]]:
    """Declare a gate, and return what asks the other plugins at it: why one refuses, "" when none does.

    A person's own command knows no other plugins: there nobody refuses.
    """

    async def ask(about: Any) -> str:
        if isinstance(given, PluginInput):
            try:
                await given.trigger(point, about, points.Empty())
            except Refused as error:
                return f"the plugin {error.plugin} refused it: {error}"
        return ""

    if isinstance(given, PluginInput):
        given.declare_hook(point)
    return ask
