"""The bridge's own half, and opencode's in node: what crosses over, and what does not when something fails."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.opencode.bridge.conftest import HALF, PATIENCE, Player, PlayError
from tests.postgresql import cluster
from tests.waiting import wait_until

from instar import __version__

Start = Callable[..., Player]

SESSION = "ses_1"
MODEL = {"providerID": "fake", "modelID": "m"}
USER = {
    "id": "msg_1",
    "sessionID": SESSION,
    "role": "user",
    "time": {"created": 1},
    "agent": "build",
    "model": MODEL,
}
INFO = {
    "id": SESSION,
    "slug": "s",
    "projectID": "p",
    "directory": "/",
    "title": "T",
    "version": "1.18.33",
    "time": {"created": 1, "updated": 1},
}


def assistant(number: int, **more: Any) -> dict[str, Any]:
    """The information of an answer."""
    tokens = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    return {
        "id": f"msg_{number}",
        "sessionID": SESSION,
        "role": "assistant",
        "parentID": "msg_1",
        "time": {"created": 2, "completed": 3},
        "modelID": "m",
        "providerID": "fake",
        "mode": "build",
        "agent": "build",
        "path": {"cwd": "/", "root": "/"},
        "cost": 0,
        "tokens": tokens,
        "finish": "stop",
        **more,
    }


def text(number: int, message: str, said: str) -> dict[str, Any]:
    """A text part."""
    return {"id": f"prt_{number}", "messageID": message, "sessionID": SESSION, "type": "text", "text": said}


def history(length: int) -> list[dict[str, Any]]:
    """A prompt, and answers to it."""
    first = {"info": USER, "parts": [text(0, "msg_1", "hi")]}
    rest = [
        {"info": assistant(number), "parts": [text(number, f"msg_{number}", f"answer {number}")]}
        for number in range(2, length + 1)
    ]
    return [first, *rest]


def event(kind: str, **properties: Any) -> dict[str, Any]:
    """An event of opencode's."""
    return {"id": "evt_1", "type": kind, "properties": {"sessionID": SESSION, **properties}}


def plugin(body: str, returned: str) -> str:
    """A plugin file: what its function does, and the hooks that it returns."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return (
        "import asyncio, json, os\n"
        "from pathlib import Path\n"
        "from instar.plugin import Ask, Tool, ToolResult\n"
        "HERE = Path(__file__).parent\n"
        f"async def one(input, options=None):\n{lines}    return {returned}\n"
    )


RECORD = """
def note(*said):
    with (HERE / "notes").open("a") as file:
        print(json.dumps(said), file=file)
"""


def notes(project: Path) -> list[Any]:
    """What the plugin noted."""
    path = project / ".instar" / "plugins" / "notes"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
def test_a_hook_changes_the_very_values_that_opencode_goes_on_with(player: Start) -> None:
    one = player(
        plugin(
            """
async def params(given, output):
    output.temperature = 0.5
    output.options["seed"] = given.purpose
async def env(given, output):
    print("what is printed breaks no frame", flush=True)
    output.env["FROM"] = given.cwd
""",
            '{"chat.params": params, "shell.env": env}',
        )
    )
    opened = one.do("open")
    assert {"chat.params", "shell.env", "event", "dispose"} <= set(opened["hooks"])
    assert "experimental.chat.messages.transform" not in opened["hooks"]
    given = {"sessionID": SESSION, "agent": "title", "model": {}, "provider": {}, "message": USER}
    output = {"maxOutputTokens": 100, "options": {"kept": 1}}
    changed = one.hook("chat.params", given, output)
    assert changed == {"maxOutputTokens": 100, "options": {"kept": 1, "seed": "title"}, "temperature": 0.5}
    assert one.hook("shell.env", {"cwd": "/tmp"}, {"env": {}}) == {"env": {"FROM": "/tmp"}}


@pytest.mark.slow
def test_a_gate_refuses_in_the_plugins_words_and_an_observer_that_fails_changes_nothing(
    player: Start,
) -> None:
    one = player(
        plugin(
            """
