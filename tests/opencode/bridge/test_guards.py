"""What the bridge bears: plugins that fail in each way, requests that are refused, and follow-ups without an end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.opencode.bridge.conftest import Player, PlayError
from tests.opencode.bridge.test_bridge import (
    INFO,
    RECORD,
    SESSION,
    USER,
    assistant,
    event,
    history,
    notes,
    plugin,
    text,
)
from tests.waiting import wait_until

Start = Callable[..., Player]

CALL = {"tool": "bash", "sessionID": SESSION, "callID": "c"}
BEFORE = "tool.execute.before"
GATE = """
async def before(given, output):
    %s
"""


def limit(work: str) -> int:
    """The seconds that a hook may take: few where it never ends."""
    return 1 if "wait()" in work else 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("raise Exception('not today')", "not today"),
        ("await asyncio.Event().wait()", "it did not return within 1 s and was ended"),
        ("import sys; sys.exit(3)", r"it called sys\.exit\(3\)"),
        ("os._exit(3)", "instar's bridge is gone: it ended with code 3"),
        ("output.args = 7", "what it left in `args` cannot be used"),
        ("output.args['when'] = asyncio", "what it left in `args` cannot be used"),
    ],
)
def test_a_gate_that_fails_refuses_the_call(player: Start, work: str, reason: str) -> None:
    one = player(plugin(GATE % work, f'{{"timeout": {limit(work)}, "tool.execute.before": before}}'))
    one.do("open")
    with pytest.raises(PlayError, match=reason):
        one.hook(BEFORE, CALL, {"args": {}})


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    [
        "raise Exception('no')",
        "await asyncio.Event().wait()",
        "import sys; sys.exit(3)",
        "os._exit(3)",
        "output.env = 7",
        "output.env = {'A': 1}",
        "output.env = {'A': asyncio}",
    ],
)
def test_another_hook_that_fails_changes_nothing_and_the_next_call_works(player: Start, work: str) -> None:
    one = player(
        plugin(
            f"async def env(given, output):\n    output.env['B'] = '2'\n    if given.cwd == '/bad':\n        {work}",
            f'{{"timeout": {limit(work)}, "shell.env": env}}',
        )
    )
    one.do("open")
    assert one.hook("shell.env", {"cwd": "/bad"}, {"env": {"A": "1"}}) == {"env": {"A": "1"}}
    assert one.hook("shell.env", {"cwd": "/"}, {"env": {"A": "1"}}) == {"env": {"A": "1", "B": "2"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise Exception('at load')", "at load"),
        ("async def two(input, options=None):\n    raise Exception('in its function')", "in its function"),
        ("import sys; sys.exit(3)", "it called sys.exit(3)"),
        ("import no_such_module_anywhere", "no_such_module_anywhere"),
        ("print('x'); x = ;", "invalid syntax"),
        ("async def two(input, options=None):\n    return {'timeout': -1}", "expected seconds above 0"),
    ],
)
def test_a_plugin_that_does_not_load_is_skipped_with_a_line_in_the_log_and_the_others_work(
    player: Start, tmp_path: Path, source: str, reason: str
) -> None:
    one = player(
        plugin("async def env(given, output):\n    output.env['A'] = '1'", '{"shell.env": env}'),
        files={".instar/plugins/two.py": source},
    )
    one.do("open")
    assert one.hook("shell.env", {"cwd": "/"}, {"env": {}}) == {"env": {"A": "1"}}
    log = tmp_path / "home" / ".local" / "state" / "instar" / "log" / "instar.log"
    assert reason in log.read_text()


TOOLS = plugin(
    RECORD
    + """
kept = []
async def throws(args, context):
    raise ValueError("no bread")
async def leaves(args, context):
    import sys
    sys.exit(3)
async def returns(args, context):
    return 7
async def reads(args, context):
    import subprocess
    done = subprocess.run(["cat"], capture_output=True, text=True)
    return f"[{done.stdout}] {done.returncode}"
