"""Requests begin with the bytes of the one before, over both wires; what breaks them is noticed and has a name."""

import asyncio
import base64
import json
import struct
import subprocess
import sys
import timeit
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import acting, caching
from instar.message import ModelRef
from instar.plugin import PromptBody
from instar.provider import prompt_cache
from instar.provider.convert import CLEARED
from instar.provider.prompt_cache import Break
from instar.provider.protocol import piece
from instar.store import PutValue
from instar.testing import Machine, RuntimeUnderTest, results, said

pytest_plugins = ["tests.turn"]

WIRES = list(acting.MODELS.values())
DOT = base64.b64encode(struct.pack(">8sI4s", b"\x89PNG\r\n\x1a\n", 13, b"IHDR")).decode()
"""The beginning of a picture: nobody decodes it."""


@pytest.fixture
def log(house: Machine) -> Iterator[Path]:
    """The house knows the acting model, over both wires, and records its requests."""
    with acting.running() as url:
        house.settings(provider=acting.provider(url))
        file = house.folder.parent / "requests.jsonl"
        house.environment["INSTAR_LOG_REQUESTS"] = str(file)
        yield file


def report(log: Path) -> caching.Report:
    return caching.replay(caching.read(log))


async def broken(door: RuntimeUnderTest) -> list[Break]:
    return await prompt_cache.breaks(door.runtime.instance.store)


def words(breaks: list[Break]) -> list[tuple[str, str, str]]:
    return [(one.block, one.cause, one.plugin) for one in breaks]


async def talk(door: RuntimeUnderTest, session: str, *texts: str) -> None:
    for text in texts:
        await door.ask(session, text)


@pytest.mark.slow
@pytest.mark.parametrize("ref", WIRES)
async def test_a_long_session_of_all_kinds_of_turns_is_served_from_the_cache(
    house: Machine, log: Path, ref: str
) -> None:
    """Fifty turns: tools, parallel calls, a failed call, an abort, a message in between, a sub-agent, restarts."""
    door = await house.open(model=ref)
    session = await door.session()
    for number in range(1, 51):
        await one_turn(door, session, number)
        if number in (17, 33):
            await door.runtime.close()
            door = await house.open(model=ref)
    found = report(log)
    assert found.breaks == []
    assert found.requests > 80
    assert found.share >= 0.99
    assert await broken(door) == []


async def one_turn(door: RuntimeUnderTest, session: str, number: int) -> None:
    if number == 7:
        await aborted(door, session)
    elif number == 11:
        await meanwhile(door, session)
    elif number == 13:
        prompt = json.dumps(
            {"description": "look", "prompt": 'call bash {"command": "echo sub"}', "subagent_type": "general"}
        )
        await door.ask(session, f"call task {prompt}")
    elif number == 23:
        picture = {
            "type": "file",
            "mime": "image/png",
            "filename": "dot.png",
            "url": f"data:image/png;base64,{DOT}",
        }
        body = PromptBody(parts=[{"type": "text", "text": "what is this?"}, picture])
        await door.client.prompt(session, body)
    elif number % 10 == 0:
        await door.ask(session, f'turn {number}\nfail 529\ncall bash {{"command": "echo {number}"}}')
    elif number % 3 == 0:
        one, two = (f'call bash {{"command": "seq {number} {number * many}"}}' for many in (2, 40))
        await door.ask(session, f"turn {number}\n{one} && {two}")
    elif number % 7 == 0:
        todo = json.dumps(
            {"todos": [{"content": f"é {number}", "status": "pending", "priority": "high", "id": "1"}]}
        )
        await door.ask(
            session,
            f'turn {number}\ncall todowrite {todo}\ncall bash {{"command": "exit 3", "timeout": 1e4}}',
        )
    else:
        await door.ask(session, f"turn {number} " + "word " * 50)


async def aborted(door: RuntimeUnderTest, session: str) -> None:
    door.heard.clear()
    await door.start(session, "hang")
    await door.until(lambda event: event.type == "message.part.delta")
    await door.client.abort(session)
    await door.idle(session)