async def before(given, output):
    raise Exception("not today")
async def system(given, output):
    output.system.append("half")
    raise Exception("no")
""",
            '{"tool.execute.before": before, "experimental.chat.system.transform": system}',
        )
    )
    one.do("open", routes={"GET /agent": []})
    with pytest.raises(PlayError, match="not today"):
        one.hook("tool.execute.before", {"tool": "bash", "sessionID": SESSION, "callID": "c"}, {"args": {}})
    name = "experimental.chat.system.transform"
    assert one.hook(name, {"sessionID": SESSION, "model": {}}, {"system": ["a"]}) == {"system": ["a"]}


@pytest.mark.slow
def test_a_call_that_a_person_should_see_is_refused_since_opencode_cannot_ask_there(player: Start) -> None:
    one = player(
        plugin(
            """
async def before(given, output):
    output.ask = "Look at this."
""",
            '{"tool.execute.before": before}',
        )
    )
    one.do("open")
    with pytest.raises(PlayError, match=r"Look at this\.\nopencode lets no plugin ask"):
        one.hook("tool.execute.before", {"tool": "bash", "sessionID": SESSION, "callID": "c"}, {"args": {}})


TOOLS = plugin(
    RECORD
    + """
async def greet(args, context):
    await context.ask(Ask("greeting", ["x"]))
    context.metadata(title="soon")
    return ToolResult(output="Hello, " + args["who"], title="greeted", metadata={"a": 1})
async def wait(args, context):
    note("began")
    try:
        await asyncio.Event().wait()
    finally:
        note("cancelled", context.abort.is_set())
schema = {"type": "object", "properties": {"who": {"type": "string"}, "n": {"type": "integer"}}, "required": ["who"]}
""",
    '{"tool": {"greet": Tool("Greets.", schema, greet),'
    ' "wait": Tool("Waits.", {"type": "object", "properties": {}}, wait, permissions=lambda args, context: [])}}',
)


@pytest.mark.slow
def test_a_tool_asks_shows_and_answers_by_opencodes_means(player: Start) -> None:
    one = player(TOOLS)
    opened = one.do("open", routes={f"GET /session/{SESSION}/message": history(2)})
    assert opened["tools"]["greet"] == {"who": {"type": "string"}, "n": {"type": "integer"}}
    assert one.do("tool", name="greet", args={"who": "Ada", "n": None}) == {
        "title": "greeted",
        "output": "Hello, Ada",
        "metadata": {"a": 1},
        "attachments": [],
    }
    asked = one.do("seen")["asks"]
    assert [one.get("permission") or one["shown"]["title"] for one in asked] == ["greet", "greeting", "soon"]
    with pytest.raises(PlayError, match=r"the person said no \(its own\)"):
        one.do("tool", name="greet", args={"who": "Ada"}, denied=True)
    with pytest.raises(PlayError, match="invalid arguments"):
        one.do("tool", name="greet", args={"n": 1})
    shown = one.hook("tool.definition", {"toolID": "greet"}, {"description": "Greets.", "jsonSchema": {}})
    assert shown["description"] == "Greets."


@pytest.mark.slow
def test_a_tool_that_changed_is_described_anew_where_no_other_plugin_has_described_it(player: Start) -> None:
    one = player(
        plugin(
            """
tools = {}
async def learn(args, context):
    tools["learn"] = Tool("Knows.", {"type": "object", "properties": {"more": {"type": "string"}}}, learn)
    return ToolResult(output="learnt")