async def keeps(args, context):
    async def later():
        while not (HERE / "over").exists():
            await asyncio.sleep(0.01)
        context.metadata(title="late")
        try:
            await context.ask(Ask("fly", ["x"]))
        except Exception as error:
            note(type(error).__name__, str(error))
    kept.append(asyncio.create_task(later()))
    return "kept"
async def stream(args, context):
    try:
        async for one in input.http().event.subscribe():
            return "heard"
    except Exception as error:
        return str(error)
async def lacks(args, context):
    said = []
    for work in (input.client.question.list(), input.client.session.create(session_id="ses_mine"),
                 input.client.generate(system=[], prompt="x", cause="y"), context.invoke("bash", {})):
        try:
            await work
            said.append("done")
        except Exception as error:
            said.append(str(error))
    return json.dumps(said)
free = {"permissions": lambda args, context: []}
schema = {"type": "object", "properties": {}}
tools = {one.__name__: Tool(one.__name__, schema, one, **free)
         for one in (throws, leaves, returns, reads, keeps, stream, lacks)}
""",
    '{"tool": tools}',
)


@pytest.mark.slow
def test_tools_that_fail_say_why_and_end_nothing(player: Start, tmp_path: Path) -> None:
    one = player(TOOLS)
    one.do("open", routes={f"GET /session/{SESSION}/message": [], "GET /event": "stream"})
    for name, reason in {
        "throws": "no bread",
        "leaves": r"it called sys\.exit\(3\)",
        "returns": "int",
    }.items():
        with pytest.raises(PlayError, match=reason):
            one.do("tool", name=name, args={})
    assert one.do("tool", name="reads", args={})["output"] == "[] 0"
    assert "opens no stream of events" in one.do("tool", name="stream", args={})["output"]
    assert one.do("tool", name="keeps", args={})["output"] == "kept"
    (tmp_path / "project" / ".instar" / "plugins" / "over").touch()
    wait_until(lambda: notes(tmp_path / "project") == [["PermissionDenied", "the call is over"]])
    assert one.do("seen")["asks"] == []
    assert (
        "opencode offers plugins no `client.question.list`" in one.do("tool", name="lacks", args={})["output"]
    )
    assert "opencode gives sessions their ids itself" in one.do("tool", name="lacks", args={})["output"]
    assert one.requests("POST") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chat.message", "command.execute.before"])
def test_prompts_and_commands_are_refused_too(player: Start, name: str) -> None:
    one = player(
        plugin("async def no(given, output):\n    raise Exception('not today')", f'{{"{name}": no}}')
    )
    one.do("open")
    given = {"sessionID": SESSION, "command": "c", "arguments": ""}
    with pytest.raises(PlayError, match="not today"):
        one.hook(name, given, {"message": USER, "parts": [text(0, "msg_1", "hi")]})


@pytest.mark.slow
def test_an_opencode_that_does_not_say_its_version_is_not_waited_for(player: Start) -> None:
    one = player(plugin("async def env(given, output):\n    pass", '{"shell.env": env}'))
    opened = one.do("open", routes={"GET /global/health": "never"}, patient={"version": 50})
    assert "shell.env" in opened["hooks"]


@pytest.mark.slow
def test_a_bridge_that_was_disposed_of_stays_closed_its_gates_too(player: Start, tmp_path: Path) -> None:
    one = player(
        plugin(
            RECORD + "async def gone():\n    note('gone')" + GATE % "pass",
            '{"tool.execute.before": before, "dispose": gone}',
        )
    )
    one.do("open")
    one.do("dispose")
    wait_until(lambda: notes(tmp_path / "project") == [["gone"]])

    def answer() -> str:
        try:
            one.hook(BEFORE, CALL, {"args": {}})
        except PlayError as error:
            return str(error)
        return "allowed"

    # Until its process has ended that is what is said.
    wait_until(lambda: "is gone" not in answer())
    assert answer() == "instar's bridge is closed"


@pytest.mark.slow
def test_where_opencode_ends_without_a_word_sessions_end_and_plugins_are_told(
    player: Start, tmp_path: Path
) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def started(given, output):
    note("started")
async def ended(given, output):
    note("ended", given.reason)
async def gone():
    note("gone")
""",
            '{"session.start": started, "session.end": ended, "dispose": gone}',
        )
    )
    one.do("open")
    one.hook("chat.message", {"sessionID": SESSION}, {"message": USER, "parts": [text(0, "msg_1", "hi")]})
    one.close()
    wait_until(lambda: notes(tmp_path / "project") == [["started"], ["ended", "closed"], ["gone"]])