async def meanwhile(door: RuntimeUnderTest, session: str) -> None:
    wait = "until [ -e go ]; do sleep 0.01; done; echo slow"
    await door.start(session, "turn 11\ncall bash " + json.dumps({"command": wait}))
    await door.running()
    await door.start(session, "and this too")
    (Path(door.runtime.instance.directory) / "go").touch()
    await door.idle(session)


async def test_a_message_that_comes_while_a_step_is_put_together_waits_for_the_next_one(
    house: Machine, log: Path
) -> None:
    door = await house.open(model=WIRES[0])
    session = await door.session()
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(given: Any, output: Any) -> None:
        begun.set()
        await go.wait()

    door.plugin({"step.before": wait})
    await door.start(session, "one")
    await begun.wait()
    await door.start(session, "two")
    go.set()
    await door.idle(session)
    await talk(door, session, "three")
    assert report(log).breaks == []
    assert "came while you were working" not in said((await door.stored(session))[-1])


def adds(text: str) -> Any:
    async def system(given: Any, output: Any) -> None:
        output.system.append(text)

    return system


async def test_a_plugin_that_changes_the_system_prompt_is_named_once_for_each_change(
    house: Machine, log: Path
) -> None:
    door = await house.open(model=WIRES[0])
    session, said = await door.session(), ["one"]

    async def system(given: Any, output: Any) -> None:
        output.system.append(said[-1])

    door.plugin({"experimental.chat.system.transform": adds("constant")}, "steady")
    door.plugin({"experimental.chat.system.transform": system}, "clock")
    await talk(door, session, "a", "b")
    said.append("two")
    await talk(door, session, "c", "d")
    assert words(await broken(door)) == [("system", "plugin", "clock")]
    assert [(one.number, one.place) for one in report(log).breaks] == [(3, "message 1")]


async def test_a_plugin_that_rewrites_earlier_messages_is_named_at_each_step_and_the_others_are_not(
    house: Machine, log: Path
) -> None:
    door = await house.open(model=WIRES[1])
    session, steps = await door.session(), []

    async def wrap(given: Any, output: Any) -> None:
        output.messages[0].parts[0].text += " (kept)"

    async def count(given: Any, output: Any) -> None:
        steps.append(1)
        output.messages[-1].parts[0].text += f" ({len(steps)} so far)"

    door.plugin({"experimental.chat.messages.transform": wrap}, "steady")
    door.plugin({"experimental.chat.messages.transform": count}, "counter")
    await talk(door, session, "a", "b", "c")
    found = await broken(door)
    assert words(found) == [("messages", "plugin", "counter")] * 2
    assert [one.place.split()[1:] for one in found] == [["(message", "1)"], ["(message", "3)"]]
    assert all(one.lost > 0 for one in found)
    assert len(report(log).breaks) == 2


async def test_a_plugin_that_rewrites_messages_is_named_after_a_restart_too(
    house: Machine, log: Path
) -> None:
    house.plugin(
        """
        import os

        async def plugin(given, options=None):
            async def mark(input, output):
                output.messages[0].parts[0].text += str(os.urandom(4))
            return {"experimental.chat.messages.transform": mark}
        """,
        "dice",
    )
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, "a")
    await door.runtime.close()
    door = await house.open(model=WIRES[0])
    await talk(door, session, "b")
    (found,) = await broken(door)
    assert (found.block, found.cause, "dice" in found.plugin) == ("messages", "plugin", True)


async def test_a_plugin_whose_tool_or_definition_changes_is_named_with_the_tool(
    house: Machine, log: Path
) -> None:
    door = await house.open(model=WIRES[1])
    session, told = await door.session(), ["x"]

    async def define(given: Any, output: Any) -> None:
        if given.tool_id == "bash":
            output.description += told[-1]

    door.plugin({"tool.definition": define}, "definer")
    tools: dict[str, Any] = {}
    door.plugin({"tool": tools}, "toolbox")
    await talk(door, session, "a")
    told.append("y")
    await talk(door, session, "b")
    tools["mine"] = door.runtime.instance.tools["todoread"]
    await talk(door, session, "c", "d")
    del tools["mine"]
    await talk(door, session, "e")
    found = await broken(door)
    assert words(found) == [("tools", "plugin", "definer")] + [("tools", "plugin", "toolbox")] * 2
    assert [one.place for one in found] == ["bash", "mine", "mine"]
    assert len(report(log).breaks) == 3


