"""What a beat is given and what it sends. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from instar.plugin import event, message, wire
from instar.plugins.evolve import protocol
from instar.plugins.evolve.protocol import Answer

PREFIX: Final = "[heartbeat]"
DEFAULT: Final = (
    "This is a heartbeat: nobody is waiting for an answer. Do what your instructions say about it."
)
"""The user's text where no script gave one."""


LONGEST: Final = 100_000
"""Characters of a beat's user text, and of its system prompt, that are sent at most: as of an action's message."""


class Words(msgspec.Struct, frozen=True):
    """What is sent: `system` is kept as the session's prompt (empty: the session's own stays), `user` is synthetic."""

    system: list[str]
    user: str

    @property
    def problem(self) -> str:
        """Why this is not sent; "" when it may be."""
        sizes = {"user": len(self.user), "system": sum(map(len, self.system))}
        return "; ".join(
            f"what the `heartbeat` hooks or prompts/heartbeat.md give as {name} has {size} characters, {LONGEST} at "
            "most are sent: make it shorter"
            for name, size in sizes.items()
            if size > LONGEST
        )


def compose(answer: Answer, default: Sequence[str]) -> Words | None:
    """Return what a beat sends, from the merged answer of the `heartbeat` hooks; None: there is nothing to send.

    `default` is the system prompt that ``prompts/heartbeat.md`` makes (`Prompts.default`), empty without one.
    """
    system = protocol.texts(answer, "system") or list(default)
    user = protocol.text(answer, "user").strip()
    if not user and not system:
        return None
    user = user or DEFAULT
    return Words(system, user if user.startswith(PREFIX) else f"{PREFIX} {user}")


def open_sessions(
    sessions: Iterable[message.Session], doing: Mapping[str, event.SessionStatus], own: str = ""
) -> list[wire.Plain]:
    """Return the hook's input `sessions`: those that a person may talk to, in the order given.

    Left out are archived ones, those of sub-agents, and `own`, the heartbeat's. `doing` is what each session that is
    not idle does. Each has `id`, `title`, `agent` (where known), `busy` and `updated` (ms).
    """
    return [
        {"id": one.id, "title": one.title}
        | ({"agent": one.agent} if one.agent else {})
        | {"busy": one.id in doing, "updated": one.time.updated}
        for one in sessions
        if one.id != own and one.parent_id is None and not one.time.archived
    ]


def busy(doing: Iterable[str], titles: Mapping[str, str], own: str = "", *, others: bool = True) -> str:
    """Return why a beat is skipped while sessions work; "" when it may run.

    `doing` are the sessions that are not idle, `titles` the titles that are known. The heartbeat's `own` session counts
    always, the others while the setting ``heartbeat_skip_active`` says so (`others`).
    """
    at_work = set(doing)
    if own in at_work:
        return f"the heartbeat's own session {own} is busy"
    names = sorted(at_work) if others else []
    if not names:
        return ""
    first = f"{names[0]} ({titles[names[0]]})" if titles.get(names[0]) else names[0]
    return f"session {first}" + (f" and {len(names) - 1} more are busy" if len(names) > 1 else " is busy")
