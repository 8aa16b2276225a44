"""Single model calls without a session."""

import pytest

from instar.message import ModelRef
from instar.provider.protocol import ProviderError
from instar.testing import Machine

pytest_plugins = ["tests.turn"]


async def test_one_call_is_made_with_a_system_prompt_and_a_text_and_is_booked(house: Machine) -> None:
    house.says("== generate\ntext: forty-two\nusage: input=7 output=3 reasoning=2 cache_read=1\n")
    cost = {"input": 10.0, "output": 10.0, "cache_read": 10.0}
    house.settings(provider={"scripted": {"models": {"x": {"cost": cost}}}})
    door = await house.open()
    seen = []

    async def params(given, output) -> None:
        seen.append(given)

    door.plugin({"chat.params": params})
    answer = await door.runtime.generate(system=["Be brief."], prompt="What is it?", cause="judge")
    assert (answer.text, answer.tokens, answer.cost) == ("forty-two", 13, pytest.approx(13e-5))
    (request,) = house.requests("generate")
    assert (request["system"], request["tools"], request["agent"]) == (["Be brief."], [], "judge")
    assert [message["content"] for message in request["messages"]] == ["What is it?"]
    assert seen == []
    (booked,) = await door.runtime.instance.store.usage()
    assert (booked.cause, booked.session_id, booked.message_id) == ("judge", "", None)
    assert door.heard == []


async def test_a_model_may_be_named(house: Machine) -> None:
    house.says("== generate\ntext: hi\n")
    door = await house.open()
    other = ModelRef(provider_id="scripted", model_id="other")
    await door.runtime.generate(system=[], prompt="x", model=other, cause="judge")
    assert house.requests("generate")[0]["model"] == "scripted/other"


async def test_a_failure_is_raised_and_nothing_is_booked(house: Machine) -> None:
    house.says("== generate\nerror: 500 down\n")
    door = await house.open()
    with pytest.raises(ProviderError, match="500 down"):
        await door.runtime.generate(system=[], prompt="x", cause="judge")
    assert await door.runtime.instance.store.usage() == []


async def test_a_limit_forbids_it(house: Machine) -> None:
    house.says("== generate\ntext: hi\nusage: input=100\n")
    house.settings(limits={"day": {"tokens": 50}})
    door = await house.open()
    await door.runtime.generate(system=[], prompt="x", cause="judge")
    with pytest.raises(ProviderError, match=r"100 tokens were used, limits\.day\.tokens allows 50"):
        await door.runtime.generate(system=[], prompt="x", cause="judge")
    assert len(house.requests("generate")) == 1
