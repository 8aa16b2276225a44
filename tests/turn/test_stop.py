"""What `instar stop` ends in an instar that runs, what waits afterwards, and what goes on."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.running import having
from tests.waiting import SOON, quickest, until

from instar.limits.stop import EVERYWHERE, StopFile
from instar.message import Origin, ToolError
from instar.plugin import Invalid, PromptBody, SessionBody, points
from instar.provider.protocol import ProviderError
from instar.testing import Machine, RuntimeUnderTest, answer_of, calls_of, results, said, users

pytest_plugins = ["tests.turn"]

NAP = f"62.{os.getpid()}"
"""What this process's commands sleep: other ones' may sleep at the same time."""
LONG = f"""
    == when "wait"
    tool: bash {{"command": "sleep {NAP}"}}

    == when ""
    text: {{{{user}}}}
"""
BEAT = Origin("heartbeat", "12")


def stop(house: Machine, scope: str = EVERYWHERE) -> StopFile:
    stops = StopFile(house.data)
    stops.add(scope, time.time_ns() // 1_000_000)
    return stops


async def opened(house: Machine, script: str = LONG) -> tuple[RuntimeUnderTest, str]:
    house.says(script)
    door = await house.open()
    return door, await door.session()


def follow_up(text: str) -> PromptBody:
    return PromptBody.text(text)


async def test_a_turn_and_the_group_of_its_command_end_within_a_second(house: Machine) -> None:
    door, session = await opened(house)

    async def stopped() -> float:
        before = len(door.of("session.limit"))
        await door.start(session, "wait")
        await until(lambda: bool(having("sleep", NAP)))
        began = time.monotonic()
        stop(house)
        await door.idle(session)
        took = time.monotonic() - began
        assert having("sleep", NAP) == []
        answer = (await door.stored(session))[-1]
        assert "instar stop ended everything" in str(answer_of(answer).error)
        (told,) = door.of("session.limit")[before:]
        assert (told.limit, told.cause) == ("stop", "person")
        assert told.message.endswith("Send another message to go on.")
        return took

    assert await quickest(stopped, 1.0) < 1.0


async def test_a_persons_next_prompt_works(house: Machine) -> None:
    door, session = await opened(house)
    await door.start(session, "wait")
    await door.running()
    stop(house)
    await door.idle(session)
    assert said(await door.ask(session, "hello")) == "hello"
    assert said(await door.ask(await door.session(), "hi")) == "hi"


async def test_a_prompt_that_overtakes_the_end_of_the_stopped_turn_is_answered_by_a_new_one(
    house: Machine,
) -> None:
    door, session = await opened(house)
    await door.start(session, "wait")
    await door.running()
    stop(house)
    assert said(await door.ask(session, "hello")) == "hello"
    assert having("sleep", NAP) == []


async def test_what_is_queued_waits_until_a_person_prompts_the_session(house: Machine) -> None:
    door, session = await opened(house)
    await door.start(session, "wait")
    await door.running()
    await door.client.follow_up(session, follow_up("go on"), "evolve.idle")
    stop(house)
    await door.idle(session)
    await door.client.follow_up(session, follow_up("and on"), "evolve.idle")
    waiting = await door.runtime.instance.store.follow_ups(session)
    assert [one.source for one in waiting] == ["evolve.idle"] * 2
    assert users(await door.stored(session)) == ["wait"]
    await door.ask(session, "hello")
    assert users(await door.stored(session)) == ["wait", "hello", "go on", "and on"]


async def test_what_is_automatic_begins_no_turn_until_a_person_resumes_it(house: Machine) -> None:
    door, session = await opened(house)
    stops = stop(house)
    with pytest.raises(Invalid, match="waits until a person prompts it: instar stop ended everything"):
        await door.client.prompt(session, follow_up("beat"), BEAT)
    note = PromptBody(parts=[{"type": "text", "text": "seen"}], no_reply=True)
    await door.client.prompt(session, note, BEAT)
    assert users(await door.stored(session)) == ["seen"], "what asks no model may be noted"
    with pytest.raises(ProviderError, match="instar stop"):
        await door.runtime.generate(system=[], prompt="x", cause="hook")
    stops.resume(str(house.folder))
    answer = await door.client.prompt(session, follow_up("beat"), BEAT)
    assert said(answer) == "beat"


async def test_a_persons_prompt_lets_go_on_its_own_session_and_new_ones_only(house: Machine) -> None:
    door, other = await opened(house)
    mine = await door.session()
    stop(house)
    await door.ask(mine, "hello")
    made = await door.session()
    for session in (mine, made):
        assert said(await door.client.prompt(session, follow_up("beat"), BEAT)) == "beat"
    with pytest.raises(Invalid):
        await door.client.prompt(other, follow_up("beat"), BEAT)


async def test_a_plugins_prompt_is_no_persons(house: Machine) -> None:
    house.plugin("""
        from pathlib import Path
        from instar.plugin import Invalid, PromptBody
        async def server(input, options):
            async def event(event):
                if event.type != "todo.updated":
                    return
                try:
                    await input.client.session.prompt(event.properties.session_id, PromptBody.text("mine"))
                except Invalid as error:
                    (input.directory / "refused").write_text(str(error))
            return {"event": event}
    """)
    door, session = await opened(house)
    stop(house)
    await door.client.put_todos(session, [])
    await until(lambda: (house.folder / "refused").exists())
    assert users(await door.stored(session)) == []


async def test_a_sub_agent_ends_with_its_caller(house: Machine) -> None:
    task = '{"description": "d", "prompt": "wait", "subagent_type": "general"}'
    door, session = await opened(house, f'\n    == when "^go"\n    tool: task {task}\n{LONG}')
    await door.start(session, "go")
    await door.running("bash")
    (child,) = await door.client.children(session)
    stop(house)
    await door.idle(session)
    await door.idle(child.id)
    assert having("sleep", NAP) == []
    assert len(house.requests()) == 2


async def test_a_background_command_ends_though_no_turn_runs(house: Machine) -> None:
    call = f'tool: background {{"action": "start", "command": "sleep {NAP}"}}'
    door, session = await opened(house, f"\n    == turn\n    {call}\n\n    == turn\n    text: ok\n")
    await door.ask(session, "go")
    await until(lambda: bool(having("sleep", NAP)))
    stop(house)
    await until(lambda: not having("sleep", NAP))


async def test_calls_that_have_not_begun_do_not_begin_and_the_model_is_not_asked_again(
    house: Machine,
) -> None:
    calls = "\n".join(
        f'    tool: bash {{"command": "touch {name}"}}' for name in ("first", "second", "third")
    )
    door, session = await opened(house, f"\n    == turn\n{calls}\n\n    == turn\n    text: more\n")

    async def before(given: points.ToolCallInput, output: Any) -> None:
        stop(house)

    door.plugin({"tool.execute.before": before})
    await door.start(session, "go")
    await door.idle(session)
    assert [name for name in ("first", "second", "third") if (house.folder / name).exists()] == []
    assert len(house.requests()) == 1
    found = calls_of((await door.stored(session))[-1])
    assert [isinstance(call.state, ToolError) for call in found] == [True] * 3


async def test_an_attempt_that_is_tried_again_is_not_made(house: Machine) -> None:
    door, session = await opened(house, "\n    == turn\n    error: 503 busy retry-after=60\n    text: x\n")
    await door.start(session, "go")
    await door.until(
        lambda event: (
            event.type == "session.status" and event.to_plain()["properties"]["status"]["type"] == "retry"
        )
    )
    stop(house)
    await door.idle(session)
    assert len(house.requests()) == 1


@pytest.mark.parametrize("when", ["step.before", "chat.message"])
async def test_a_stop_in_the_moment_in_which_a_turn_begins_ends_it_before_the_model_is_asked(
    house: Machine, when: str
) -> None:
    door, session = await opened(house)

    async def begins(given: Any, output: Any) -> None:
        stop(house)

    door.plugin({when: begins})
    await door.start(session, "hello")
    await door.idle(session)
    assert house.requests() == []
    assert [told.limit for told in door.of("session.limit")][:1] == ["stop"]


async def test_another_projects_stop_ends_nothing_here(house: Machine, tmp_path: Path) -> None:
    door, session = await opened(house)
    stop(house, str(tmp_path / "elsewhere"))
    assert said(await door.client.prompt(session, follow_up("beat"), BEAT)) == "beat"
    stop(house, str(house.folder))
    with pytest.raises(Invalid):
        await door.client.prompt(session, follow_up("beat"), BEAT)


async def test_an_unreadable_list_of_stops_ends_what_runs_and_refuses_a_persons_prompt(
    house: Machine,
) -> None:
    door, session = await opened(house)
    await door.start(session, "wait")
    await door.running()
    stop(house).path.write_text("what?")
    await door.idle(session)
    with pytest.raises(Invalid, match="run instar stop, which writes it anew"):
        await door.client.prompt(session, follow_up("hello"))
    stop(house)
    assert said(await door.ask(session, "hello")) == "hello"


@pytest.mark.slow
async def test_the_model_can_neither_stop_nor_undo_a_stop(house: Machine) -> None:
    house.settings(permission={"external_directory": "allow"})
    stops = stop(house)
    before = stops.path.read_bytes()
    commands = (
        f"rm -rf {stops.path.parent}; ls {stops.path}",
        f"{sys.executable} -m instar stop --all",
        f"env -u INSTAR_RUN {sys.executable} -m instar stop --all",
    )
    script = "".join(f'\n    == turn\n    tool: bash {{"command": "{one}"}}\n' for one in commands)
    door, session = await opened(house, f"{script}\n    == turn\n    text: done\n")
    assert said(await door.ask(session, "go")) == "done"
    assert stops.path.read_bytes() == before
    listed, refused, _ = results(await door.stored(session))
    assert "No such file" in listed or "denied" in listed
    assert "only a person stops or resumes" in refused


async def test_a_plugin_is_told_when_what_is_automatic_was_stopped(house: Machine) -> None:
    house.plugin("""
        async def server(input, options):
            async def answer(given, output):
                output.system.append(f"halted={input.halted()}")
            return {"experimental.chat.system.transform": answer}
    """)
    door, session = await opened(house)
    await door.ask(session, "one")
    stops = stop(house)
    await door.ask(session, "two")
    stops.resume(EVERYWHERE)
    await door.ask(session, "three")
    told = [line.rpartition("halted=")[2] for line in ("\n".join(one["system"]) for one in house.requests())]
    assert (told[0], told[2]) == ("0", "0")
    assert abs(int(told[1]) - time.time() * 1000) < 60_000


async def test_a_session_without_a_title_is_given_none_after_a_stop(house: Machine) -> None:
    door, _ = await opened(house)
    session = (await door.client.create(SessionBody())).id

    async def begins(given: Any, output: Any) -> None:
        stop(house)

    door.plugin({"chat.message": begins})
    await door.start(session, "hello")
    await door.idle(session)
    assert house.requests("title") == []


async def test_a_single_call_without_a_session_is_ended_too(house: Machine) -> None:
    house.says("\n    == generate\n    delay: 60s\n    text: late\n")
    door = await house.open()
    calling = asyncio.create_task(door.runtime.generate(system=[], prompt="x", cause="hook"))
    await until(lambda: bool(house.requests("generate")))
    began = time.monotonic()
    stop(house)
    with pytest.raises(ProviderError, match="instar stop ended the call"):
        await calling
    assert time.monotonic() - began < SOON
