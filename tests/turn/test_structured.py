"""Structured output: data of the schema that was asked for, or an error that says why not."""

from typing import Any

import pytest

from instar.message import StructuredOutputError
from instar.plugin import Invalid, PromptBody
from instar.testing import Machine, answer_of, calls_of, results

pytest_plugins = ["tests.turn"]

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
FORMAT: dict[str, Any] = {"type": "json_schema", "schema": SCHEMA}
GOOD = 'tool: StructuredOutput {"name": "Ada", "age": 36}'
BAD = 'tool: StructuredOutput {"name": "Ada", "age": "old"}'


async def test_the_answer_is_the_data_of_the_forced_call(house: Machine) -> None:
    house.says(f"== turn\n{GOOD}\n")
    door = await house.open()
    session = await door.session()
    answer = answer_of(await door.ask(session, "who?", format=FORMAT))
    assert answer.structured == {"name": "Ada", "age": 36}
    assert (answer.finish, answer.error) == ("stop", None)
    (request,) = house.requests()
    offered = {tool["function"]["name"]: tool["function"] for tool in request["tools"]}
    assert offered["StructuredOutput"]["parameters"] == {
        k: SCHEMA[k] for k in ("type", "properties", "required")
    }
    assert request["tool_choice"] == "required"
    assert "StructuredOutput" in request["system"][-1]
    stored = answer_of((await door.stored(session))[-1])
    assert stored.structured == answer.structured


async def test_other_tools_may_be_called_first(house: Machine) -> None:
    (house.folder / "a.txt").write_text("Ada, 36")
    house.says(f'== turn\ntool: read {{"filePath": "a.txt"}}\n\n== turn\n{GOOD}\n')
    door = await house.open()
    answer = answer_of(await door.ask(await door.session(), "who?", format=FORMAT))
    assert answer.structured == {"name": "Ada", "age": 36}
    assert len(house.requests()) == 2


@pytest.mark.parametrize("miss", [BAD, "text: It is Ada."])
async def test_a_miss_is_tried_once_more(house: Machine, miss: str) -> None:
    house.says(f"== turn\n{miss}\n\n== turn\n{GOOD}\n")
    door = await house.open()
    session = await door.session()
    answer = answer_of(await door.ask(session, "who?", format=FORMAT))
    assert answer.structured == {"name": "Ada", "age": 36}
    one, two = house.requests()
    last = two["messages"][-1]
    assert (last["role"], "StructuredOutput" in last["content"]) in (("tool", True), ("user", True))
    assert two["messages"][: len(one["messages"])] == one["messages"]


@pytest.mark.parametrize("miss", [BAD, "text: It is Ada."])
@pytest.mark.parametrize(("given", "retries"), [({}, 1), ({"retryCount": 0}, 0), ({"retryCount": 2}, 2)])
async def test_after_the_last_try_the_answer_carries_the_error(
    house: Machine, miss: str, given: dict[str, int], retries: int
) -> None:
    house.says("\n".join(f"== turn\n{miss}\n" for _ in range(4)))
    door = await house.open()
    session = await door.session()
    answer = answer_of(await door.ask(session, "who?", format={**FORMAT, **given}))
    assert isinstance(answer.error, StructuredOutputError)
    assert answer.error.data.retries == retries
    assert answer.structured is None
    assert len(house.requests()) == retries + 1
    assert [failed.error for failed in door.of("session.error")] == [answer.error]
    house.says('== when ""\ntext: fine\n')
    assert answer_of(await door.ask(session, "and now?")).error is None


async def test_data_that_does_not_fit_is_refused_with_the_place(house: Machine) -> None:
    house.says(f"== turn\n{BAD}\n\n== turn\n{GOOD}\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "who?", format=FORMAT)
    assert "age" in results(await door.stored(session))[0]


async def test_a_prompt_without_a_format_is_offered_nothing_of_it(house: Machine) -> None:
    house.says(f"== turn\n{GOOD}\n\n== turn\ntext: plain\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "data", format=FORMAT)
    answer = await door.ask(session, "text", format={"type": "text"})
    assert answer_of(answer).structured is None
    assert calls_of(answer) == []
    request = house.requests()[-1]
    assert request["tool_choice"] == "auto"
    assert "StructuredOutput" not in [tool["function"]["name"] for tool in request["tools"]]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"type": "xml"}, "text or json_schema, not 'xml'"),
        ({}, "not None"),
        ({"type": "json_schema"}, "must be a JSON Schema of an object"),
        ({"type": "json_schema", "schema": {"type": "array"}}, "must be a JSON Schema of an object"),
        ({**FORMAT, "retryCount": -1}, "whole number from 0 on, not -1"),
        ({**FORMAT, "retryCount": True}, "whole number from 0 on, not True"),
    ],
)
async def test_a_format_that_nobody_can_answer_is_refused_and_nothing_is_saved(
    house: Machine, wanted: dict[str, Any], why: str
) -> None:
    house.says("== turn\ntext: never\n")
    door = await house.open()
    session = await door.session()
    with pytest.raises(Invalid, match=why):
        await door.client.prompt(session, PromptBody.text("x", format=wanted))
    assert await door.stored(session) == []
