"""evolve on the core's hook points, as a host calls them."""

import logging

import msgspec
import pytest

from instar.plugin import ToolFailure, event, message, points
from instar.plugins.evolve import plugin
from instar.plugins.evolve.server import server

JSON = '{"system": ["%s"]}'


def test_it_is_a_plugin_of_the_v1_form():
    assert plugin == {"id": "evolve", "server": server}


@pytest.mark.slow
async def test_everything_it_subscribes_to_is_a_declared_hook_point(start, root):
    hooks = (await start(root)).hooks
    others = ("event", "tool", "dispose", "timeout")
    unknown = [name for name in hooks if points.CORE.find(name) is None and name not in others]
    assert unknown == []


# -- which workspace ----------------------------------------------------------------------------------


async def test_a_workspace_that_nobody_trusted_runs_nothing_and_says_so(kit, tmp_path, children, caplog):
    kit.shell(tmp_path / "home" / "workspace", "a.sh", discover="{}")
    peer, values, plugin_input = kit.host
    environment = {"HOME": str(tmp_path / "home")}
    given = plugin_input(peer(), values(), environment, children(environment))
    assert await server(given, {}) == {}
    (record,) = caplog.records
    assert "is not trusted: instar trust" in record.getMessage()
    assert kit.calls(tmp_path / "home" / "workspace", "a.sh", "discover") == []


@pytest.mark.slow
async def test_a_workspace_named_by_the_flag_or_trusted_runs(kit, root, children):
    kit.shell(root, "a.sh", discover="{}")
    peer, values, plugin_input = kit.host
    for fields, options in [
        ({"flags": {"workspace": str(root)}}, {}),
        ({"trusted": lambda folder: folder == root}, {"workspace": str(root)}),
    ]:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent / "home")}
        given = plugin_input(peer(), values(), environment, children(environment), **fields)
        hooks = await server(given, options)
        assert "evolve_datetime" in hooks["tool"]
        await hooks["dispose"]()


async def test_a_workspace_that_does_not_exist_is_said(start, tmp_path, caplog):
    running = await start(tmp_path / "nowhere")
    assert running.hooks == {}
    assert "there is no workspace at" in caplog.text


# -- settings -----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_broken_settings_at_the_start_keep_evolve_off_until_they_are_mended(kit, start, root):
    kit.shell(root, "a.sh", discover='{"tools": [{"name": "t"}]}', mutate_request=JSON % "managed")
    (root / "config").mkdir()
    (root / "config" / "evolve.jsonc").write_text('{\n  "heartbeat_ms": "soon"\n}')
    running = await start(root)
    assert await running.system() == ["base"]
    assert list(running.tools) == []
    assert "evolve.jsonc:2:19: heartbeat_ms: Expected `int`" in running.problems[0]
    assert "evolve is off" in running.problems[0]
    (root / "config" / "evolve.jsonc").write_text("{}")
    assert await running.system() == ["base"]
    assert "config/evolve.jsonc was changed, behind the gate" in running.problems[1]
    await running.accept()
    assert await running.system() == ["managed"]
    assert "a_t" in running.tools
    assert running.problems == []


@pytest.mark.slow
async def test_a_setting_that_means_nothing_is_a_problem_until_it_is_gone(start, root):
    (root / "config").mkdir()
    (root / "config" / "evolve.jsonc").write_text('{"hook_timout": 3}')
    running = await start(root)
    assert "unknown setting 'hook_timout' is ignored; did you mean 'hook_timeout'?" in running.problems[0]
    (root / "config" / "evolve.jsonc").write_text("{}")
    await running.accept()
    assert running.problems == []


@pytest.mark.slow
async def test_what_a_failing_script_printed_is_told_on_one_line_as_it_reads(kit, start, root):
    kit.script(root / "hooks", "a.sh", "#!/bin/sh\nprintf 'first\\n  second\\n' >&2; exit 3\n")
    running = await start(root)
    assert "it printed: first second; its tools" in running.problems[0]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["changed by hand", "accepted"])
async def test_settings_that_break_later_change_nothing(kit, start, root, how):
    kit.script(
        root / "hooks",
        "a.sh",
        '#!/bin/sh\n[ $1 = discover ] && echo \'{"tools": [{"name": "t"}]}\' || sleep 60\n',
    )
    (root / "config").mkdir()
    (root / "config" / "evolve.jsonc").write_text('{"hook_timeout": 3000}')
    running = await start(root)
    (root / "config" / "evolve.jsonc").write_text('{"hook_timeout": 60000, oops}')
    if how == "accepted":
        await running.accept()
        assert "the last good ones stay" in running.problems[0]
    else:
        await running.step()
        assert "config/evolve.jsonc was changed, behind the gate" in running.problems[0]
    with pytest.raises(ToolFailure, match=r"hook_timeout \(3000 ms\)"):
        await running.call("a_t")