tools["learn"] = Tool("Learns.", {"type": "object", "properties": {}}, learn, permissions=lambda args, context: [])
""",
            '{"tool": tools}',
        )
    )
    one.do("open", routes={f"GET /session/{SESSION}/message": history(2)})
    kept = {"description": "Learns."}
    assert one.hook("tool.definition", {"toolID": "learn"}, kept)["description"] == "Learns."
    assert one.do("tool", name="learn", args={})["output"] == "learnt"
    assert one.hook("tool.definition", {"toolID": "learn"}, kept) == {
        "description": "Knows.",
        "jsonSchema": {"type": "object", "properties": {"more": {"type": "string"}}},
    }
    other = {**kept, "description": "Learns, says another plugin."}
    assert one.hook("tool.definition", {"toolID": "learn"}, other)["description"] == other["description"]


@pytest.mark.slow
def test_an_answer_that_events_told_whole_is_not_asked_for(player: Start, tmp_path: Path) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def completed(given, output):
    note("completed", given.message.id, [part.text for part in given.parts])
async def ended(given, output):
    note("ended", given.message.id, [part.text for part in given.parts])
""",
            '{"message.completed": completed, "turn.end": ended}',
        )
    )
    one.do("open", routes={f"GET /session/{SESSION}/message": [*history(2), *history(1)]})
    begun = {"created": int(time.time() * 1000) + 1}

    def tell(kind: str, **properties: Any) -> None:
        one.do("event", event=event(kind, **properties))

    def answered(number: int) -> None:
        message = f"msg_{number}"
        tell("message.updated", info=assistant(number, time=begun))
        for said in ("half", "the whole"):
            tell("message.part.updated", part=text(number * 10 + 1, message, said), time=1)
        tell("message.part.updated", part=text(number * 10, message, "first"), time=1)
        tell("message.part.updated", part=text(number * 10 + 2, message, "gone"), time=1)
        tell("message.part.removed", messageID=message, partID=f"prt_{number * 10 + 2}")
        tell("message.updated", info=assistant(number, time={**begun, "completed": begun["created"] + 1}))

    answered(2)
    # opencode tells of the prompt again: what its turn changed.
    tell("message.updated", info=USER)
    tell("session.idle")
    wait_until(lambda: len(notes(tmp_path / "project")) == 2)
    assert notes(tmp_path / "project") == [
        ["completed", "msg_2", ["first", "the whole"]],
        ["ended", "msg_2", ["first", "the whole"]],
    ]
    assert one.requests("GET") == [("/global/health", "")]
    # A prompt came before the end of the turn was looked at: it is not the end.
    answered(3)
    tell("message.updated", info={**USER, "id": "msg_4"})
    tell("session.idle")
    answered(5)
    wait_until(lambda: len(notes(tmp_path / "project")) == 4)
    assert [one[:2] for one in notes(tmp_path / "project")[2:]] == [
        ["completed", "msg_3"],
        ["completed", "msg_5"],
    ]


def doctor(project: Path, environment: Mapping[str, str]) -> list[str]:
    """What `instar doctor` says of opencode in the project."""
    done = subprocess.run(
        [sys.executable, "-m", "instar", "doctor", "--json"],
        cwd=project,
        env=dict(environment),
        capture_output=True,
        check=False,
    )
    return [line["text"] for line in json.loads(done.stdout)["lines"] if line["name"] == "opencode"]


