"""Compaction: by hand, when the window fills, and when the provider says that it is full."""

import asyncio
from typing import Any

import pytest
from tests.turn import Door, House, answer_of, said, users

from instar.compaction import CONTINUE, LONGEST_RESULT, usable
from instar.message import CompactionPart, ContextOverflowError, MessageAbortedError, ModelRef
from instar.plugin import Invalid, points
from instar.provider.protocol import Model, ModelCost, ModelLimit

pytest_plugins = ["tests.turn"]

SMALL = {"scripted": {"models": {"x": {"limit": {"context": 10_000, "output": 1_000}}}}}
SUMMARY = "\n== compaction\ntext: they talked of socks\n"


def sent(house: House) -> list[Any]:
    return [message["content"] for message in house.requests()[-1]["messages"]]


async def test_by_hand_the_visible_history_begins_at_the_summary_and_nothing_goes_on(house: House) -> None:
    house.says(f'== when ""\ntext: re: {{{{user}}}}\n{SUMMARY}')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    await door.client.summarize(session)
    _, _, asked, summary = await door.stored(session)
    assert [(part.auto, part.tail_start_id) for part in asked.parts if isinstance(part, CompactionPart)] == [
        (False, None),
    ]
    info = answer_of(summary)
    assert (info.summary, info.agent, info.mode, info.finish) == (True, "compaction", "compaction", "stop")
    assert said(summary) == "they talked of socks"
    assert door.types().count("session.compacted") == 1
    assert len(house.requests()) == 1
    (request,) = house.requests("compaction")
    assert request["tools"] == []
    assert request["system"][0].startswith("You summarise a conversation")
    assert "[User]: first\n\n[Assistant]: re: first" in request["messages"][0]["content"]
    await door.ask(session, "second")
    assert sent(house) == ["What did we do so far?", "they talked of socks", "second"]


async def test_the_summary_stands_after_a_restart(house: House) -> None:
    house.says(f'== when ""\ntext: ok\n{SUMMARY}')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    await door.client.summarize(session)
    await door.runtime.close()
    await (await house.open()).ask(session, "second")
    assert sent(house) == ["What did we do so far?", "they talked of socks", "second"]


async def test_a_summary_by_hand_may_use_another_model(house: House) -> None:
    house.says(f'== when ""\ntext: ok\n{SUMMARY}')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    await door.client.summarize(session, ModelRef(provider_id="scripted", model_id="other"))
    assert house.requests("compaction")[0]["model"] == "scripted/other"
    with pytest.raises(Invalid, match="unknown provider 'nobody'"):
        await door.client.summarize(session, ModelRef(provider_id="nobody", model_id="x"))


async def test_there_is_nothing_to_summarise_in_an_empty_session_or_while_a_turn_runs(house: House) -> None:
    house.says(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.01; done"}\n\n== turn\ntext: done\n'
    )
    door = await house.open()
    session = await door.session()
    with pytest.raises(Invalid, match="has no messages to summarise"):
        await door.client.summarize(session)
    await door.start(session, "go")
    await door.running()
    with pytest.raises(Invalid, match="is busy; wait until its turn has ended, or abort it"):
        await door.client.summarize(session)
    (house.folder / "go").touch()
    await door.idle(session)
    assert users(await door.stored(session)) == ["go"]


async def test_an_answer_near_the_windows_end_is_summarised_before_the_next_step_and_work_goes_on(
    house: House,
) -> None:
    house.says(f"""
== turn
tool: bash {{"command": "echo {"y" * 3000}"}}
usage: input=9500 output=10

== turn
text: went on
usage: input=50 output=10
{SUMMARY}""")
    house.settings(provider=SMALL)
    door = await house.open()
    session = await door.session()
    answer = await door.ask(session, "work on it")
    assert said(answer) == "went on"
    assert users(await door.stored(session)) == ["work on it", "", CONTINUE]
    assert sent(house) == ["What did we do so far?", "they talked of socks", CONTINUE]
    going_on = (await door.stored(session))[4].parts[0]
    assert (going_on.synthetic, going_on.metadata) == (True, {"compaction_continue": True})  # type: ignore[union-attr]
    told = house.requests("compaction")[0]["messages"][0]["content"]
    assert '[Assistant tool call]: bash({"command": "echo yyy' in told
    assert "[Tool result]: " + "y" * LONGEST_RESULT in told
    assert "y" * (LONGEST_RESULT + 1) not in told.partition("[Tool result]: ")[2]


async def test_a_prompt_that_nobody_answered_yet_is_kept_word_for_word(house: House) -> None:
    house.says(f"""
== turn
text: long talk
usage: input=9500 output=10

== turn
text: answered
{SUMMARY}""")
    house.settings(provider=SMALL)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    assert said(await door.ask(session, "second")) == "answered"
    assert sent(house) == ["What did we do so far?", "they talked of socks", "second", CONTINUE]
    assert "second" not in house.requests("compaction")[0]["messages"][0]["content"]


async def test_a_full_window_is_summarised_and_the_prompt_tried_again(house: House) -> None:
    house.says(f"""
== when "first"
text: before

== when "second"
error: overflow the prompt is too long

== when "Continue if"
text: it fits now
{SUMMARY}""")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    assert said(await door.ask(session, "second")) == "it fits now"
    failed = answer_of((await door.stored(session))[3])
    assert isinstance(failed.error, ContextOverflowError)
    assert sent(house) == ["What did we do so far?", "they talked of socks", "second", CONTINUE]
    mark = (await door.stored(session))[4].parts[0]
    assert (mark.auto, mark.overflow) == (True, True)  # type: ignore[union-attr]