@pytest.mark.slow
async def test_the_order_in_which_plugins_register_their_tools_changes_nothing(
    house: Machine, log: Path
) -> None:
    door = await house.open(model=WIRES[0])
    session = await door.session()
    made = door.runtime.instance.tools["todoread"]
    named = [("one", {"zeta": made, "alpha": made}), ("two", {"beta": made})]
    for name, tools in named:
        door.plugin({"tool": tools}, name)
    await talk(door, session, "a")
    await door.runtime.close()
    door = await house.open(model=WIRES[0])
    for name, tools in reversed(named):
        door.plugin({"tool": dict(reversed(tools.items()))}, name)
    await talk(door, session, "b")
    assert '"zeta"' in log.read_text()
    assert (report(log).breaks, await broken(door)) == ([], [])


async def test_parameters_that_the_cache_compares_are_watched_too(house: Machine, log: Path) -> None:
    door = await house.open(model=WIRES[1])
    session, budget = await door.session(), [2000]

    async def params(given: Any, output: Any) -> None:
        output.options["thinking"] = {"type": "enabled", "budgetTokens": budget[-1]}
        output.temperature = budget[-1] / 10_000

    door.plugin({"chat.params": params}, "thinker")
    await talk(door, session, "a", "b")
    budget.append(3000)
    await talk(door, session, "c")
    assert words(await broken(door)) == [("options", "plugin", "thinker")]
    assert [one.place for one in report(log).breaks] == ["options"]


async def test_what_was_asked_for_is_a_break_that_nobody_is_blamed_for(house: Machine, log: Path) -> None:
    house.settings(
        provider=acting.provider(house_url(house)),
        agent={"poet": {"prompt": "You rhyme."}},
    )
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, "a")
    await door.ask(session, "b", agent="poet")
    await door.ask(session, "c", agent="poet", system="In French.")
    claude = ModelRef(provider_id="claude", model_id="claude-sonnet-4-5")
    await door.ask(session, "d", agent="poet", model=claude)
    found = await broken(door)
    assert words(found) == [("system", "agent", ""), ("system", "prompt", ""), ("model", "model", "")]
    assert all(one.is_asked for one in found)


def house_url(house: Machine) -> str:
    settings = json.loads((house.home / "instar.json").read_text())
    return str(settings["provider"]["acts"]["options"]["baseURL"])


async def test_a_summary_is_one_break_of_its_own_kind(house: Machine, log: Path) -> None:
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, "a", "b " * 400, "c " * 400)
    await door.client.summarize(session)
    await door.idle(session)
    await talk(door, session, "d", "e")
    assert [one.cause for one in await broken(door)] == ["compaction"]


async def test_settings_that_changed_while_nobody_looked_are_one_break_after_the_restart(
    house: Machine, log: Path
) -> None:
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, "a")
    await door.runtime.close()
    url = house_url(house)
    house.settings(provider=acting.provider(url), permission={"webfetch": "deny"})
    door = await house.open(model=WIRES[0])
    await talk(door, session, "b", "c")
    (found,) = await broken(door)
    assert (found.block, found.cause, found.place) == ("tools", "settings", "webfetch")
    assert len(report(log).breaks) == 1


async def test_a_history_that_was_edited_while_nobody_looked_is_found_at_its_message(
    house: Machine, log: Path
) -> None:
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, "a", "b", "c")
    await door.runtime.close()
    door = await house.open(model=WIRES[0])
    _, _, second, answer, third, *_ = await door.stored(session)
    await door.client.remove(session, second.info.id)
    await door.client.remove(session, answer.info.id)
    await talk(door, session, "d")
    (found,) = await broken(door)
    assert (found.block, found.cause) == ("messages", "history")
    assert found.place == f"{third.info.id} (message 3)"