@pytest.mark.slow
def test_tools_of_a_project_that_nobody_trusts_do_not_run(player: Start, tmp_path: Path) -> None:
    ran = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
    one = player(
        trusted=False,
        files={".instar/tools/mine.py": ran, "opencode.json": '{"plugin": ["./p.py"]}', "p.py": ran},
    )
    assert one.do("open") == {"hooks": [], "tools": {}}
    assert not list((tmp_path / "project").rglob("ran"))


@pytest.mark.slow
def test_a_name_that_is_no_python_plugin_is_left_to_opencode_and_said(player: Start, tmp_path: Path) -> None:
    one = player(
        plugin("async def env(given, output):\n    output.env['A'] = '1'", '{"shell.env": env}'),
        files={"instar.json": '{"plugin": ["no-such-plugin@1", "npm:other", "./x.js"]}'},
    )
    one.do("open")
    assert one.hook("shell.env", {"cwd": "/"}, {"env": {}}) == {"env": {"A": "1"}}
    log = (tmp_path / "home" / ".local" / "state" / "instar" / "log" / "instar.log").read_text()
    for name in ("no-such-plugin@1", "npm:other", "x.js"):
        assert f"{name} is no Python plugin that is here: it is left to opencode" in log


@pytest.mark.slow
def test_where_the_plugin_that_judges_the_others_does_not_load_no_tool_runs(player: Start) -> None:
    rules = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    one = player(
        plugin("import sys\nsys.modules['instar.plugins.hooks.server'] = None", "{}"),
        files={".instar/hooks.json": json.dumps(rules)},
    )
    assert one.do("open")["hooks"] == [BEFORE]
    with pytest.raises(PlayError, match=r"plugin hooks is skipped: .*instar opencode uninstall"):
        one.hook(BEFORE, CALL, {"args": {}})


def test_an_instar_that_cannot_be_started_lets_no_tool_run(player: Start) -> None:
    one = player()
    assert one.do("open", command=["/no/such/program"])["hooks"] == [BEFORE]
    with pytest.raises(PlayError, match=r"/no/such/program cannot be started: .*instar opencode uninstall"):
        one.hook(BEFORE, CALL, {"args": {}})


ENDS = plugin(
    RECORD
    + """
async def ended(given, output):
    note("ended", given.continued)
    output.follow_ups.append({"source": "one", "prompt": 7})
    output.follow_ups.append({"source": "one", "prompt": {"parts": [{"type": "text", "text": "go on"}]}})
""",
    '{"turn.end": ended}',
)


@pytest.mark.slow
def test_follow_ups_come_to_an_end_until_a_person_speaks_and_one_that_is_none_is_passed_over(
    player: Start, tmp_path: Path
) -> None:
    one = player(ENDS)
    routes = {f"GET /session/{SESSION}/message": history(2), f"POST /session/{SESSION}/prompt_async": None}
    one.do("open", routes=routes)

    def idle(times: int) -> None:
        before = len(notes(tmp_path / "project"))
        for _ in range(times):
            one.do("event", event=event("session.idle"))
        wait_until(lambda: len(notes(tmp_path / "project")) == before + times)

    idle(10)
    wait_until(lambda: len(one.requests("POST")) == 8)
    given = {"message": USER, "parts": [text(0, "msg_1", "go on")]}
    one.hook("chat.message", {"sessionID": SESSION}, given)
    idle(1)
    assert len(one.requests("POST")) == 8
    one.hook("chat.message", {"sessionID": SESSION}, {**given, "parts": [text(0, "msg_1", "and now?")]})
    idle(1)
    wait_until(lambda: len(one.requests("POST")) == 9)