# -- the system prompt --------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_minimal_hook_manages_the_system_prompt_and_is_not_asked_twice_what_it_does_not_know(
    kit, start, root
):
    kit.script(root / "hooks", "mybot.py", kit.SEED_MINIMAL)
    running = await start(root)
    assert await running.system() == ["you are a helpful assistant."]
    await running.hooks["message.completed"](completed(kit), points.Empty())
    assert running.problems == []
    assert running.client.session.follow_ups == []
    assert "mybot_datetime" in running.tools["evolve_datetime"].aliases


@pytest.mark.slow
async def test_the_system_prompt_replaces_the_hosts_is_frozen_per_session_and_survives_a_restart(
    kit, start, root
):
    kit.shell(root, "a.sh", mutate_request=JSON % "first")
    kit.shell(root, "b.sh", mutate_request=JSON % "second")
    running = await start(root)
    assert await running.system() == ["first", "second"]
    kit.shell(root, "a.sh", mutate_request=JSON % "changed")
    assert await running.system() == ["first", "second"]
    assert await running.accept() == ["hooks/a.sh"]
    assert await running.system() == ["first", "second"]
    again = await start(root, values=running.values)
    assert await again.system() == ["first", "second"]
    assert await again.system("ses_2") == ["changed", "second"]
    assert len(kit.calls(root, "b.sh", "mutate_request")) == 2


@pytest.mark.slow
async def test_an_empty_answer_leaves_the_sessions_own_prompt_alone_for_good(kit, start, root):
    kit.shell(root, "a.sh", mutate_request="{}")
    running = await start(root)
    assert await running.system() == ["base"]
    kit.shell(root, "a.sh", mutate_request=JSON % "late")
    await running.accept()
    assert await running.system() == ["base"]


@pytest.mark.slow
async def test_only_the_turns_own_prompt_is_managed(kit, start, root):
    kit.shell(root, "a.sh", mutate_request=JSON % "managed")
    running = await start(root)
    assert await running.system(purpose="title") == ["base"]
    assert await running.system(purpose="compaction") == ["base"]


@pytest.mark.slow
async def test_mutate_request_is_given_the_session_its_history_and_the_prompts_by_stage(kit, start, root):
    kit.shell(root, "a.sh", mutate_request="{}")
    (root / "prompts").mkdir()
    (root / "prompts" / "chat.md").write_text("chat text")
    running = await start(root)
    running.client.session.history = [kit.user("hi", agent="nurse")]
    await running.system()
    (given,) = kit.calls(root, "a.sh", "mutate_request")
    assert given["hook"] == "mutate_request"
    assert given["session"] == {"id": "ses_1", "agent": "nurse"}
    (message,) = given["history"]
    assert (message["role"], message["agent"], message["parts"][0]["text"]) == ("user", "nurse", "hi")
    assert given["prompts"] == {
        "preamble": "",
        "chat": "chat text",
        "heartbeat": "",
        "compaction": "",
        "recover": "",
    }


@pytest.mark.slow
async def test_a_deleted_session_is_forgotten(kit, start, root):
    kit.shell(root, "a.sh", mutate_request=JSON % "managed")
    running = await start(root)
    await running.system()
    assert await running.values.get("system:ses_1") is not None

    info = message.Session(
        id="ses_1",
        slug="s",
        project_id="p",
        directory="/",
        title="t",
        version="1",
        time=message.SessionTime(created=1, updated=1),
    )
    await running.hooks["event"](event.make(event.SessionDeleted(session_id="ses_1", info=info)))
    assert await running.values.get("system:ses_1") is None


# -- answers, idle, tools observed ---------------------------------------------------------------------


def completed(kit, **fields) -> points.CompletedInput:
    said = kit.answer(
        {"type": "reasoning", "text": "hm", "time": {"start": 1}},
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
        {
            "type": "tool",
            "callID": "call_1",
            "tool": "bash",
            "state": {
                "status": "error",
                "input": {"command": "x"},
                "error": "no",
                "time": {"start": 1, "end": 2},
            },
        },
        **fields,
    )
    return points.CompletedInput(session_id="ses_1", message=said.info, parts=said.parts)