@pytest.mark.slow
async def test_the_day_may_change_in_the_middle_of_a_session(
    house: Machine, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, "a")
    monkeypatch.setattr("time.strftime", lambda form, *_: "Mon Jan 01 2035")
    await talk(door, session, "b")
    await door.runtime.close()
    door = await house.open(model=WIRES[0])
    await talk(door, session, "c")
    assert (await broken(door), report(log).breaks) == ([], [])
    assert "2035" not in log.read_text()


SCRIPT = """\
#!/usr/bin/env python3
import json, sys
sys.stdin.read()
tools = [{"name": name, "description": "says " + name, "parameters": {}} for name in NAMES]
answers = {
    "discover": {"name": "mine", "test": "mine_test.py", "tools": tools},
    "mutate_request": {"system": ["be brief"]},
}
print(json.dumps(answers.get(sys.argv[1], {"error": "unknown hook"})))
"""


def install(house: Machine, *names: str, script: str = SCRIPT) -> None:
    hooks = house.folder.parent / "ws" / "hooks"
    hooks.mkdir(parents=True, exist_ok=True)
    fresh = hooks / "mine.py.new"
    fresh.write_text(script.replace("NAMES", repr(list(names))))
    fresh.chmod(0o755)
    fresh.rename(hooks / "mine.py")
    if (house.data).exists():
        argv = [sys.executable, "-m", "instar", "evolve", "accept", "--yes"]
        subprocess.run(argv, env=house.environment, cwd=house.folder, check=True, capture_output=True)


@pytest.mark.slow
async def test_each_installed_change_of_an_evolve_workspace_is_one_break_and_nothing_else_is(
    house: Machine, log: Path
) -> None:
    house.environment["INSTAR_WORKSPACE"] = str(house.folder.parent / "ws")
    install(house, "alpha")
    door = await house.open(model=WIRES[1])
    session = await door.session()
    await talk(door, session, "a", 'b\ncall bash {"command": "true"}')
    install(house, "alpha", "beta")
    await talk(door, session, "c", 'd\ncall bash {"command": "echo"}')
    await door.runtime.close()
    door = await house.open(model=WIRES[1])
    await talk(door, session, "e")
    found = await broken(door)
    assert [(one.block, one.cause) for one in found] == [("tools", "plugin")]
    assert "evolve" in found[0].plugin
    assert "beta" in found[0].place
    assert len(report(log).breaks) == 1


LIVELY = """\
#!/usr/bin/env python3
import json, sys, time
given, now = json.loads(sys.stdin.read() or "{}"), time.time_ns()
tools = [{"name": name, "description": "says " + name, "parameters": {}} for name in NAMES]
answers = {
    "discover": {"name": "mine", "test": "mine_test.py", "tools": tools},
    "mutate_request": {"system": [f"It is {now}."]},
    "observe_message": {"notify": [{"type": "said", "at": now}]},
    "format_notification": {"message": f"[update] at {now}"},
    "execute_tool": {"result": f"done at {now}", "notify": [{"type": "done"}]},
    "idle": {"continue": f"and then, at {now}?"} if str(given.get("answer")).endswith("9") else {},
    "tool_before": {},
    "tool_after": {},
}
print(json.dumps(answers.get(sys.argv[1], {"error": "unknown hook"})))
"""
OWN = ("call mine_alpha {}", "call evolve_datetime {}", "call evolve_tool_list {} && call evolve_log {}")


@pytest.mark.slow
async def test_a_long_session_with_a_lively_evolve_workspace_is_served_from_the_cache(
    house: Machine, log: Path
) -> None:
    """Fifty turns; scripts say something else each time, notes come from another session, and instar starts again."""
    house.environment |= {"INSTAR_WORKSPACE": str(house.folder.parent / "ws"), "EVOLVE_HEARTBEAT_MS": "-1"}
    install(house, "alpha", script=LIVELY)
    door = await house.open(model=WIRES[1])
    session, other = await door.session(), await door.session()
    for number in range(1, 51):
        await one_turn(door, session, number)
        if number % 5 == 0:
            await talk(door, session, f"turn {number} again\n{OWN[number // 5 % 3]}")
            await talk(door, other, f"turn {number} here")
        if number in (17, 33):
            await door.runtime.close()
            door = await house.open(model=WIRES[1])
    found = report(log)
    assert found.breaks == []
    assert found.share >= 0.99
    assert await broken(door) == []
    texts = log.read_text()
    assert all(part in texts for part in ("[update] at ", "and then, at ", "done at ", "It is "))
    install(house, "alpha", "beta", script=LIVELY)
    await talk(door, session, "a", "b", "c")
    assert words(await broken(door)) == [("tools", "plugin", "evolve")]
    assert len(report(log).breaks) == 1