@pytest.mark.slow
def test_the_doctor_says_what_the_bridge_does(
    player: Start, tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    one = player(
        plugin(
            "async def env(given, output):\n    pass",
            '{"shell.env": env, "tool": {"t": Tool("T.", {"type": "object"}, env)}}',
        )
    )
    project = tmp_path / "project"
    assert doctor(project, clean_environment) == []
    one.do("open", routes={"GET /global/health": {"version": "1.18.33"}})
    (said,) = doctor(project, clean_environment)
    assert said.startswith(f"instar {__version__} in opencode 1.18.33, process ")
    assert "answers shell.env, event, dispose; offers 1 tools; its last word came at 2" in said
    (record,) = (Path(clean_environment["XDG_DATA_HOME"]) / "instar" / "bridges").iterdir()
    os.utime(record, (0, 0))
    one.hook("shell.env", {"cwd": "/"}, {"env": {}})
    wait_until(lambda: record.stat().st_mtime > 0)
    one.close()
    wait_until(lambda: ", which ended; its last word came at 2" in doctor(project, clean_environment)[0])


@pytest.mark.slow
def test_a_call_that_opencode_aborts_is_cancelled_in_python(player: Start, tmp_path: Path) -> None:
    one = player(TOOLS)
    one.do("open", routes={f"GET /session/{SESSION}/message": []})
    call = one.begin("tool", name="wait", args={})
    wait_until(lambda: notes(tmp_path / "project") == [["began"]])
    one.do("abort")
    with pytest.raises(PlayError, match="it was aborted"):
        call.result(PATIENCE)
    wait_until(lambda: notes(tmp_path / "project") == [["began"], ["cancelled", True]])


@pytest.mark.slow
def test_messages_cross_over_once_and_then_what_changed_of_them(player: Start) -> None:
    one = player(
        plugin(
            """
async def messages(given, output):
    output.messages[-1].parts[-1].text += "!"
    del output.messages[0]
""",
            '{"experimental.chat.messages.transform": messages}',
        )
    )
    one.do("open")
    name = "experimental.chat.messages.transform"
    for length in (3, 4):
        found = one.hook(name, {}, {"messages": history(length)})["messages"]
        assert [message["info"]["id"] for message in found] == [f"msg_{n}" for n in range(2, length + 1)]
        assert found[-1]["parts"][0]["text"] == f"answer {length}!"
        assert found[0] == history(length)[1]


@pytest.mark.slow
def test_a_step_that_a_plugin_stops_fails_in_its_words_and_one_that_it_prompts_reads_that(
    player: Start,
) -> None:
    one = player(
        plugin(
            """
async def step(given, output):
    output.system = [f"step {given.step} of {given.agent}"]
    if given.step == 3:
        output.stop = "That is enough."
""",
            '{"step.before": step}',
        )
    )
    agents = [{"name": "title", "prompt": "You make titles."}]
    one.do("open", routes={"GET /agent": agents})
    messages, system = "experimental.chat.messages.transform", "experimental.chat.system.transform"
    given = {"sessionID": SESSION, "model": {}}
    assert one.hook(messages, {}, {"messages": history(2)})["messages"] == history(2)
    # The title's call interleaves, and is no step.
    title = one.hook(system, given, {"system": ["You make titles. Now."]})
    assert title == {"system": ["You make titles. Now."]}
    assert one.hook(system, given, {"system": ["You are an agent."]}) == {"system": ["step 2 of build"]}
    with pytest.raises(PlayError, match=r"That is enough\."):
        one.hook(messages, {}, {"messages": history(3)})


@pytest.mark.slow
def test_hook_points_that_opencode_has_not_are_made_of_its_events(player: Start, tmp_path: Path) -> None:
    names = [
        *("session.start", "session.end", "message.completed", "tool.execute.failure"),
        *("turn.end", "compaction.after", "permission.ask"),
    ]
    one = player(
        plugin(
            RECORD
            + """
def handler(name):
    async def handle(given, output):
        note(name, getattr(given, "source", None) or getattr(given, "reason", None))
        if name == "tool.execute.failure":
            output.error += " Sorry."
        if name == "turn.end":
            output.follow_ups.append({"source": "one", "prompt": {"parts": [{"type": "text", "text": "go on"}]}})
        if name == "permission.ask":
            output.status = "allow"
    return handle
""",
            f"{{name: handler(name) for name in {names}}}",
        )
    )
    summary = {"info": assistant(3, summary=True), "parts": [text(3, "msg_3", "short")]}
    routes = {
        f"GET /session/{SESSION}/message/msg_2": history(2)[1],
        f"GET /session/{SESSION}/message": history(2),
        f"POST /session/{SESSION}/prompt_async": None,
        "POST /permission/per_1/reply": True,
    }
    one.do("open", routes=routes)
    call = {
        "id": "prt_9",
        "messageID": "msg_2",
        "sessionID": SESSION,
        "type": "tool",
        "tool": "bash",
        "callID": "c",
    }
    failed = {
        **call,
        "state": {"status": "error", "input": {}, "error": "No.", "time": {"start": 1, "end": 2}},
    }
    one.do("event", event=event("session.created", info=INFO))
    output = {"message": USER, "parts": [text(0, "msg_1", "hi")]}
    assert one.hook("chat.message", {"sessionID": SESSION}, output)["parts"] == output["parts"]
    asked = {"id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": ["ls"]}
    one.do("event", event=event("permission.asked", **asked))
    one.do("event", event=event("message.part.updated", part=failed, time=1))
    one.do("event", event=event("message.updated", info=assistant(2)))
    # Said twice, as opencode does.
    one.do("event", event=event("message.updated", info=assistant(2)))
    told = [*history(1), {"info": assistant(2), "parts": [failed]}]
    read = one.hook("experimental.chat.messages.transform", {}, {"messages": told})
    assert read["messages"][1]["parts"][0]["state"]["error"] == "No. Sorry."
    one.do("event", event=event("session.idle"))
    wait_until(lambda: len(notes(tmp_path / "project")) == 5)
    one.do("route", routes={f"GET /session/{SESSION}/message": [*history(2), summary]})
    one.do("event", event=event("session.compacted"))
    wait_until(lambda: len(notes(tmp_path / "project")) == 6)
    one.do("event", event=event("session.deleted", info=INFO))
    wait_until(lambda: len(notes(tmp_path / "project")) == 7)
    assert notes(tmp_path / "project") == [
        ["session.start", "new"],
        ["permission.ask", None],
        ["tool.execute.failure", None],
        ["message.completed", None],
        ["turn.end", None],
        ["compaction.after", None],
        ["session.end", "deleted"],
    ]
    sent = dict(one.requests("POST"))
    assert sent["/permission/per_1/reply"] == {"reply": "once"}
    assert sent[f"/session/{SESSION}/prompt_async"]["parts"] == [{"type": "text", "text": "go on"}]


@pytest.mark.slow
def test_a_sub_agent_begins_with_what_a_plugin_says_and_goes_on_for_as_long_as_it_wants(
    player: Start,
) -> None:
    one = player(
        plugin(
            """
async def start(given, output):
    output.prompt += f" ({given.description}, {given.agent})"
    output.context.append("beside it")
async def stop(given, output):
    if given.continued == 0:
        output.prompt = "and now?"
""",
            '{"subagent.start": start, "subagent.stop": stop}',
        )
    )
    child = "ses_2"
    routes = {
        f"GET /session/{child}": {**INFO, "id": child, "parentID": SESSION, "title": "look"},
        f"GET /session/{child}/message": history(2),
        f"POST /session/{child}/message": history(3)[2],
    }
    one.do("open", routes=routes)
    output = {"message": {**USER, "sessionID": child}, "parts": [text(0, "msg_1", "hi")]}
    begun = one.hook("chat.message", {"sessionID": child}, output)
    assert [part["text"] for part in begun["parts"]] == ["hi (look, build)", "beside it"]
    assert begun["parts"][1]["messageID"] == "msg_1"
    given = {"tool": "task", "sessionID": SESSION, "callID": "c", "args": {}}
    ended = {"title": "t", "output": "first", "metadata": {"sessionId": child}}
    assert one.hook("tool.execute.after", given, ended)["output"] == "answer 3"


@pytest.mark.slow
def test_the_plugins_of_an_untrusted_project_do_not_run(player: Start) -> None:
    one = player(plugin('(HERE / "ran").touch()', "{}"), trusted=False)
    assert one.do("open") == {"hooks": [], "tools": {}}


@pytest.mark.slow
def test_settings_with_a_mistake_let_no_tool_run_since_nobody_knows_what_would_have_guarded_it(
    player: Start,
) -> None:
    one = player(files={"instar.json": '{"plugin": '})
    assert one.do("open")["hooks"] == ["tool.execute.before"]
    with pytest.raises(PlayError, match=r"instar\.json"):
        one.hook("tool.execute.before", {"tool": "bash", "sessionID": SESSION, "callID": "c"}, {"args": {}})


@pytest.mark.slow
def test_a_bridge_that_is_killed_closes_the_gate_that_was_pending_and_comes_up_again(
    player: Start, tmp_path: Path
) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def before(given, output):
    if given.tool == "hang":
        note(os.getpid())
        await asyncio.Event().wait()
    output.args["seen"] = True
async def env(given, output):
    output.env["A"] = "1"
""",
            '{"tool.execute.before": before, "shell.env": env}',
        )
    )
    one.do("open")
    call = {"sessionID": SESSION, "callID": "c"}
    pending = one.begin(
        "hook", name="tool.execute.before", input={"tool": "hang", **call}, output={"args": {}}
    )
    wait_until(lambda: notes(tmp_path / "project"))
    os.kill(notes(tmp_path / "project")[0][0], signal.SIGKILL)
    with pytest.raises(PlayError, match="instar's bridge is gone: it was ended by SIGKILL"):
        pending.result(30)
    assert one.hook("shell.env", {"cwd": "/"}, {"env": {}}) == {"env": {"A": "1"}}
    again = one.hook("tool.execute.before", {"tool": "bash", **call}, {"args": {}})
    assert again == {"args": {"seen": True}}


@pytest.mark.slow
def test_a_bridge_that_is_started_again_is_sent_the_messages_whole(player: Start, tmp_path: Path) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def messages(given, output):
    note(os.getpid())
    output.messages[-1].parts[-1].text += f" of {len(output.messages)}"
""",
            '{"experimental.chat.messages.transform": messages}',
        )
    )
    one.do("open")
    name = "experimental.chat.messages.transform"
    one.hook(name, {}, {"messages": history(3)})
    os.kill(notes(tmp_path / "project")[0][0], signal.SIGKILL)
    wait_until(lambda: any("bridge is gone" in log["message"] for log in one.do("seen")["logs"]))
    found = one.hook(name, {}, {"messages": history(4)})["messages"]
    assert found[:3] == history(3)
    assert found[3]["parts"][0]["text"] == "answer 4 of 4"