@pytest.mark.slow
def test_a_request_that_opencode_refuses_ends_no_moment_after_it(player: Start, tmp_path: Path) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def completed(given, output):
    note("completed")
async def ended(given, output):
    note("ended")
""",
            '{"message.completed": completed, "turn.end": ended}',
        )
    )
    # There is no message to be had of what is said to be complete.
    one.do("open", routes={f"GET /session/{SESSION}/message": history(2)})
    one.do("event", event=event("message.updated", info=assistant(2)))
    one.do("event", event={"id": "evt_1", "type": "session.idle", "properties": 7})
    one.do("event", event=event("session.idle"))
    wait_until(lambda: notes(tmp_path / "project") == [["ended"]])
    log = (tmp_path / "home" / ".local" / "state" / "instar" / "log" / "instar.log").read_text()
    assert "opencode refused what a hook point needs" in log


@pytest.mark.slow
def test_what_is_made_of_a_sessions_events_is_made_in_their_order(player: Start, tmp_path: Path) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def completed(given, output):
    # The next one is there, and waits.
    await asyncio.sleep(0.05)
    note("completed")
async def ended(given, output):
    note("ended")
""",
            '{"message.completed": completed, "turn.end": ended}',
        )
    )
    routes = {
        f"GET /session/{SESSION}/message": history(2),
        f"GET /session/{SESSION}/message/msg_2": history(2)[1],
    }
    one.do("open", routes=routes)
    one.do("event", event=event("message.updated", info=assistant(2)))
    one.do("event", event=event("session.idle"))
    wait_until(lambda: notes(tmp_path / "project") == [["completed"], ["ended"]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "reply"),
    [
        ("raise Exception('never')", {"reply": "reject", "message": "never"}),
        ("output.status = 'deny'", {"reply": "reject", "message": "A plugin refused it."}),
        ("output.status = 'allow'", {"reply": "once"}),
    ],
)
def test_a_question_to_a_person_is_answered_by_the_plugin_that_guards_it(
    player: Start, work: str, reply: dict[str, Any]
) -> None:
    one = player(plugin(f"async def asked(given, output):\n    {work}", '{"permission.ask": asked}'))
    one.do("open", routes={"POST /permission/per_1/reply": True})
    asked = {"id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": ["ls"]}
    one.do("event", event=event("permission.asked", **asked))
    wait_until(lambda: one.requests("POST"))
    ((path, body),) = one.requests("POST")
    assert path == "/permission/per_1/reply"
    assert body["reply"] == reply["reply"]
    assert reply.get("message", "") in body.get("message", "")


@pytest.mark.slow
def test_a_sub_agent_that_a_plugin_never_lets_go_comes_to_an_end(player: Start) -> None:
    child = "ses_2"
    one = player(
        plugin("async def stop(given, output):\n    output.prompt = 'more'", '{"subagent.stop": stop}')
    )
    routes = {
        f"GET /session/{child}": {**INFO, "id": child, "parentID": SESSION},
        f"GET /session/{child}/message": history(2),
        f"POST /session/{child}/message": history(3)[2],
    }
    one.do("open", routes=routes)
    given = {"tool": "task", "sessionID": SESSION, "callID": "c", "args": {}}
    ended = {"title": "t", "output": "first", "metadata": {"sessionId": child}}
    assert one.hook("tool.execute.after", given, ended)["output"] == "answer 3"
    assert len(one.requests("POST")) == 8


@pytest.mark.slow
def test_a_summary_is_no_step(player: Start, tmp_path: Path) -> None:
    one = player(
        plugin(RECORD + "async def step(given, output):\n    note(given.step)", '{"step.before": step}')
    )
    one.do("open")
    messages = "experimental.chat.messages.transform"
    one.hook("experimental.session.compacting", {"sessionID": SESSION}, {"context": []})
    one.hook(messages, {}, {"messages": history(3)})
    one.hook(messages, {}, {"messages": history(2)})
    assert notes(tmp_path / "project") == [[2]]
