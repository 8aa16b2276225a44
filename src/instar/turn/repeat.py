"""Calls that repeat themselves: whether a call is the third of its kind in a row."""

from collections.abc import Mapping, Sequence
from typing import Final

from instar.message import ToolPart, User, WithParts
from instar.plugin import Tool, wire

LOOP: Final = 3
"""How many identical calls make a loop."""
REPEATED: Final = (
    "You have made this call again and again with the same arguments, and it was not run this time: what it answers"
    " would not change. Do something else."
)
"""What a model reads of a refused loop, before the reason: a small one takes the rules for the answer, and repeats."""
INVOKED: Final = "invoked"
"""The metadata of a call whose tool made others (`ToolContext.invoke`): a list of `tool`, `callID` and `input`."""


def is_loop(
    history: Sequence[WithParts], part: ToolPart, asked: ToolPart, aliases: Mapping[str, str]
) -> bool:
    """True if `part`, in the newest message of `history`, is the third call in a row with its tool and input.

    Also True for the third such call in its message, with others in between. A person's message begins a new count.
    `asked` is a call that the tool of `part` makes: it counts as a call in the place of `part`, as do the calls of
    other tools. `aliases` maps to tools: calls of one tool by different names are the same.
    """

    def made(tool: str, given: wire.Plain) -> tuple[str, wire.Plain]:
        return aliases.get(tool, tool), given

    def is_made(one: ToolPart) -> bool:
        return wanted in [made(*call) for call in _made(one)]

    wanted = made(asked.tool, asked.state.input)
    own = [
        made(*one[1:]) == wanted
        for one in reversed(_invoked_by(part))
        if asked is not part and one[0] != asked.call_id
    ]
    before = _calls_before(history, part)
    in_a_row = (own + [is_made(one) for one in before])[: LOOP - 1]
    in_message = sum(own) + sum(is_made(one) for one in before if one.message_id == part.message_id)
    return in_message >= LOOP - 1 or (len(in_a_row) == LOOP - 1 and all(in_a_row))


def _calls_before(history: Sequence[WithParts], part: ToolPart) -> list[ToolPart]:
    """Return the calls before `part`, the last first, back to what a person said."""
    found = False
    before: list[ToolPart] = []
    for message in reversed(history):
        if isinstance(message.info, User) and found:
            break
        for one in reversed(message.parts):
            if found and isinstance(one, ToolPart):
                before.append(one)
            found = found or one.id == part.id
    return before


def _made(part: ToolPart) -> list[tuple[str, wire.Plain]]:
    """A call, and those that its tool made."""
    return [(part.tool, part.state.input), *(one[1:] for one in _invoked_by(part))]


def _invoked_by(part: ToolPart) -> list[tuple[str, str, wire.Plain]]:
    """The calls that the tool of a part made: id, tool, input. Metadata may come from anywhere."""
    found = (getattr(part.state, "metadata", None) or {}).get(INVOKED)
    return [
        (str(one.get("callID")), str(one.get("tool")), one.get("input") or {})
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
    ]


def registered(tools: Mapping[str, Tool]) -> Mapping[str, str]:
    """Return the name under which the tool of each alias is registered."""
    return {alias: name for name, tool in tools.items() for alias in tool.aliases if alias not in tools}
