"""What a transform in JavaScript does to a message: what it left as it was stays the very object, else it is taken."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instar.message import WithParts, decode_with_parts
from instar.plugin import points
from instar.testing import Machine

Write = Callable[..., Path]

INPUT = {"__proto__": {"a": 1}, "list": [1, {"b": None}], "text": "é\u2028", "none": None}


def message() -> WithParts:
    own = {"sessionID": "ses_1", "messageID": "msg_1"}
    info = {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}, "agent": "build"}
    state = {"status": "running", "input": INPUT, "time": {"start": 1}}
    call = {**own, "id": "prt_1", "type": "tool", "callID": "c", "tool": "t", "state": state}
    info |= {"model": {"providerID": "p", "modelID": "m"}, "strange": {"kept": [1]}}
    return decode_with_parts({"info": info, "parts": [call]})


EDITS: dict[str, Any] = {
    "input.list": None,
    "input.more = undefined": None,
    "const { text } = input; delete input.text; input.text = text": None,
    "message.info = { ...message.info }": None,
    "input.list[1].b = 1": {**INPUT, "list": [1, {"b": 1}]},
    "input.list.push(2)": {**INPUT, "list": [1, {"b": None}, 2]},
    "input.list.length = 1": {**INPUT, "list": [1]},
    "input.list = { 0: 1, 1: { b: null } }": {**INPUT, "list": {"0": 1, "1": {"b": None}}},
    "input.more = 1": {**INPUT, "more": 1},
    "delete input.none": {key: one for key, one in INPUT.items() if key != "none"},
    "input.none = undefined": {key: one for key, one in INPUT.items() if key != "none"},
    "input.text = new Date(0)": {**INPUT, "text": "1970-01-01T00:00:00.000Z"},
    "input.toJSON = () => ({ own: 1 })": {"own": 1},
    "Object.getOwnPropertyDescriptor(input, '__proto__').value.a = 2": {**INPUT, "__proto__": {"a": 2}},
    "globalThis.kept ??= input; globalThis.kept.text = 'later'; input.text = 'x'": {**INPUT, "text": "x"},
}


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS, ids=EDITS)
async def test_a_message_that_says_something_else_is_taken_over_and_one_that_does_not_stays(
    house: Machine, write: Write, edit: str
) -> None:
    write(
        f"""
        const edit = (message) => {{ const input = message.parts[0].state.input; {edit} }}
        export const P = async () => ({{ "chat.messages.transform": async (i, o) => edit(o.messages[1]) }})
        """
    )
    door = await house.open()
    messages = [message(), message(), message()]
    for _ in "twice":
        output = points.MessagesOutput(messages=list(messages))
        await door.runtime.instance.plugins.trigger(points.MESSAGES, points.Empty(), output)
        first, second, third = output.messages
        assert (first is messages[0], third is messages[2]) == (True, True)
        assert (second is messages[1]) == (EDITS[edit] is None)
        found = second.to_plain()
        assert found["parts"][0]["state"]["input"] == (EDITS[edit] or INPUT)
        assert found["info"] == message().to_plain()["info"], json.dumps(found)
    assert door.of("plugin.error") == []
