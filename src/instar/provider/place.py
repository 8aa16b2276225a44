"""Where a session stands in a scripted model's script, read off its history."""

import re
from typing import Final

import msgspec

from instar.message import (
    Assistant,
    CompactionPart,
    MessageAbortedError,
    ToolCompleted,
    ToolError,
    ToolPart,
    WithParts,
    text_of,
)
from instar.provider.protocol import Model
from instar.provider.script import Script, Section

_MARK: Final = re.compile(r"call_([tw])(\d+)(?:_(\d+))?_\d+$")


class Sight(msgspec.Struct):
    """What the model was sent, as far as a script can speak of it."""

    user: str = ""
    tool: str = ""
    last: str = ""


class Place(msgspec.Struct):
    """Where a session stands: turns played, and how often each rule has answered."""

    played: int = 0
    fired: dict[int, int] = {}
    sight: Sight = msgspec.field(default_factory=Sight)


def find_place(script: Script, messages: list[WithParts], model: Model) -> Place:
    """Return where a session's history stands in `script`: a pure function of both."""
    place = Place(fired={})
    for message in messages:
        if isinstance(message.info, Assistant):
            if _is_answer(message, model):
                _count(script, message, place)
            outputs = _outputs(message)
            if outputs:
                place.sight.tool = outputs[-1]
                place.sight.last = "\n".join(outputs)
        elif text := text_of(message):
            place.sight.user = place.sight.last = text
    return place


def _is_answer(message: WithParts, model: Model) -> bool:
    info = message.info
    assert isinstance(info, Assistant)
    if info.summary or info.provider_id != model.provider_id or info.model_id != model.id:
        return False
    if info.error is None or isinstance(info.error, MessageAbortedError):
        return True
    return any(isinstance(part, ToolPart) for part in message.parts)


def _count(script: Script, message: WithParts, place: Place) -> None:
    mark = _mark_of(message)
    if mark is not None and mark[1] == "t":
        place.played = int(mark[2])
    elif mark is not None:
        place.fired[int(mark[2]) - 1] = int(mark[3] or 1)
    else:
        rules = (index for index, rule in enumerate(script.rules) if applies(rule, index, place))
        index = next(rules, None)
        if index is None:
            place.played += 1
        else:
            place.fired[index] = place.fired.get(index, 0) + 1


def _mark_of(message: WithParts) -> re.Match[str] | None:
    for part in message.parts:
        if isinstance(part, ToolPart):
            return _MARK.match(part.call_id)
    return None


def applies(rule: Section, index: int, place: Place) -> bool:
    """Whether the rule with this index answers what was sent last."""
    if rule.once and place.fired.get(index):
        return False
    return rule.when is not None and rule.when.search(place.sight.last) is not None


def _outputs(message: WithParts) -> list[str]:
    states = [part.state for part in message.parts if isinstance(part, ToolPart)]
    return [
        state.output if isinstance(state, ToolCompleted) else state.error
        for state in states
        if isinstance(state, ToolCompleted | ToolError)
    ]


def is_compacted(messages: list[WithParts]) -> bool:
    """Whether a part of the history was replaced by its summary."""
    return any(
        (isinstance(message.info, Assistant) and message.info.summary is True)
        or any(isinstance(part, CompactionPart) for part in message.parts)
        for message in messages
    )