@pytest.mark.slow
def test_what_the_other_plugins_publish_and_opencodes_configuration_reach_a_plugin(
    player: Start, tmp_path: Path
) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def heard(event):
    note(event.type)
async def config(config):
    note("config", sorted(config))
    config["username"] = "ada"
""",
            '{"event": heard, "config": config}',
        )
    )
    one.do("open")
    assert one.do("config", config={"model": "a/b", "plugin_origins": []}) == {
        "model": "a/b",
        "username": "ada",
        "plugin_origins": [],
    }
    assert notes(tmp_path / "project")[0] == ["config", ["model"]]
    one.do("event", event=event("session.idle"))
    one.do("event", event={"id": "evt_2", "type": "from.the.future", "properties": {}})
    one.do("event", event=event("session.deleted", info=INFO))
    wait_until(lambda: notes(tmp_path / "project")[1:] == [["session.idle"], ["session.deleted"]])


def test_in_instars_own_javascript_host_the_file_does_nothing(tmp_path: Path) -> None:
    host = tmp_path / "jshost" / "host" / "host.mjs"
    host.parent.mkdir(parents=True)
    host.write_text(
        f"const {{ serve }} = await import({json.dumps(HALF.as_uri())})\n"
        "console.log(Object.keys(await serve({}, ['false'])).length)\n"
    )
    done = subprocess.run(["node", host, "3"], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


@pytest.mark.slow
def test_a_bridge_that_ends_again_and_again_is_left_alone_its_gates_closed(
    player: Start, tmp_path: Path
) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def before(given, output):
    note(os.getpid())
async def env(given, output):
    output.env["A"] = "1"
""",
            '{"tool.execute.before": before, "shell.env": env}',
        )
    )
    one.do("open")
    call = {"tool": "bash", "sessionID": SESSION, "callID": "c"}
    for ends in range(1, 5):
        one.hook("tool.execute.before", call, {"args": {}})
        os.kill(notes(tmp_path / "project")[-1][0], signal.SIGKILL)
        wait_until(
            lambda ends=ends: (
                sum("bridge is gone" in log["message"] for log in one.do("seen")["logs"]) == ends
            )
        )
    with pytest.raises(PlayError, match="started again 3 times within a minute"):
        one.hook("tool.execute.before", call, {"args": {}})
    assert one.hook("shell.env", {"cwd": "/"}, {"env": {}}) == {"env": {}}