async def test_steps_whose_results_filled_the_window_are_summarised_with_their_prompt(house: House) -> None:
    house.says(f"""
== turn
tool: bash {{"command": "echo big"}}

== when "^big"
error: overflow too long

== when "Continue if"
text: it fits now
{SUMMARY}""")
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "work")) == "it fits now"
    assert sent(house) == ["What did we do so far?", "they talked of socks", CONTINUE]
    assert "[Tool result]: big" in house.requests("compaction")[0]["messages"][0]["content"]


async def test_a_window_that_stays_full_ends_in_an_error_and_not_in_a_circle(house: House) -> None:
    house.says(f'== when ""\nerror: overflow too long\n{SUMMARY}')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    assert await door.client.status() == {}
    assert len(house.requests()) <= 10
    assert [limit.cause for limit in door.of("session.limit")] == ["compaction"]


async def test_a_summary_that_does_not_fit_itself_is_an_error_and_the_session_works_on(house: House) -> None:
    house.says("""
== when "first"
error: overflow too long

== when "second"
text: fits

== compaction
error: overflow even this
""")
    door = await house.open()
    session = await door.session()
    answer = answer_of(await door.ask(session, "first"))
    assert isinstance(answer.error, ContextOverflowError)
    assert answer.summary
    assert "session.compacted" not in door.types()
    assert said(await door.ask(session, "second")) == "fits"


async def test_it_can_be_switched_off(house: House) -> None:
    house.says("== turn\ntext: one\nusage: input=9500 output=10\n\n== turn\ntext: two\n")
    house.settings(provider=SMALL, compaction={"auto": False})
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    await door.ask(session, "second")
    assert house.requests("compaction") == []


async def test_an_unknown_window_is_the_configured_one(house: House) -> None:
    house.says(f"== turn\ntext: one\nusage: input=9500 output=10\n\n== turn\ntext: two\n{SUMMARY}")
    limit = {"context": 0, "output": 0}
    house.settings(provider={"scripted": {"models": {"x": {"limit": limit}}}}, context_window_tokens=10_000)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    await door.ask(session, "second")
    assert len(house.requests("compaction")) == 1


@pytest.mark.parametrize(
    ("limit", "tokens"),
    [
        (ModelLimit(context=200_000, output=64_000), 168_000),
        (ModelLimit(context=200_000, output=8_000), 192_000),
        (ModelLimit(context=200_000, input=150_000, output=64_000), 130_000),
        (ModelLimit(context=200_000, input=150_000, output=4_000), 146_000),
        (ModelLimit(context=10_000, output=32_000), 5_000),
        (ModelLimit(), 65_536 - 8_192),
    ],
)
def test_the_room_for_a_conversation_is_the_window_less_the_answer(limit: ModelLimit, tokens: int) -> None:
    model = Model("p", "m", "m", "openai", "", None, {}, limit, ModelCost())
    assert usable(model, 65_536) == tokens


def hooked(**changes: Any) -> dict[str, Any]:
    async def compacting(given: points.CompactingInput, output: points.CompactingOutput) -> None:
        output.context.append("Mind the budget.")
        output.prompt = changes.get("prompt")

    return {"session.compacting": compacting}


async def test_a_hook_adds_to_the_summarys_prompt_or_replaces_it(house: House) -> None:
    house.says(f'== when ""\ntext: ok\n{SUMMARY}')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    door.plugin(hooked())
    await door.client.summarize(session)
    added = house.requests("compaction")[0]["messages"][0]["content"]
    assert added.startswith("Here is the conversation so far:\n\n<conversation>\n")
    assert added.endswith("Mind the budget.")
    door.plugin(hooked(prompt="Write a haiku."))
    await door.ask(session, "second")
    await door.client.summarize(session)
    replaced = house.requests("compaction")[1]["messages"][0]["content"]
    assert replaced.startswith("Write a haiku.\n\nThe following is the conversation history:\n\n")
    assert "[Assistant]: they talked of socks" in replaced
    assert "[User]: first" not in replaced


async def test_an_aborted_summary_leaves_the_history_as_it_was(house: House) -> None:
    house.says('== when ""\ntext: ok\n\n== compaction\ntext: half\ndelay: 60s\ntext: more\n')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    summing = asyncio.create_task(door.client.summarize(session))
    await door.until(lambda event: event.type == "message.part.delta" and event.properties.delta == "half")  # type: ignore[attr-defined]
    assert await door.client.abort(session)
    await summing
    assert isinstance(answer_of((await door.stored(session))[-1]).error, MessageAbortedError)
    await door.ask(session, "second")
    assert "first" in sent(house)


async def test_a_prompt_that_comes_while_a_summary_is_made_is_answered(house: House) -> None:
    house.says('== when ""\ntext: re: {{user}}\n\n== compaction\ntext: half\ndelay: 50ms\ntext: more\n')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    summing = asyncio.create_task(door.client.summarize(session))
    await door.until(lambda event: event.type == "message.part.delta" and event.properties.delta == "half")  # type: ignore[attr-defined]
    assert said(await door.ask(session, "second")) == "re: second"
    await summing
    assert sent(house) == ["What did we do so far?", "halfmore", "second"]


async def test_the_calls_of_a_summary_are_booked_under_their_own_cause(house: House) -> None:
    house.says(f'== when ""\ntext: ok\n{SUMMARY}')
    door: Door = await house.open()
    session = await door.session()
    await door.ask(session, "first")
    await door.client.summarize(session)
    booked = await door.runtime.instance.store.usage(session)
    assert [usage.cause for usage in booked] == ["turn", "compaction"]
