"""Detects a model that makes the same call for the third time (opencode's ``doom_loop``)."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from instar.message import ToolPart, User, WithParts
from instar.wire import Plain

TIMES: Final = 3
"""How many identical calls make a loop."""

INVOKED: Final = "invoked"
"""The metadata of a call whose tool made others (`ToolContext.invoke`): a list of `tool`, `callID` and `input`."""


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def is_loop(
    history: Sequence[WithParts],
    part: ToolPart,
    asked: ToolPart | None = None,
    registered: Mapping[str, str] = _NONE,
) -> bool:
    """True if `part`, in the newest message of `history`, is the third call in a row with its tool and input.

    Also True for the third such call in its message, with others in between. A person's message begins a new count.
    `asked` is a call that the tool of `part` makes: it counts as a call in the place of `part`, as do the calls of
    other tools. `registered` maps aliases to tools: calls of one tool by different names are the same.
    """

    def made(tool: str, given: Plain) -> tuple[str, Plain]:
        return registered.get(tool, tool), given

    def is_made(one: ToolPart) -> bool:
        return wanted in [made(*call) for call in _calls(one)]

    asked = asked or part
    wanted = made(asked.tool, asked.state.input)
    own = [
        made(*one[1:]) == wanted
        for one in reversed(_invoked(part))
        if asked is not part and one[0] != asked.call_id
    ]
    same = own + [is_made(one) for one in _before(history, part)]
    in_message = sum(own) + sum(is_made(one) for one in _in_message(history, part))
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


def _calls(part: ToolPart) -> list[tuple[str, Plain]]:
    """A call, and those that its tool made."""
    return [(part.tool, part.state.input), *(one[1:] for one in _invoked(part))]


def _invoked(part: ToolPart) -> list[tuple[str, str, Plain]]:
    """The calls that the tool of a part made: id, tool, input. Metadata may come from anywhere."""
    found = (getattr(part.state, "metadata", None) or {}).get(INVOKED)
    made = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [(str(one.get("callID")), str(one.get("tool")), one.get("input") or {}) for one in made]
