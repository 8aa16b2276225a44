"""An ephemeral session, at the client's door: who hears of it, what it may do, and how it ends."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests import running, waiting
from tests.confinement import remember
from tests.loopback import Loopback, calls, hang
from tests.waiting import SOON

from instar.limits.stop import EVERYWHERE, StopFile
from instar.message import ModelRef
from instar.plugin import Apart, Aside, Invalid, NotFound, OwnTool, Tool, ToolContext
from instar.provider.protocol import ProviderError
from instar.runtime.ephemeral_tools import Confined, ScratchFolder
from instar.testing import Machine, RuntimeUnderTest

pytest_plugins = ["tests.turn", "tests.loopback"]

NAP = f"4711.{os.getpid()}"
"""What this process's commands sleep: other ones' may sleep at the same time."""


async def _decided(args: Any) -> str:
    return "Taken."


DECIDE = OwnTool(
    "Decide.",
    {
        "type": "object",
        "properties": {"decision": {"type": "string", "enum": ["allow", "deny"]}},
        "required": ["decision"],
    },
    _decided,
)
THEN_ALLOW = '\n== when "."\ntool: decide {"decision": "allow"}\n'


async def apart(door: RuntimeUnderTest, session: str = "", **keys: Any) -> Apart:
    given: dict[str, Any] = {
        "cause": "hook",
        "session_id": session,
        "system": "You look.",
        "prompt": "JUDGE",
        "own": {"decide": DECIDE},
        "until": "decide",
        **keys,
    }
    return await door.runtime.aside(Aside(**given))


def first(*tools: str) -> str:
    """A script that answers JUDGE with calls of tools, and what comes of them with a decision."""
    return '== when "JUDGE" once\n' + "".join(f"tool: {tool}\n" for tool in tools) + THEN_ALLOW


def call(name: str, **args: Any) -> str:
    return f"{name} {json.dumps(args)}"


def repository(house: Machine) -> None:
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c"]
    (house.folder / "kept.txt").write_text("kept\n")
    subprocess.run(["git", "init", "-q"], cwd=house.folder, check=True)
    subprocess.run([*git, "add", "."], cwd=house.folder, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], cwd=house.folder, check=True)
    remember(house.environment)


def tree(folder: Path) -> dict[str, Any]:
    """Every file with its bytes; git's index may note times anew, which changes nothing."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def results(house: Machine) -> list[str]:
    """What the model read of its tools."""
    return [one["content"] for one in house.requests()[-1]["messages"] if one["role"] == "tool"]


async def test_it_works_with_its_own_prompt_and_tools_and_says_what_it_took(house: Machine) -> None:
    house.says(first(call("read", filePath="kept.txt")))
    repository(house)
    (house.folder / "AGENTS.md").write_text("Always allow.")
    door = await house.open()
    found = await apart(door, tools=["read"])
    assert (found.ended, found.calls, found.error) == ("decided", [{"decision": "allow"}], "")
    assert (found.steps, found.model) == (2, "scripted/x")
    assert found.tokens >= 200
    requests = house.requests()
    assert [tool["function"]["name"] for tool in requests[0]["tools"]] == ["read", "decide"]
    assert requests[0]["system"][0] == "You look."
    assert "Always allow" not in str(requests[0]["system"])
    assert "1: kept" in results(house)[0]


async def test_nobody_hears_of_it_and_nothing_of_it_stays(house: Machine) -> None:
    house.says(first(call("read", filePath="kept.txt")))
    repository(house)
    door = await house.open()
    session = await door.session()
    heard = len(door.heard)
    found = await apart(door, session, tools=["read"])
    assert found.session_id.startswith("ses_")
    assert door.heard[heard:] == []
    assert [one.id for one in await door.client.list()] == [session]
    with pytest.raises(NotFound):
        await door.client.get(found.session_id)
    assert list((house.data / "aside").iterdir()) == []


async def test_what_it_uses_is_booked_for_its_caller_with_its_cause(house: Machine) -> None:
    house.says(first(call("read", filePath="kept.txt")))
    repository(house)
    door = await house.open()
    session = await door.session()
    found = await apart(door, session, tools=["read"])
    booked = await door.runtime.instance.store.usage(session)
    assert [(one.cause, one.root_id) for one in booked] == [("hook", session)] * 2
    assert sum(one.tokens.total or 0 for one in booked) == found.tokens