SHUFFLED = """\
import json, os, sys
starts = int(open("starts").read()) if os.path.exists("starts") else 0
open("starts", "w").write(str(starts + 1))
turn = (lambda items: items[::-1]) if starts % 2 else (lambda items: items)
def shuffled(value):
    return {key: shuffled(one) if isinstance(one, dict) else one for key, one in turn(list(value.items()))}
schema = {"type": "object", "properties": {"a": {"type": "string", "title": "A"}, "b": {"type": "integer"}}}
tools = [{"name": name, "description": name, "inputSchema": shuffled(schema)} for name in turn(["echo", "die"])]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "tools/call" and asked["params"]["name"] == "die":
        os._exit(3)
    result = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "n", "version": "1"},
        },
        "tools/list": {"tools": tools},
        "tools/call": {"content": [{"type": "text", "text": "said"}]},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.slow
async def test_an_mcp_server_that_dies_and_lists_its_tools_in_another_order_breaks_nothing(
    house: Machine, log: Path
) -> None:
    (house.folder / "shuffled.py").write_text(SHUFFLED)
    server = {"type": "local", "command": [sys.executable, "shuffled.py"], "cwd": str(house.folder)}
    house.settings(provider=acting.provider(house_url(house)), mcp={"n": server})
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, 'a\ncall n_echo {"a": "x"}', "b\ncall n_die {}", 'c\ncall n_echo {"b": 1}')
    await door.runtime.close()
    door = await house.open(model=WIRES[0])
    await talk(door, session, "d\ncall n_echo {}")
    assert int((house.folder / "starts").read_text()) >= 2
    assert '"n_echo"' in log.read_text()
    assert (report(log).breaks, await broken(door)) == ([], [])
    assert results(await door.stored(session)).count("said") >= 2


SLOW = """\
import json, os, sys, time
again = os.path.exists("again")
open("again", "a").close()
tool = {"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    while again and not os.path.exists("go"):
        time.sleep(0.01)
    result = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "n", "version": "1"},
        },
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "said"}]},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.slow
async def test_an_mcp_server_that_is_slow_to_start_again_breaks_nothing(
    house: Machine, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tools are offered as they were approved; a call of one waits for it."""
    (house.folder / "slow.py").write_text(SLOW)
    server = {"type": "local", "command": [sys.executable, "slow.py"], "cwd": str(house.folder)}
    house.settings(provider=acting.provider(house_url(house)), mcp={"n": server})
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, "a\ncall n_echo {}")
    await door.runtime.close()
    monkeypatch.setattr("instar.mcp.server.STEP_TIMEOUT", 0.2)
    door = await house.open(model=WIRES[0])
    await talk(door, session, "b")
    assert not (house.folder / "go").exists()
    await door.start(session, "c\ncall n_echo {}")
    await door.running("n_echo")
    (house.folder / "go").touch()
    await door.idle(session)
    await talk(door, session, "d")
    assert (report(log).breaks, await broken(door)) == ([], [])
    assert results(await door.stored(session)).count("said") == 2
    assert '"read_mcp_resource"' in log.read_text().splitlines()[-1]


async def test_a_fork_begins_with_the_bytes_of_the_session_that_it_comes_from(
    house: Machine, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await house.open(model=WIRES[1])
    session = await door.session()
    await talk(door, session, 'a\ncall bash {"command": "true"}')
    monkeypatch.setattr("time.strftime", lambda form, *_: "Mon Jan 01 2035")
    made = await door.client.fork(session)
    await talk(door, made.id, "b")
    before, now = list(caching.read(log))[-2:]
    assert before.session != now.session
    bodies = [caching.msgspec.json.decode(line.body, type=caching.Body) for line in (before, now)]
    assert caching.parted(before, bodies[0], now, bodies[1]) is None


async def test_data_that_one_prompt_asks_for_is_that_prompts_break(house: Machine, log: Path) -> None:
    door = await house.open(model=WIRES[0])
    session = await door.session()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    asked = 'b\ncall StructuredOutput {"n": 1}'
    await talk(door, session, "a")
    await door.ask(session, asked, format={"type": "json_schema", "schema": schema})
    await talk(door, session, "c")
    assert words(await broken(door)) == [("tools", "prompt", "")] * 2


@pytest.mark.parametrize("bad", [{"head": 1}, "word", [1]])
async def test_a_note_that_cannot_be_read_counts_as_none(house: Machine, log: Path, bad: Any) -> None:
    door = await house.open(model=WIRES[0])
    session = await door.session()
    await talk(door, session, "a")
    store = door.runtime.instance.store
    await store.commit([PutValue(prompt_cache.OWNER, f"prefix:{session}", bad)])
    await door.runtime.close()
    door = await house.open(model=WIRES[0])
    await talk(door, session, "b")
    assert await broken(door) == []


async def test_the_newest_thousand_breaks_are_kept(house: Machine) -> None:
    door = await house.open()
    store = door.runtime.instance.store
    head = prompt_cache.Head("m", "a", "", [], [], [], [])
    sent = prompt_cache.Prefix(head, 1, [], [])
    kept = [
        write
        for at in range(1005)
        for write in prompt_cache.writes("ses_1", sent, Break("ses_1", at, "tools", "plugin"))
        if isinstance(write, PutValue)
    ]
    await store.commit(kept)
    await store.commit(prompt_cache.writes("ses_2", sent, Break("ses_2", 2000, "tools", "plugin")))
    assert [one.created for one in await broken(door)] == [*range(6, 1005), 2000]


def test_comparing_two_thousand_messages_takes_less_than_a_millisecond() -> None:
    pieces = [piece(f"msg_{number}", str(number).encode()) for number in range(2000)]
    head = prompt_cache.Head("m", "a", "x", [], [], [], [])
    before = prompt_cache.Prefix(head, 1, list(pieces), [])
    note, now = before.note(), [*pieces, piece("msg_new", b"new")]
    for kept in (before, note):
        assert prompt_cache.parted(kept, now) is None
        assert (
            prompt_cache.parted(kept, [*pieces[:1500], piece("msg_1500", b"other"), *pieces[1501:]]) == 1500
        )
        assert prompt_cache.parted(kept, pieces[:10]) == 10
        took = min(timeit.repeat(lambda kept=kept: prompt_cache.parted(kept, now), number=1, repeat=20))  # type: ignore[misc]
        assert took < 0.001


STAGE = st.tuples(st.sampled_from(["", "p", "q"]), st.sampled_from("xy"))
STAGES = st.lists(STAGE, max_size=3, unique_by=lambda one: one[0])


@given(before=STAGES, now=STAGES)
def test_who_is_named_is_somebody_who_was_there(
    before: list[prompt_cache.Stage], now: list[prompt_cache.Stage]
) -> None:
    found = prompt_cache.parted_stage(before, now)
    assert found in {name for name, _ in [*before, *now]} | {""}
    if before == now:
        assert found == ""


@pytest.mark.slow
async def test_old_outputs_that_are_cleared_are_one_break_of_the_compaction(
    house: Machine, log: Path
) -> None:
    provider = acting.provider(house_url(house))
    provider["acts"]["models"]["gpt"]["limit"] = {"context": 60_000, "output": 1_000}
    house.settings(provider=provider, compaction={"prune": True, "reserved": 1_000})
    door = await house.open(model=WIRES[0])
    session = await door.session()
    for number in range(1, 16):
        await talk(door, session, f'{number}\ncall bash {{"command": "seq -f %0200g {number} 150"}}')
        if await broken(door):
            break
    await talk(door, session, "on")
    (found,) = await broken(door)
    assert (found.block, found.cause) == ("messages", "compaction")
    assert CLEARED in log.read_text().splitlines()[-1]
