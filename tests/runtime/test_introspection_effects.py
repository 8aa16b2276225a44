"""What an agent sets of itself holds from the next step of the running turn on, in its own session only."""

import asyncio
import json
from typing import Any

import pytest
from tests.loopback import Loopback, calls, status, text

from instar.message import ModelRef
from instar.testing import Machine, RuntimeUnderTest, answer_of, calls_of, results

pytest_plugins = ["tests.turn", "tests.loopback"]


def looks(**args: Any) -> str:
    """A turn of the script in which the model calls the tool."""
    return f"== turn\ntool: self {json.dumps(args)}\n\n"


def sets(key: str, value: Any) -> str:
    return looks(action="modify", key=key, value=value)


GO_ON = "== turn\ntool: self {}\n\n".format('{"action": "list_snapshots"}')


async def opened(house: Machine, script: str, **settings: Any) -> RuntimeUnderTest:
    house.says(script)
    house.settings(**{"tools": {"self_evolution": True}, **settings})
    return await house.open()


async def asked(door: RuntimeUnderTest, **fields: Any) -> tuple[str, list[str]]:
    """Prompt a new session; its id, and what its calls answered."""
    session = await door.session()
    await door.start(session, "go", **fields)
    await door.idle(session)
    return session, results(await door.stored(session))


@pytest.mark.parametrize(("most", "requests"), [(1, 1), (2, 2), (4, 4), (5, 5), (80, 6)])
async def test_the_iterations_that_are_set_hold_in_the_turn_that_runs(
    house: Machine, most: int, requests: int
) -> None:
    door = await opened(
        house, sets("max_iterations", most) + GO_ON * 4 + "== turn\ntext: done\n", max_iterations=3
    )
    _, (said, *_) = await asked(door)
    assert said == f"Set max_iterations = {most} (was 3)"
    assert len(house.requests()) == requests


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"limits": {"steps": 5}}, "limits.steps allows 5"),
        ({"agent": {"build": {"steps": 5}}}, "the agent's own steps allow 5"),
    ],
)
async def test_no_more_iterations_than_a_limit_or_the_agent_allows(
    house: Machine, settings: dict[str, Any], said: str
) -> None:
    script = sets("max_iterations", 80) + looks(action="inspect", key="max_iterations") + GO_ON * 9
    door = await opened(house, script, **settings)
    _, (refused, shown, *_) = await asked(door)
    assert refused.startswith("Error: 'max_iterations' cannot be set: ")
    assert said in refused
    assert shown == "max_iterations: 5"
    assert len(house.requests()) == 5


@pytest.mark.parametrize(("set_", "compactions"), [(None, 0), (32_000, 0), (8_192, 1), (4_096, 1)])
async def test_the_window_that_is_set_moves_the_point_at_which_a_conversation_is_summarised(
    house: Machine, set_: int | None, compactions: int
) -> None:
    first = GO_ON if set_ is None else sets("context_window_tokens", set_)
    script = first.rstrip() + "\nusage: input=6000 output=10\n\n== turn\ntext: done\n"
    door = await opened(house, script)
    await asked(door)
    assert len(house.requests("compaction")) == compactions