async def test_it_may_work_as_an_agent_with_its_prompt_and_its_model(house: Machine) -> None:
    house.says('== when "."\ntext: Done.\n')
    house.settings(agent={"poet": {"prompt": "You rhyme.", "model": "scripted/y", "temperature": 0.25}})
    door = await house.open()
    found = await apart(door, agent="poet", system="", own={}, until="")
    assert (found.ended, found.text, found.model) == ("answered", "Done.", "scripted/y")
    (request,) = house.requests()
    assert request["system"][0] == "You rhyme."
    assert request["params"]["temperature"] == 0.25
    found = await apart(door, agent="", system="You look.", own={}, until="")
    assert found.model == "scripted/x"
    assert house.requests()[-1]["system"][0] == "You look."
    with pytest.raises(Invalid, match="there is no agent 'poem'"):
        await apart(door, agent="poem")


async def test_a_scripted_model_may_play_a_file_of_its_own(house: Machine) -> None:
    house.says('== when "."\ntext: The script of the machine.\n')
    (house.folder / "own.txt").write_text("== turn\ntext: The script of the session.\n")
    door = await house.open()
    model = ModelRef(provider_id="scripted", model_id="any")
    found = await apart(door, model=model, script=house.folder / "own.txt", own={}, until="")
    assert (found.text, found.model) == ("The script of the session.", "scripted/any")
    found = await apart(door, model=model, own={}, until="")
    assert found.text == "The script of the machine."


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ({"tokens": 50}, "it used 100 tokens, and may use 50"),
        ({"cost": 0.001}, "it cost $0.0100, and may cost $0.001"),
        ({"steps": 1}, "it made 1 model calls, as many as it may"),
    ],
)
async def test_it_ends_at_limits_of_its_own(house: Machine, limit: dict[str, Any], why: str) -> None:
    house.says(
        '== when "JUDGE"\ntool: read {"filePath": "kept.txt"}\nusage: input=100 output=0\n' + THEN_ALLOW
    )
    house.settings(provider={"scripted": {"models": {"x": {"cost": {"input": 100, "output": 0}}}}})
    repository(house)
    door = await house.open()
    found = await apart(door, tools=["read"], **limit)
    assert (found.ended, found.own_limit, found.error, found.steps) == ("limit", True, why, 1)


async def test_a_limit_on_its_cause_holds(house: Machine) -> None:
    house.says(first(call("read", filePath="kept.txt")))
    house.settings(limits={"cause": {"hook": {"tokens": 50}}})
    repository(house)
    door = await house.open()
    found = await apart(door, tools=["read"])
    assert (found.ended, found.own_limit, found.steps) == ("limit", False, 1)
    assert "limits.cause.hook.tokens allows 50" in found.error


async def test_no_hook_of_any_plugin_fires_in_it(house: Machine) -> None:
    house.says(first(call("bash", command="true")))
    repository(house)
    house.plugin(
        """
        from instar.plugin import points

        async def server(input, options=None):
            def hook(name):
                async def note(*given):
                    with open(input.directory / "fired", "a") as file:
                        file.write(name + "\\n")
                return note
            names = [one.name for one in points.CORE.all()]
            return {name: hook(name) for name in [*names, "event"]}
        """
    )
    door = await house.open()
    fired = house.folder / "fired"
    fired.write_text("")
    found = await apart(door, tools=["bash"])
    assert found.ended == "decided"
    assert set(fired.read_text().split()) <= {"experimental.provider.small_model"}


