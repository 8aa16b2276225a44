"""Whether a model turns in a circle: the same call for the third time (opencode's ``doom_loop``)."""

from collections.abc import Iterator, Sequence
from typing import Final

from instar.message import ToolPart, User, WithParts

TIMES: Final = 3
"""How many identical calls make a loop."""


def is_loop(history: Sequence[WithParts], part: ToolPart) -> bool:
    """Whether `part`, in the newest message of `history`, is the third call in a row with its tool and input.

    Or the third in its message, whatever stands between. What a person said last begins a new count.
    """
    same = [_same(one, part) for one in _before(history, part)]
    in_message = sum(_same(one, part) for one in _in_message(history, part))
    return (len(same) >= TIMES - 1 and all(same[: TIMES - 1])) or in_message >= TIMES - 1


def _before(history: Sequence[WithParts], part: ToolPart) -> Iterator[ToolPart]:
    """The calls before `part`, the last first, back to what a person said."""
    found = False
    for message in reversed(history):
        if isinstance(message.info, User) and found:
            return
        for one in reversed(message.parts):
            if one.id == part.id:
                found = True
            elif found and isinstance(one, ToolPart):
                yield one


def _in_message(history: Sequence[WithParts], part: ToolPart) -> list[ToolPart]:
    for message in reversed(history):
        ids = [one.id for one in message.parts]
        if part.id in ids:
            return [one for one in message.parts[: ids.index(part.id)] if isinstance(one, ToolPart)]
    return []


def _same(one: ToolPart, other: ToolPart) -> bool:
    return one.tool == other.tool and one.state.input == other.state.input