async def test_a_window_is_never_larger_than_the_models_own(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: (
        calls(("self", {"action": "modify", "key": "context_window_tokens", "value": 131_072}))
        if number == 1
        else text("done")
    )
    door = await opened(house, "", provider=loopback.settings)
    _, (said,) = await asked(door, model=_ref("m"))
    assert said == "Error: 'context_window_tokens' cannot be set: local/m has a window of 32000 tokens"


def _ref(name: str) -> ModelRef:
    return ModelRef(provider_id="local", model_id=name)


def two_models(loopback: Loopback) -> dict[str, Any]:
    settings = loopback.settings
    models = settings["local"]["models"]
    return {"local": {**settings["local"], "models": {**models, "n": models["m"], "o": models["m"]}}}


async def test_the_model_that_is_set_is_called_from_the_next_step_on(
    house: Machine, loopback: Loopback
) -> None:
    said = {
        1: calls(("self", {"action": "modify", "key": "model", "value": "local/n"})),
        2: calls(("self", {"action": "inspect", "key": "model"})),
        3: calls(("self", {"action": "reset", "key": "model"})),
    }
    loopback.answer = lambda number, body: said.get(number, text("done"))
    door = await opened(house, "", provider=two_models(loopback))
    session, answers = await asked(door, model=_ref("m"))
    assert answers == [
        "Set model = 'local/n' (was 'local/m')",
        "model: 'local/n'",
        "Reset model = 'local/m' (was 'local/n')",
    ]
    assert [body["model"] for body in loopback.asked] == ["m", "n", "n", "m"]
    names = [answer_of(m).model_id for m in await door.stored(session) if m.info.role == "assistant"]
    assert names == ["m", "n", "n", "m"]


async def test_the_model_holds_for_later_messages_until_one_asks_for_another(
    house: Machine, loopback: Loopback
) -> None:
    chosen = calls(("self", {"action": "modify", "key": "model", "value": "local/n"}))
    loopback.answer = lambda number, body: chosen if number == 1 else text("done")
    door = await opened(house, "", provider=two_models(loopback))
    session, _ = await asked(door, model=_ref("m"))
    await door.ask(session, "more")
    await door.ask(session, "still", model=_ref("m"))
    await door.ask(session, "that one", model=_ref("o"))
    await door.ask(session, "and back", model=_ref("m"))
    assert [body["model"] for body in loopback.asked] == ["m", "n", "n", "n", "o", "m"]


async def test_a_model_that_cannot_be_called_costs_one_turn_and_no_more(
    house: Machine, loopback: Loopback
) -> None:
    chosen = calls(("self", {"action": "modify", "key": "model", "value": "local/n"}))
    loopback.answer = lambda number, body: (
        chosen if number == 1 else status(404) if body["model"] == "n" else text("done")
    )
    door = await opened(house, "", provider=two_models(loopback))
    session, _ = await asked(door, model=_ref("m"))
    assert answer_of((await door.stored(session))[-1]).error is not None
    answer = answer_of(await door.ask(session, "again"))
    assert answer.error is None
    assert [body["model"] for body in loopback.asked] == ["m", "n", "m"]


async def test_a_model_without_a_key_is_refused(house: Machine, loopback: Loopback) -> None:
    wrong = calls(("self", {"action": "modify", "key": "model", "value": "anthropic/claude-sonnet-4-5"}))
    loopback.answer = lambda number, body: wrong if number == 1 else text("done")
    door = await opened(house, "", provider=loopback.settings)
    _, (said,) = await asked(door, model=_ref("m"))
    assert said == "Error: 'model' cannot be set: anthropic cannot be called here: it has no key"


async def test_a_strangers_provider_is_not_the_agents_to_choose(house: Machine, loopback: Loopback) -> None:
    """A repository that nobody trusts brings a provider; what it makes the model say must not send it all there."""
    house.environment.pop("INSTAR_TRUST")
    wrong = calls(("self", {"action": "modify", "key": "model", "value": "evil/m"}))
    loopback.answer = lambda number, body: wrong if number == 1 else text("done")
    stranger = {
        "evil": {
            **loopback.settings["local"],
            "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "theirs"},
        }
    }
    (house.folder / "opencode.json").write_text(json.dumps({"provider": stranger}), "utf-8")
    door = await opened(house, "", provider=loopback.settings)
    assert "evil" in door.runtime.instance.config.foreign
    _, (said,) = await asked(door, model=_ref("m"))
    assert said.startswith(
        "Error: 'model' cannot be set: evil is a provider of a project that is not trusted"
    )
    assert len(loopback.asked) == 2


@pytest.mark.parametrize("name", ["local/nn", "nowhere/n", "x"])
async def test_a_model_that_is_not_known_is_refused_with_the_nearest(
    house: Machine, loopback: Loopback, name: str
) -> None:
    wrong = calls(("self", {"action": "modify", "key": "model", "value": name}))
    loopback.answer = lambda number, body: wrong if number == 1 else text("done")
    door = await opened(house, "", provider=two_models(loopback))
    _, (said,) = await asked(door, model=_ref("m"))
    assert said.startswith("Error: 'model' cannot be set: ")
    assert [body["model"] for body in loopback.asked] == ["m", "m"]
    if name == "local/nn":
        assert "local/n" in said.partition("local/nn")[2]


@pytest.mark.parametrize(("mode", "requests"), [("standard", 7), ("persistent", 11)])
@pytest.mark.parametrize("by", ["the tool", "the settings"])
async def test_a_provider_that_fails_is_tried_again_as_the_mode_says(
    house: Machine, loopback: Loopback, mode: str, requests: int, by: str
) -> None:
    """One request that sets the mode; then nine that fail, and one that does not."""
    key = "provider_retry_mode" if by == "the tool" else "mine"
    first = calls(("self", {"action": "modify", "key": key, "value": mode}))
    failing = range(2, 11)
    loopback.answer = lambda number, body: (
        first if number == 1 else status(503, retry_after="0") if number in failing else text("done")
    )
    settings = {} if by == "the tool" else {"provider_retry_mode": mode}
    door = await opened(house, "", provider=loopback.settings, **settings)
    session, _ = await asked(door, model=_ref("m"))
    assert len(loopback.asked) == requests
    last = answer_of((await door.stored(session))[-1])
    assert (last.error is None) is (mode == "persistent")


async def test_trying_for_ever_ends_with_the_turn(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: status(503, retry_after="0")
    door = await opened(house, "", provider=loopback.settings, provider_retry_mode="persistent")
    session = await door.session()
    await door.start(session, "go", model=_ref("m"))
    await door.until(lambda event: len(loopback.asked) > 20)
    await door.client.abort(session)
    assert answer_of((await door.stored(session))[-1]).error is not None
    made = len(loopback.asked)
    assert made < 1000
    await door.idle(session)
    assert len(loopback.asked) == made


@pytest.mark.parametrize(("key", "tool"), [("web_config.enable", "webfetch"), ("exec_config.enable", "bash")])
async def test_a_guard_is_tightened_and_never_loosened(house: Machine, key: str, tool: str) -> None:
    door = await opened(
        house,
        looks(action="inspect", key=key)
        + sets(key, False)
        + f"== turn\ntool: {tool} {{}}\n\n"
        + sets(key, True)
        + looks(action="reset", key=key)
        + looks(action="inspect", key=key)
        + "== turn\ntext: done\n",
    )
    _, (on, off, unknown, again, reset, still) = await asked(door)
    assert on == f"{key}: True"
    assert off == f"Set {key} = False (was True)"
    assert f"unavailable tool '{tool}'" in unknown
    only = f"Error: '{key}' guards this runtime and may only be tightened (it is False)"
    assert (again, reset, still) == (only, only, f"{key}: False")
    offered = [tool in [one["function"]["name"] for one in sent["tools"]] for sent in house.requests()]
    assert offered == [True, True, False, False, False, False, False]
    other = await door.session()
    await door.ask(other, "go")
    assert tool in [one["function"]["name"] for one in house.requests()[7]["tools"]]


async def test_what_a_session_may_use_is_lowered_and_never_raised(house: Machine) -> None:
    key = "limits.session.tokens"
    script = sets(key, 5000) + sets(key, 400) + sets(key, 500) + sets("limits.day", {}) + GO_ON * 5
    door = await opened(house, script, limits={"session": {"tokens": 1000}})
    _, said = await asked(door)
    assert said[0] == f"Error: '{key}' guards this runtime and may only be tightened (it is 1000)"
    assert said[1] == f"Set {key} = 400 (was 1000)"
    assert said[2] == f"Error: '{key}' guards this runtime and may only be tightened (it is 400)"
    assert len(said) <= 4  # a hundred tokens in each call, and some more
    (reached,) = door.of("session.limit")
    assert reached.limit == "limits.session.tokens"
    assert reached.message.endswith(f"this one set {key} for itself, and no setting raises that.")


TASK = {"description": "look", "prompt": "child work", "subagent_type": "general"}


async def test_a_sub_agent_gets_a_copy_on_the_wire_and_does_not_reach_its_caller(
    house: Machine, loopback: Loopback
) -> None:
    said = {
        1: calls(
            ("self", {"action": "modify", "key": "model", "value": "local/n"}),
            ("self", {"action": "modify", "key": "max_iterations", "value": 80}),
            ("self", {"action": "modify", "key": "web_config.enable", "value": False}),
        ),
        2: calls(("task", TASK)),
        3: calls(
            ("self", {"action": "inspect"}), ("self", {"action": "inspect", "key": "web_config.enable"})
        ),
        4: calls(
            ("self", {"action": "modify", "key": "model", "value": "local/o"}),
            ("self", {"action": "modify", "key": "max_iterations", "value": 7}),
        ),
        6: calls(("self", {"action": "inspect"})),
    }
    loopback.answer = lambda number, body: said.get(number, text("done"))
    door = await opened(house, "", provider=two_models(loopback))
    session, answers = await asked(door, model=_ref("m"))
    (child,) = await door.client.children(session)
    shown, web, *set_ = results(await door.stored(child.id))
    assert shown == "max_iterations: 80\ncontext_window_tokens: 32000\nmodel: 'local/n'"
    assert set_ == ["Set model = 'local/o' (was 'local/n')", "Set max_iterations = 7 (was 80)"]
    assert web == "web_config.enable: False"
    assert answers[-1] == shown
    assert [body["model"] for body in loopback.asked] == ["m", "n", "n", "n", "o", "n", "n"]
    offered = ["webfetch" in [one["function"]["name"] for one in body["tools"]] for body in loopback.asked]
    assert offered == [True, *[False] * 6]


async def test_sub_agents_are_seen_and_ended_by_their_caller_alone(house: Machine) -> None:
    # The caller's step asks for two tasks and looks at them from a third call, once both run.
    task = [json.dumps({**TASK, "prompt": f"child {n}"}) for n in (1, 2)]
    door = await opened(
        house,
        f"== turn\ntool: task {task[0]}\ntool: task {task[1]}\n\n== turn\ntext: done\n\n"
        '== when "child"\ntool: bash {"command": "sleep 60", "description": "wait"}\n',
    )
    session, other = await door.session(), await door.session()
    await door.start(session, "go")
    await door.until(lambda event: _children_run(door, session) == 2)
    views = door.runtime.registry.views["subagents"].children
    running = await views["_running_tasks"].read(session)  # type: ignore[union-attr]
    assert [one["title"] for one in running.values()] == ["look (@general subagent)"] * 2
    assert await views["get_running_count"].run(session, {}) == 2  # type: ignore[union-attr]
    assert await views["get_running_count"].run(other, {}) == 0  # type: ignore[union-attr]
    cancel = views["cancel_by_session"].run  # type: ignore[union-attr]
    assert await cancel(other, {"session_key": session}) == 0
    first = next(iter(running))
    assert await cancel(first, {"session_key": session}) == 0
    assert await cancel(session, {"session_key": "nobody"}) == 0
    assert await cancel(session, {"session_key": first}) == 1
    assert await cancel(session, {"session_key": session}) == 1
    await door.idle(session)
    parts = [part for message in await door.stored(session) for part in calls_of(message)]
    assert ["Ended by its caller" in str(part.state) for part in parts] == [True] * 2


def _children_run(door: RuntimeUnderTest, session: str) -> int:
    shells = [
        one.properties.part.session_id  # type: ignore[attr-defined]
        for one in door.heard
        if one.type == "message.part.updated"
        and getattr(one.properties.part, "tool", "") == "bash"  # type: ignore[attr-defined]
        and one.properties.part.state.status == "running"  # type: ignore[attr-defined]
    ]
    return len(set(shells))


async def test_what_was_set_is_gone_when_the_session_is_put_away(house: Machine) -> None:
    door = await opened(house, sets("max_iterations", 80) + "== turn\ntext: done\n" * 3)
    session, _ = await asked(door)
    assert (await door.live(session)).overrides.iterations == 80
    await door.client.update(session, archived=1)
    assert (await door.live(session)).overrides.iterations is None


@pytest.mark.slow
async def test_a_snapshot_brings_back_a_window_with_the_model_that_has_it(
    house: Machine, loopback: Loopback
) -> None:
    large = {"limit": {"context": 200_000, "output": 1000}}
    settings = loopback.settings
    settings["local"]["models"]["n"] = large
    asks = [
        {"action": "modify", "key": "model", "value": "local/n"},
        {"action": "modify", "key": "context_window_tokens", "value": 131_072},
        {"action": "snapshot", "name": "large"},
        {"action": "reset", "key": "model"},
        {"action": "inspect", "key": "context_window_tokens"},
        {"action": "restore", "name": "large"},
        {"action": "inspect"},
    ]
    loopback.answer = lambda number, body: (
        calls(("self", asks[number - 1])) if number <= len(asks) else text("done")
    )
    door = await opened(house, "", provider=settings)
    _, said = await asked(door, model=_ref("m"))
    assert said[4] == "context_window_tokens: 32000"
    assert said[5:] == [
        "Restored snapshot 'large'",
        "max_iterations: 40\ncontext_window_tokens: 131072\nmodel: 'local/n'",
    ]
    assert [body["model"] for body in loopback.asked][-2:] == ["n", "n"]


async def test_a_default_out_of_range_is_brought_into_it_and_said_once(
    house: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    door = await opened(
        house, GO_ON * 3 + looks(action="inspect") + "== turn\ntext: done\n", max_iterations=200
    )
    _, (*_, shown) = await asked(door)
    assert shown.startswith("max_iterations: 100\n")
    (told,) = door.of("self.modified")
    assert (told.path, told.old, told.new) == ("max_iterations", 200, 100)
    assert len([line for line in caplog.messages if line.startswith("watchdog")]) == 1


@pytest.mark.slow
async def test_without_the_switch_the_settings_hold_as_they_are(house: Machine) -> None:
    house.says(GO_ON * 105 + "== turn\ntext: done\n")
    house.settings(max_iterations=103)
    door = await house.open()
    await asked(door)
    assert len(house.requests()) == 103


async def test_two_sessions_that_set_the_same_at_once_each_have_their_own(
    house: Machine, loopback: Loopback
) -> None:
    def answer(number: int, body: dict[str, Any]) -> Any:
        wanted = "local/n" if "first" in json.dumps(body["messages"]) else "local/o"
        if len([one for one in body["messages"] if one["role"] == "assistant"]) < 1:
            return calls(("self", {"action": "modify", "key": "model", "value": wanted}))
        return text("done")

    loopback.answer = answer
    door = await opened(house, "", provider=two_models(loopback))
    first, second = await door.session(), await door.session()
    await asyncio.gather(
        door.ask(first, "first", model=_ref("m")), door.ask(second, "second", model=_ref("m"))
    )
    called = {
        session: [answer_of(m).model_id for m in await door.stored(session) if m.info.role == "assistant"]
        for session in (first, second)
    }
    assert called == {first: ["m", "n"], second: ["m", "o"]}