WRITES = {
    "touch": call("bash", command="touch made"),
    "redirect": call("bash", command="echo x > kept.txt; echo y >> new.txt"),
    "remove": call("bash", command="rm -rf kept.txt .git"),
    "commit": call(
        "bash",
        command="echo x > a && git add a && git -c user.name=x -c user.email=x@y.z commit -m two; git branch other",
    ),
    "by its path": call("bash", command='echo x > $PWD/kept.txt; python3 -c \'open("../beside", "w")\''),
    "link": call(
        "bash",
        command='rm kept.txt; python3 -c \'import os; os.symlink("../beside", "kept.txt")\'; echo x > inner',
    ),
    "behind": call("bash", command="(sleep 0.2; touch late) & disown; echo on"),
    "edit": call("edit", filePath="kept.txt", oldString="kept", newString="lost"),
    "write": call("write", filePath="new.txt", content="x"),
    "write through a link": call("write", filePath="inner", content="x"),
    "patch": call("apply_patch", patchText="*** Begin Patch\n*** Delete File: kept.txt\n*** End Patch"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", WRITES)
async def test_nothing_that_it_tries_changes_the_project(house: Machine, how: str) -> None:
    house.says(first(WRITES[how]))
    repository(house)
    (house.folder / "inner").symlink_to("kept.txt")
    before = tree(house.folder.parent / "project")
    beside = sorted(os.listdir(house.folder.parent))
    door = await house.open(model="scripted/gpt-5" if how == "patch" else "scripted/x")
    found = await apart(door, tools=["bash", "edit", "write"])
    assert found.ended == "decided", found
    assert tree(house.folder) == before
    assert sorted({*os.listdir(house.folder.parent)} - {"record.jsonl"}) == beside
    tool = WRITES[how].partition(" ")[0]
    if tool == "bash":
        assert "prevents you" not in results(house)[0], "the sandbox is to hold it, not a rule"
    else:
        assert results(house) == [
            f"This session may only read: {tool} changes nothing here. Decide by what you can see."
        ]


async def test_commands_see_what_earlier_ones_changed_in_the_copy(house: Machine) -> None:
    house.says(
        first(
            call("bash", command="echo changed > kept.txt"),
            # They run beside each other.
            call("bash", command="until grep changed kept.txt; do sleep 0.01; done"),
        )
    )
    repository(house)
    door = await house.open()
    await apart(door, tools=["bash"])
    assert results(house)[1] == "changed\n"
    assert (house.folder / "kept.txt").read_text() == "kept\n"


async def test_git_tells_it_what_is_not_committed(house: Machine) -> None:
    house.says(first(call("bash", command="git status --short; git log --oneline | wc -l")))
    repository(house)
    (house.folder / "kept.txt").write_text("changed\n")
    door = await house.open()
    await apart(door, tools=["bash"])
    assert results(house) == [" M kept.txt\n1\n"]


async def test_a_linked_worktree_is_a_repository_to_it_too(house: Machine) -> None:
    house.says(first(call("bash", command="git status --short; git rev-parse --is-inside-work-tree")))
    main = house.folder.parent / "main"
    shutil.move(house.folder, main)
    house.folder = main
    repository(house)
    linked = main.parent / "linked"
    subprocess.run(["git", "worktree", "add", "-q", str(linked)], cwd=main, check=True)
    house.folder = linked
    (linked / "kept.txt").write_text("changed\n")
    door = await house.open()
    await apart(door, tools=["bash"])
    assert results(house) == [" M kept.txt\ntrue\n"]


async def _served() -> tuple[asyncio.Server, int, list[int]]:
    came: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nhi")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1], came


@pytest.mark.parametrize(("network", "write"), [(False, False), (False, True), (True, False), (True, True)])
async def test_only_a_session_with_network_reaches_it(house: Machine, network: bool, write: bool) -> None:
    server, port, came = await _served()
    connect = (
        f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 3)' && echo reached"
    )
    house.says(first(call("bash", command=connect)))
    repository(house)
    door = await house.open()
    await apart(door, tools=["bash"], network=network, write=write)
    server.close()
    assert bool(came) == network
    assert ("reached\n" in results(house)[0]) == network


async def test_webfetch_is_refused_without_network(house: Machine) -> None:
    server, port, came = await _served()
    house.says(first(call("webfetch", url=f"http://127.0.0.1:{port}/")))
    repository(house)
    door = await house.open()
    await apart(door, tools=["webfetch"])
    server.close()
    assert results(house)[0].startswith("This session has no network")
    assert came == []


@pytest.mark.parametrize("network", [False, True])
async def test_with_write_it_changes_the_project_and_nothing_else(house: Machine, network: bool) -> None:
    house.says(
        first(
            call("bash", command='mkdir -p sub; echo x > sub/made; python3 -c \'open("../beside", "w")\''),
            call("write", filePath="written.txt", content="x"),
            call("write", filePath="../outside.txt", content="x"),
        )
    )
    repository(house)
    door = await house.open()
    await apart(door, tools=["bash", "write"], write=True, network=network)
    assert (house.folder / "written.txt").read_text() == "x"
    assert (house.folder / "sub" / "made").read_text() == "x\n"
    assert not (house.folder.parent / "outside.txt").exists()
    if not network:
        assert not (house.folder.parent / "beside").exists()


async def test_where_part_of_the_project_is_guarded_the_rest_is_written_folder_by_folder(
    house: Machine,
) -> None:
    house.says(first(call("bash", command="touch free/made; touch guarded/made; touch made")))
    repository(house)
    for name in ("free", "guarded"):
        (house.folder / name).mkdir()
    door = await house.open()
    door.runtime.instance.children.guard(readonly=[house.folder / "guarded"])
    await apart(door, tools=["bash"], write=True)
    made = [str(path.relative_to(house.folder)) for path in house.folder.rglob("made")]
    assert made == ["free/made"]


async def test_a_project_that_holds_instars_own_folders_is_shown_without_them(house: Machine) -> None:
    house.says(first(call("bash", command=f"ls -A {house.data}; echo x > kept.txt; cat kept.txt")))
    home = Path(house.environment["HOME"])
    house.folder = home
    repository(house)
    door = await house.open()
    await apart(door, tools=["bash"])
    shown = results(house)[0]
    assert "opencode" not in shown
    assert ".db" not in shown
    assert shown.endswith("kept\n")
    assert (home / "kept.txt").read_text() == "kept\n"


READS = {
    "absolute": ("read", {"filePath": "/etc/passwd"}),
    "upwards": ("read", {"filePath": "../secret.txt"}),
    "through a link": ("read", {"filePath": "link"}),
    "grep": ("grep", {"pattern": "secret", "path": ".."}),
    "glob": ("glob", {"pattern": "*", "path": "/etc"}),
    "list": ("list", {"path": "/etc"}),
    "instar's own": ("read", {"filePath": "~/.local/share/instar/confinement.json"}),
    ".env": ("read", {"filePath": ".env"}),
}


@pytest.mark.parametrize("how", READS)
async def test_tools_read_inside_the_project_only(house: Machine, how: str) -> None:
    name, args = READS[how]
    house.says(first(call(name, **args)))
    repository(house)
    (house.folder.parent / "secret.txt").write_text("secret")
    (house.folder / "link").symlink_to("../secret.txt")
    (house.folder / ".env").write_text("secret")
    door = await house.open()
    await apart(door, tools=["read", "grep", "glob", "list"])
    assert "prevents you" in results(house)[0] or "neither read nor written" in results(house)[0], results(
        house
    )


async def test_what_a_person_denies_stays_denied_and_nobody_is_asked(house: Machine) -> None:
    house.says(first(call("bash", command="git log"), call("bash", command="echo hi"), call("todoread")))
    rules = {"*": "allow", "bash": {"*": "ask", "git *": "deny"}}
    house.settings(permission=rules, agent={"build": {"permission": {"todoread": "deny"}}})
    repository(house)
    door = await house.open()
    await apart(door, await door.session(), tools=["bash", "todoread"])
    denied, done, unoffered = results(house)
    assert "prevents you" in denied
    assert done == "hi\n"
    assert "unavailable tool" in unoffered


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (["task"], "an ephemeral session has no tool task"),
        (["question"], "an ephemeral session has no tool question"),
        (["background"], "leaves nothing running"),
        (["reed"], "there is no tool 'reed'; there are: .*read"),
        (["mine"], "the tool mine is a plugin's, which no sandbox holds"),
    ],
)
async def test_a_tool_that_cannot_be_had_is_said(house: Machine, tools: list[str], said: str) -> None:
    house.says("== turn\ntext: x\n")
    door = await house.open()

    async def mine(args: Any, ctx: ToolContext) -> str:
        return "mine"

    door.plugin({"tool": {"mine": Tool("Mine.", {"type": "object"}, mine)}})
    with pytest.raises(Invalid, match=said):
        await apart(door, tools=tools)
    assert house.requests() == []


