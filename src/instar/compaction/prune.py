"""Pruning: old tool outputs are cleared from what the model is sent; the history keeps them (reference 3.6)."""

from typing import Final

import msgspec

from instar.compaction.window import result_size
from instar.instance import Instance
from instar.live import Live, now
from instar.message import ToolCompleted, ToolPart, User, WithParts, visible

NEWEST: Final = 40_000
"""Tokens of the newest outputs that stay, and half of the room at most."""
_TURNS: Final = 2
_PROTECTED: Final = ("skill",)
"""Tools whose outputs stay: what a skill says holds for as long as the session lasts."""


def clearable(sent: list[WithParts], newest: int) -> list[tuple[WithParts, ToolPart]]:
    """Return the outputs that may be cleared, each with its message: those beyond the `newest` tokens of them.

    The last two turns' outputs are neither cleared nor counted.
    """
    found: list[tuple[WithParts, ToolPart]] = []
    turns = seen = 0
    for message in reversed(sent):
        turns += isinstance(message.info, User)
        # A turn's answers stand after its prompt: this prompt's own are past.
        if turns < _TURNS or isinstance(message.info, User):
            continue
        for part in reversed(message.parts):
            if not isinstance(part, ToolPart) or not _is_clearable(part):
                continue
            seen += result_size(part)
            if seen > newest:
                found.append((message, part))
    return found


async def prune(instance: Instance, live: Live, room: int) -> None:
    """Clear old tool outputs of a conversation that may fill `room` tokens: save when, and publish it."""
    for holder, part in clearable(visible(live.history), min(NEWEST, room // 2)):
        assert isinstance(part.state, ToolCompleted)
        time = msgspec.structs.replace(part.state.time, compacted=now())
        state = msgspec.structs.replace(part.state, time=time)
        await instance.sessions.save_part(holder, msgspec.structs.replace(part, state=state))


def _is_clearable(part: ToolPart) -> bool:
    state = part.state
    return isinstance(state, ToolCompleted) and not state.time.compacted and part.tool not in _PROTECTED