@pytest.mark.slow
async def test_observe_message_is_given_the_models_answer(kit, start, root, caplog):
    caplog.set_level(logging.INFO)
    kit.shell(root, "a.sh", observe_message='{"modified": ["x.md"], "notify": [{"type": "t"}]}')
    running = await start(root)
    await running.hooks["message.completed"](completed(kit), points.Empty())
    (given,) = kit.calls(root, "a.sh", "observe_message")
    assert given["session"] == {"id": "ses_1", "agent": "build"}
    assert (given["thinking"], given["answer"]) == ("hm", "one\ntwo")
    assert [(call["tool"], call["state"]["error"]) for call in given["calls"]] == [("bash", "no")]
    assert '"notify": [{"type": "t"}]' in caplog.text


@pytest.mark.slow
async def test_a_summary_is_not_observed(kit, start, root):
    kit.shell(root, "a.sh", observe_message="{}")
    running = await start(root)
    await running.hooks["message.completed"](completed(kit, summary=True), points.Empty())
    assert kit.calls(root, "a.sh", "observe_message") == []


@pytest.mark.slow
async def test_idle_makes_the_session_go_on(kit, start, root):
    kit.shell(root, "a.sh", idle='{"continue": "one"}')
    kit.shell(root, "b.sh", idle='{"continue": "two"}')
    running = await start(root)
    (follow_up,) = await running.end_turn(kit.answer({"type": "text", "text": "done"}))
    assert follow_up["source"] == "evolve.idle"
    assert follow_up["prompt"]["parts"] == [{"type": "text", "text": "one\ntwo", "synthetic": True}]
    assert follow_up["prompt"]["agent"] == "build"
    (given,) = kit.calls(root, "a.sh", "idle")
    assert (given["session"], given["answer"]) == ({"id": "ses_1", "agent": "build"}, "done")


@pytest.mark.slow
async def test_what_a_script_changes_on_idle_is_committed_also_when_it_fails(kit, start, root):
    text = """\
    #!/bin/sh
    case "$1" in
    idle) echo "$1" >>notes.md; test -e fails && exit 3; echo '{}';;
    discover) echo '{}';;
    *) printf '{"error": "unknown hook: %s"}\\n' "$1"; exit 1;;
    esac
    """
    kit.script(root / "hooks", "a.sh", text)
    running = await start(root)
    said = kit.answer({"type": "text", "text": "done"})
    await running.end_turn(said)
    assert kit.git(root, "status", "--porcelain") == ""
    subject, *_ = kit.git(root, "log", "-1", "--format=%B").splitlines()
    assert subject == "idle"
    assert "Session: ses_1" in kit.git(root, "log", "-1", "--format=%B")
    (root / "fails").touch()
    await running.end_turn(said)
    assert kit.git(root, "show", "--name-only", "--format=%s").split() == ["idle", "notes.md"]
    assert kit.git(root, "log", "--format=%s").splitlines() == ["idle", "idle", "initial"]


@pytest.mark.slow
async def test_what_a_script_changes_as_it_observes_evolves_own_tools_is_committed(kit, start, root):
    text = """\
    #!/bin/sh
    case "$1" in
    tool_before|tool_after) echo "$1" >>notes.md; echo '{}';;
    discover) echo '{}';;
    *) printf '{"error": "unknown hook: %s"}\\n' "$1"; exit 1;;
    esac
    """
    kit.script(root / "hooks", "a.sh", text)
    running = await start(root)
    call = {"tool": "evolve_datetime", "session_id": "ses_1", "call_id": "call_1"}
    before = points.ToolCallInput(**call)
    await running.hooks["tool.execute.before"](before, points.ArgsOutput(args={}))
    await running.call("evolve_datetime")
    after = points.ToolAfterInput(**call, args={})
    output = points.ToolAfterOutput(title="", output="now", metadata={})
    await running.hooks["tool.execute.after"](after, output)
    assert kit.git(root, "status", "--porcelain") == ""
    assert kit.git(root, "log", "--format=%s").splitlines() == ["tool_after", "tool_before", "initial"]


@pytest.mark.slow
async def test_idle_is_asked_after_a_final_answer_only_and_an_empty_one_ends_the_turn(kit, start, root):
    kit.shell(root, "a.sh", idle="{}")
    running = await start(root)
    failed = kit.answer(error={"name": "UnknownError", "data": {"message": "x"}})
    assert await running.end_turn(failed) == []
    state = {"status": "completed", "input": {}, "output": "x", "title": "", "metadata": {}}
    called = {
        "type": "tool",
        "callID": "1",
        "tool": "bash",
        "state": {**state, "time": {"start": 1, "end": 2}},
    }
    assert await running.end_turn(kit.answer({"type": "text", "text": "I look."}, called)) == []
    assert kit.calls(root, "a.sh", "idle") == []
    assert await running.end_turn(kit.answer({"type": "text", "text": "done"})) == []
    assert len(kit.calls(root, "a.sh", "idle")) == 1