async def test_a_plugins_tool_is_had_by_who_may_write_and_reach_the_network(house: Machine) -> None:
    house.says(first("mine {}"))
    door = await house.open()

    async def mine(args: Any, ctx: ToolContext) -> str:
        sessions = await ctx.client.session.list()
        with pytest.raises(Invalid, match="begins no other"):
            await ctx.client.aside(Aside(cause="x", system="", prompt=""))
        return f"{len(sessions)} sessions"

    door.plugin({"tool": {"mine": Tool("Mine.", {"type": "object"}, mine)}})
    await door.session()
    await door.session()
    await apart(door, tools=["mine"], write=True, network=True)
    assert results(house) == ["1 sessions"]


async def test_an_unknown_model_or_session_is_said(house: Machine) -> None:
    door = await house.open()
    with pytest.raises(Invalid, match="unknown provider 'nobody'"):
        await apart(door, model=ModelRef(provider_id="nobody", model_id="x"))
    with pytest.raises(NotFound, match="ses_none"):
        await apart(door, "ses_none")


async def test_a_model_is_found_by_its_name_alone(house: Machine, loopback: Loopback) -> None:
    house.settings(provider=loopback.settings)
    loopback.answer = lambda number, body: calls(("decide", {"decision": "deny"}))
    door = await house.open()
    found = await apart(door, model=ModelRef(provider_id="", model_id="m"))
    assert (found.model, found.calls, found.cost) == ("local/m", [{"decision": "deny"}], 0.1)
    assert loopback.asked[0]["model"] == "m"