@pytest.mark.slow
def test_a_bridge_that_answers_nothing_any_more_is_ended(player: Start, tmp_path: Path) -> None:
    one = player(
        plugin(
            RECORD
            + """
async def before(given, output):
    note(os.getpid())
    import time
    time.sleep(4711)
""",
            '{"tool.execute.before": before}',
        )
    )
    one.do("open", patient={"look": 1500, "ping": 1500})
    call = {"tool": "bash", "sessionID": SESSION, "callID": "c"}
    with pytest.raises(PlayError, match="instar's bridge is gone: it was ended by SIGKILL"):
        one.hook("tool.execute.before", call, {"args": {}})
    assert len(notes(tmp_path / "project")) == 1


@pytest.mark.slow
def test_a_bridge_that_answered_while_opencode_itself_stood_still_is_left_alone(
    player: Start, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    hook = f"""
async def before(given, output):
    note(os.getpid())
    while not os.path.exists({str(go)!r}):
        await asyncio.sleep(0.01)
"""
    one = player(plugin(RECORD + hook, '{"tool.execute.before": before}'))
    one.do("open", patient={"look": 100, "ping": 2500})
    call = {"tool": "bash", "sessionID": SESSION, "callID": "c"}
    running = one.begin("hook", name="tool.execute.before", input=call, output={"args": {}})
    bridge = wait_until(lambda: notes(tmp_path / "project"))[-1][0]
    os.kill(bridge, signal.SIGSTOP)
    time.sleep(0.3)  # it is asked meanwhile
    os.kill(one.pid, signal.SIGSTOP)
    os.kill(bridge, signal.SIGCONT)
    time.sleep(2.7)  # it answers, and the time for that is over before opencode reads it
    os.kill(one.pid, signal.SIGCONT)
    time.sleep(0.3)
    go.touch()
    assert running.result(PATIENCE)["output"] == {"args": {}}
    assert len(notes(tmp_path / "project")) == 1


@pytest.mark.slow
def test_a_stop_on_another_machine_that_shares_the_database_holds_for_plugins_in_opencode(
    player: Start, tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    url = cluster().database()
    note = "async def note(given, output):\n    (HERE / 'halted').write_text(str(input.halted()))"
    opencode = player(plugin(note, "{'tool.execute.before': note}"), INSTAR_DATABASE=url)
    opencode.do("open")

    def halted() -> int:
        given = {"tool": "bash", "sessionID": SESSION, "callID": "c"}
        opencode.hook("tool.execute.before", given, {"args": {}})
        return int((tmp_path / "project" / ".instar" / "plugins" / "halted").read_text())

    assert halted() == 0
    elsewhere = {**clean_environment, "INSTAR_DATABASE": url, "INSTAR_DATA": str(tmp_path / "elsewhere")}
    command = [sys.executable, "-m", "instar", "stop"]
    for more, holds in (("--all", True), ("--resume", False)):
        order = [*command, more] if holds else [*command, more, "--all"]
        subprocess.run(order, cwd=tmp_path, env=elsewhere, check=True, capture_output=True)
        wait_until(lambda holds=holds: (halted() > 0) is holds)