@pytest.mark.slow
async def test_every_tool_call_is_observed_before_and_after_also_one_that_failed(kit, start, root):
    kit.shell(root, "a.sh", tool_before="{}", tool_after="{}")
    running = await start(root)
    call = {"tool": "bash", "session_id": "ses_1", "call_id": "call_1"}
    await running.hooks["tool.execute.before"](points.ToolCallInput(**call), points.ArgsOutput(args={"a": 1}))
    after = points.ToolAfterInput(**call, args={"a": 1})
    await running.hooks["tool.execute.after"](
        after, points.ToolAfterOutput(title="t", output="o", metadata={})
    )
    await running.hooks["tool.execute.before"](points.ToolCallInput(**call), points.ArgsOutput(args={"a": 1}))
    await running.hooks["tool.execute.failure"](after, points.ToolFailureOutput(error="no"))
    common = {"session": {"id": "ses_1"}, "tool": "bash", "callID": "call_1"}
    before, _ = kit.calls(root, "a.sh", "tool_before")
    assert {key: before[key] for key in ("hook", "args")} == {"hook": "tool_before", "args": {"a": 1}}
    assert before.items() >= common.items()
    first, second = kit.calls(root, "a.sh", "tool_after")
    assert (first["title"], first["output"], second["title"], second["output"]) == ("t", "o", "", "no")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\nkill -9 $$\n", "#!/bin/sh\necho '[]'\n", "no shebang"]
)
async def test_an_observing_script_that_fails_refuses_nothing_and_is_not_recovered(kit, start, root, text):
    kit.script(root / "hooks", "a.sh", text)
    running = await start(root)
    given = points.ToolCallInput(tool="bash", session_id="ses_1", call_id="call_1")
    output = points.ArgsOutput(args={"a": 1})
    await running.hooks["tool.execute.before"](given, output)
    await running.hooks["message.completed"](completed(kit), points.Empty())
    assert output.args == {"a": 1}
    assert running.client.session.follow_ups == []


# -- compaction ---------------------------------------------------------------------------------------


async def compact(running, prompt: str | None = None) -> str | None:
    output = points.CompactingOutput(context=[], prompt=prompt)
    await running.hooks["experimental.session.compacting"](points.CompactingInput(session_id="ses_1"), output)
    return output.prompt


@pytest.mark.slow
async def test_compacting_gives_the_scripts_prompt_else_compaction_md(kit, start, root):
    kit.shell(root, "a.sh", compacting='{"prompt": "mine"}')
    (root / "prompts").mkdir()
    (root / "prompts" / "compaction.md").write_text("the default")
    running = await start(root)
    running.client.session.history = [kit.user("hi")]
    assert await compact(running) == "mine"
    (given,) = kit.calls(root, "a.sh", "compacting")
    assert given["session"] == {"id": "ses_1"}
    assert given["history"][0]["role"] == "user"
    kit.shell(root, "a.sh", compacting="{}")
    await running.accept()
    assert await compact(running) == "the default"


async def test_without_a_script_or_a_file_the_hosts_own_compaction_prompt_stays(start, root):
    assert await compact(await start(root)) is None


@pytest.mark.slow
async def test_a_prompt_that_another_plugin_gave_goes_before_compaction_md_and_after_the_scripts(
    kit, start, root
):
    (root / "prompts").mkdir()
    (root / "prompts" / "compaction.md").write_text("the default")
    running = await start(root)
    assert await compact(running, "another plugin's") == "another plugin's"
    kit.shell(root, "a.sh", compacting='{"prompt": "mine"}')
    await running.accept()
    assert await compact(running, "another plugin's") == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["mutate_request", "compacting"])
async def test_the_history_is_written_as_json_once_however_many_scripts_are_given_it(
    kit, start, root, monkeypatch, hook
):
    for name in ("a.sh", "b.sh", "c.sh"):
        kit.shell(root, name, **{hook: "{}"})
    running = await start(root)
    running.client.session.history = [kit.user("a needle")]
    encode, written = msgspec.json.encode, []

    def counting(value, **how):
        # One that stands in a value as JSON already is not written again.
        if "a needle" in repr(value):
            written.append(value)
        return encode(value, **how)

    monkeypatch.setattr(msgspec.json, "encode", counting)
    await (running.system() if hook == "mutate_request" else compact(running))
    assert len(written) == 1
    for name in ("a.sh", "b.sh", "c.sh"):
        (given,) = kit.calls(root, name, hook)
        assert given["history"][0]["parts"][0]["text"] == "a needle"