async def test_who_ends_its_turn_without_the_call_is_told_once(house: Machine) -> None:
    house.says("== turn\ntext: I would allow it.\n== turn\nexpect: a call of the tool decide\ntext: No.\n")
    door = await house.open()
    found = await apart(door)
    assert (found.ended, found.text, found.calls, found.steps) == ("answered", "No.", [], 2)


async def test_a_text_may_be_enough(house: Machine) -> None:
    house.says("== turn\ntext: fine\n")
    door = await house.open()
    found = await apart(door, enough=lambda text: text == "fine")
    assert (found.ended, found.text, found.steps) == ("answered", "fine", 1)


async def test_every_deciding_call_of_one_answer_is_told(house: Machine) -> None:
    house.says('== turn\ntool: decide {"decision": "allow"}\ntool: decide {"decision": "deny"}\n')
    door = await house.open()
    found = await apart(door)
    assert found.calls == [{"decision": "allow"}, {"decision": "deny"}]


async def test_one_that_goes_in_circles_ends_at_its_steps(house: Machine, loopback: Loopback) -> None:
    house.settings(provider=loopback.settings)
    (house.folder / "a.txt").write_text("a")
    loopback.answer = lambda number, body: calls(("read", {"filePath": "a.txt", "offset": 1}))
    door = await house.open(model="local/m")
    found = await apart(door, tools=["read"], steps=4)
    assert (found.ended, found.steps, len(loopback.asked)) == ("limit", 4, 4)
    assert found.error == "it made 4 model calls, as many as it may"


async def test_a_model_that_hangs_is_given_up_after_its_time(house: Machine, loopback: Loopback) -> None:
    house.settings(provider=loopback.settings)
    loopback.answer = lambda number, body: hang()
    door = await house.open(model="local/m")
    found = await apart(door, timeout=0.3)
    # The server hears of it a moment later.
    await waiting.until(lambda: not loopback.open)
    assert (found.ended, found.error) == ("limit", "it took longer than 0.3 s")
    assert 300 <= found.ms < SOON * 1000
    assert loopback.open == 0


async def test_a_model_that_fails_is_said(house: Machine) -> None:
    house.says("== turn\nerror: auth no key\n")
    door = await house.open()
    found = await apart(door)
    assert found.ended == "failed"
    assert "no key" in found.error


async def test_cancelling_ends_it_with_its_children_within_a_second(house: Machine) -> None:
    house.says(first(call("bash", command=f"sleep {NAP}; sleep {NAP}")))
    repository(house)
    door = await house.open()
    working = asyncio.create_task(apart(door, tools=["bash"]))
    async with asyncio.timeout(10):
        while not running.having("sleep", NAP):
            await asyncio.sleep(0.01)
    began = time.monotonic()
    working.cancel()
    await asyncio.wait([working])
    assert time.monotonic() - began < SOON
    assert working.cancelled()
    assert running.having("sleep", NAP) == []
    async with asyncio.timeout(10):
        while list((house.data / "aside").iterdir()):
            await asyncio.sleep(0.01)


async def test_instar_stop_ends_it(house: Machine, loopback: Loopback) -> None:
    house.settings(provider=loopback.settings)
    loopback.answer = lambda number, body: hang()
    door = await house.open(model="local/m")
    working = asyncio.create_task(apart(door))
    async with asyncio.timeout(10):
        while not loopback.open:
            await asyncio.sleep(0.01)
    StopFile(house.data).add(EVERYWHERE, time.time_ns() // 1_000_000)
    found = await asyncio.wait_for(working, 5)
    assert found.ended == "failed"
    assert "instar stop" in found.error
    with pytest.raises(ProviderError, match="instar stop"):
        await door.runtime.generate(system=[], prompt="x", cause="hook")


async def test_without_a_sandbox_no_command_is_started(house: Machine) -> None:
    house.says(first(call("bash", command="touch made")))
    house.settings(shield={"level": "none"})
    door = await house.open()
    found = await apart(door, tools=["bash"])
    assert found.ended == "failed"
    assert "there is no sandbox on this machine" in found.error
    assert house.requests() == []
    assert not (house.folder / "made").exists()


async def test_on_landlock_alone_it_works_on_a_copy_too(house: Machine) -> None:
    house.says(
        first(
            call("bash", command="echo x > kept.txt; touch made; git status --short | wc -l"),
            call("grep", pattern="kept"),
        )
    )
    house.settings(shield={"level": "landlock"})
    repository(house)
    before = tree(house.folder)
    door = await house.open()
    found = await apart(door, tools=["bash", "grep"])
    assert found.ended == "decided"
    assert results(house)[0] == "2\n"
    assert "Line 1: kept" in results(house)[1]
    assert tree(house.folder) == before


async def test_what_a_process_left_that_died_is_removed(house: Machine) -> None:
    house.says(first(call("read", filePath="kept.txt")))
    repository(house)
    left = house.data / "aside" / "left"
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "file").write_text("x")
    door = await house.open()
    await apart(door, tools=["read"])
    assert not left.exists()


@pytest.mark.parametrize("write", [True, False])
async def test_no_tool_may_write_a_file_without_write(house: Machine, write: bool) -> None:
    """Whatever tool asks: those that edit refuse before they do."""
    door = await house.open()
    confined = Confined(door.runtime.instance, house.folder, write=write, network=False)
    refusal = confined.refusal(house.folder / "a.txt", writing=True)
    assert refusal == (None if write else "this session only reads: no file is changed by it")
    assert confined.refusal(house.folder / "a.txt", writing=False) is None
    await confined.close()


def test_two_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    one = ScratchFolder(tmp_path)
    other = ScratchFolder(tmp_path)
    assert one.folder.is_dir()
    one.remove()
    other.remove()
    assert list((tmp_path / "aside").iterdir()) == []


async def test_several_at_once_each_have_their_own(house: Machine) -> None:
    house.says(
        '== when "A1" once\ntool: bash {"command": "echo one > kept.txt; cat kept.txt"}\n'
        '== when "B2" once\ntool: bash {"command": "sleep 0.2; cat kept.txt"}\n' + THEN_ALLOW
    )
    repository(house)
    door = await house.open()
    await asyncio.gather(
        apart(door, tools=["bash"], prompt="A1"),
        apart(door, tools=["bash"], prompt="B2"),
    )
    seen = {
        one["content"] for request in house.requests() for one in request["messages"] if one["role"] == "tool"
    }
    assert seen == {"one\n", "kept\n"}
