"""Rules at work in sessions: each event with real scripts, a scripted model and a real store."""

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from tests.running import lives
from tests.waiting import SOON, until

from instar.plugin import Invalid, PromptBody, Refused, points
from instar.plugins.evolve.points import HEARTBEAT, HeartbeatInput
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, calls_of, results, said, users

pytest_plugins = ["tests.turn"]

LOG = "cat >> seen.jsonl"
"""A command that writes down what it was told."""


def arm(house: Machine, rules: dict[str, Any], name: str = ".instar/hooks.json") -> Path:
    """Write rules: event to command, or to rules, or to whole groups."""
    groups = {}
    for event, given in rules.items():
        listed = given if isinstance(given, list) else [given]
        made = [{"type": "command", "command": one} if isinstance(one, str) else one for one in listed]
        groups[event] = [one if "hooks" in one else {"hooks": [one]} for one in made]
    path = house.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": groups}), "utf-8")
    return path


def seen(house: Machine, name: str = "seen.jsonl") -> list[dict[str, Any]]:
    path = house.folder / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def answer(**keys: Any) -> str:
    """A command that prints JSON."""
    return f"cat > /dev/null; printf '%s' '{json.dumps(keys)}'"


CALLS = """
    == turn
    tool: bash {"command": "echo one > one.txt"}

    == turn
    text: done

    == turn
    text: done again
"""


async def ran(house: Machine, script: str = CALLS, text: str = "go") -> tuple[RuntimeUnderTest, str]:
    house.says(script)
    door = await house.open()
    session = await door.session()
    await door.ask(session, text)
    return door, session


# -- before a tool ---------------------------------------------------------------------------------------


async def test_a_command_that_exits_with_two_refuses_the_call_and_the_model_reads_why(house: Machine) -> None:
    arm(house, {"PreToolUse": {"matcher": "bash", "hooks": [{"command": "echo 'not today' >&2; exit 2"}]}})
    door, session = await ran(house)
    assert results(await door.stored(session)) == ["The plugin hooks refused this call: not today"]
    assert not (house.folder / "one.txt").exists()


@pytest.mark.slow
async def test_a_rule_is_told_of_the_call_on_stdin_and_in_the_environment(house: Machine) -> None:
    house.environment["SOME_API_KEY"] = "secret-value"
    house.environment["PLAIN"] = "plain-value"
    arm(house, {"pre_tool_use": [LOG, "env > env.txt; pwd > pwd.txt"]})
    _, session = await ran(house)
    (told,) = seen(house)
    wanted = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "tool_name": "bash",
        "tool_input": {"command": "echo one > one.txt"},
        "tool_use_id": "call_t1_1",
        "cwd": str(house.folder),
        "agent_type": "build",
    }
    assert {key: told.get(key) for key in wanted} == wanted
    variables = dict(
        line.split("=", 1) for line in (house.folder / "env.txt").read_text().splitlines() if "=" in line
    )
    assert variables["CLAUDE_PROJECT_DIR"] == variables["OPENHANDS_PROJECT_DIR"] == str(house.folder)
    assert variables["OPENHANDS_SESSION_ID"] == session
    assert variables["PLAIN"] == "plain-value"
    assert "secret-value" not in variables.values()
    assert (house.folder / "pwd.txt").read_text().strip() == str(house.folder)


async def test_a_rewritten_input_is_what_runs(house: Machine) -> None:
    specific = {"hookEventName": "PreToolUse", "updatedInput": {"command": "echo two > two.txt"}}
    arm(house, {"PreToolUse": answer(hookSpecificOutput=specific)}, ".claude/settings.json")
    door, session = await ran(house)
    (call,) = [call for message in await door.stored(session) for call in calls_of(message)]
    assert call.state.input == {"command": "echo two > two.txt"}
    assert (house.folder / "two.txt").exists()
    assert not (house.folder / "one.txt").exists()


async def test_a_rewrite_that_the_tools_schema_refuses_refuses_the_call(house: Machine) -> None:
    arm(house, {"PreToolUse": answer(hookSpecificOutput={"updatedInput": {"command": 5}})})
    door, session = await ran(house)
    (result,) = results(await door.stored(session))
    assert result.startswith("The bash tool was called with invalid arguments")
    assert not (house.folder / "one.txt").exists()


@pytest.mark.parametrize("tool", ["bash", "todowrite"])
async def test_ask_puts_the_call_to_a_person_who_sees_why_though_the_rules_allow_it(
    house: Machine, tool: str
) -> None:
    arguments = {"bash": '{"command": "true"}', "todowrite": '{"todos": []}'}
    arm(house, {"PreToolUse": answer(decision="ask", reason="is this meant?")})
    house.says(f"""
        == turn
        tool: {tool} {arguments[tool]}

        == turn
        text: done
    """)
    asked = []

    async def person(question: Any) -> str:
        asked.append(question)
        return "reject"

    house.settings(permission={"*": "allow"})
    door = await house.open(person=person)
    await door.ask(await door.session(), "go")
    assert [question.metadata["reason"] for question in asked] == ["is this meant?"]


@pytest.mark.slow
async def test_what_a_rule_asks_about_an_answer_for_always_does_not_answer_the_next_time(
    house: Machine,
) -> None:
    arm(house, {"PreToolUse": answer(decision="ask", reason="is this meant?")})
    house.says("""
        == turn
        tool: bash {"command": "true"}

        == turn
        tool: bash {"command": "true"}

        == turn
        text: done
    """)
    asked = []

    async def person(question: Any) -> str:
        asked.append(question)
        return "always"

    door = await house.open(person=person)
    await door.ask(await door.session(), "go")
    assert len(asked) == 2


@pytest.mark.parametrize(("permission", "outcome"), [("ask", "completed"), ("deny", "error")])
async def test_allow_answers_a_question_and_never_takes_a_deny_away(
    house: Machine, permission: str, outcome: str
) -> None:
    arm(house, {"PreToolUse": answer(hookSpecificOutput={"permissionDecision": "allow"})})
    house.settings(permission={"bash": {"*": "allow", "echo *": permission}})
    door, session = await ran(house)
    (call,) = [call for message in await door.stored(session) for call in calls_of(message)]
    assert call.state.status == outcome


@pytest.mark.slow
async def test_what_one_rule_asks_about_no_other_allows(house: Machine) -> None:
    arm(
        house,
        {
            "PreToolUse": [answer(decision="allow"), answer(decision="ask"), answer(decision="approve")],
            "PermissionRequest": answer(decision="allow"),
        },
    )
    house.settings(permission={"bash": "allow"})
    door, session = await ran(house)
    (result,) = results(await door.stored(session))
    assert "needs a person's answer" in result


async def test_continue_false_refuses_the_call_and_ends_the_turn_but_not_in_openhands_files(
    house: Machine,
) -> None:
    stopping = answer(**{"continue": False, "stopReason": "enough for today"})
    arm(house, {"PreToolUse": stopping}, ".claude/settings.json")
    door, session = await ran(house)
    history = await door.stored(session)
    assert results(history) == ["The plugin hooks refused this call: enough for today"]
    assert [one.message for one in door.of("session.limit")] == ["The turn was stopped: enough for today."]
    assert len(house.requests()) == 1
    # The next prompt is answered again.
    (house.folder / ".claude/settings.json").unlink()
    assert said(await door.ask(session, "and now?")) == "done again"


async def test_continue_false_of_openhands_refuses_this_one_thing(house: Machine) -> None:
    arm(house, {"pre_tool_use": answer(**{"continue": False})}, ".openhands/hooks.json")
    door, session = await ran(house)
    assert said((await door.stored(session))[-1]) == "done"
    assert not (house.folder / "one.txt").exists()


# -- after a tool ----------------------------------------------------------------------------------------


async def test_what_a_rule_says_after_a_call_stands_beside_its_result(house: Machine) -> None:
    arm(
        house,
        {
            "PreToolUse": answer(hookSpecificOutput={"additionalContext": "before"}),
            "PostToolUse": [
                LOG,
                answer(decision="block", reason="the tests fail"),
                answer(hookSpecificOutput={"additionalContext": "after"}),
            ],
        },
    )
    door, session = await ran(house)
    (result,) = results(await door.stored(session))
    assert [word for word in ("the tests fail", "before", "after") if word in result] == [
        "the tests fail",
        "before",
        "after",
    ]
    (told,) = seen(house)
    assert told["tool_response"]["metadata"]["exit"] == 0
    assert told["duration_ms"] >= 0


async def test_a_rule_may_replace_what_the_model_reads_of_a_call(house: Machine) -> None:
    arm(house, {"PostToolUse": answer(hookSpecificOutput={"updatedToolOutput": {"told": "less"}})})
    door, session = await ran(house)
    assert results(await door.stored(session)) == ['{"told": "less"}']


@pytest.mark.slow
async def test_a_failed_call_is_an_event_of_its_own_and_a_refused_one_is_none(house: Machine) -> None:
    arm(
        house,
        {
            "PreToolUse": {"matcher": "bash", "hooks": [{"command": "exit 2"}]},
            "PostToolUseFailure": [LOG, answer(additionalContext="look at the list of files")],
        },
    )
    door, session = await ran(
        house,
        """
        == turn
        tool: read {"filePath": "gone.txt"}
        tool: bash {"command": "true"}

        == turn
        text: done
        """,
    )
    (told,) = seen(house)
    assert (told["tool_name"], "gone.txt" in told["error"]) == ("read", True)
    first, second = results(await door.stored(session))
    assert "look at the list of files" in first
    assert "look at" not in second


# -- prompts ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_refused_prompt_is_never_saved_and_reaches_no_model(house: Machine) -> None:
    arm(house, {"UserPromptSubmit": 'grep -q secret && { echo "no secrets" >&2; exit 2; }; exit 0'})
    house.says(CALLS)
    door = await house.open()
    session = await door.session()
    with pytest.raises(Invalid, match="no secrets"):
        await door.client.prompt(session, PromptBody.text("the secret is 5"))
    await door.ask(session, "hello")
    assert users(await door.stored(session)) == ["hello"]
    assert "the secret" not in json.dumps(house.requests())


async def test_contexts_of_a_prompt_and_of_the_session_stand_in_the_first_request_and_stay(
    house: Machine,
) -> None:
    arm(house, {"SessionStart": ["echo from the start", LOG], "UserPromptSubmit": "echo from the prompt"})
    await ran(house)
    requests = house.requests()
    first = requests[0]["messages"][-1]["content"]
    assert first.index("go") < first.index("from the start") < first.index("from the prompt")
    assert requests[1]["messages"][: len(requests[0]["messages"])] == requests[0]["messages"]
    assert requests[0]["system"] == requests[1]["system"]
    assert [one["source"] for one in seen(house)] == ["startup"]


@pytest.mark.slow
async def test_a_session_that_goes_on_elsewhere_is_a_resume_and_its_end_is_told(house: Machine) -> None:
    arm(house, {"SessionStart": LOG, "SessionEnd": LOG})
    door, session = await ran(house)
    await door.runtime.close()
    door = await house.open()
    await door.ask(session, "more")
    await door.client.delete(session)
    told = [(one["hook_event_name"], one.get("source") or one.get("reason")) for one in seen(house)]
    assert told == [
        ("SessionStart", "startup"),
        ("SessionEnd", "closed"),
        ("SessionStart", "resume"),
        ("SessionEnd", "deleted"),
    ]


# -- the end of a turn -----------------------------------------------------------------------------------

ENDLESS = '== when ".*"\ntext: I am done.\n'


async def test_a_refusing_stop_rule_makes_the_turn_go_on_with_its_reason(house: Machine) -> None:
    arm(
        house,
        {"stop": [LOG, 'grep -q "\\"stop_hook_active\\": true" || { echo "write the test" >&2; exit 2; }']},
    )
    door, session = await ran(house, ENDLESS)
    first, second = users(await door.stored(session))
    assert (first, "write the test" in second) == ("go", True)
    assert [(one["stop_hook_active"], one["last_assistant_message"]) for one in seen(house)] == [
        (False, "I am done."),
        (True, "I am done."),
    ]


@pytest.mark.slow
async def test_a_stop_rule_that_always_refuses_is_heard_eight_times_and_then_said_so(house: Machine) -> None:
    arm(house, {"Stop": "echo more >&2; exit 2", "UserPromptSubmit": LOG})
    door, session = await ran(house, ENDLESS)
    assert len(users(await door.stored(session))) == 9
    (limit,) = door.of("session.limit")
    assert limit.message == "hooks made the session go on 8 times in a row; it waits for a person now"
    assert len(seen(house)) == 1, "what a hook says is no person's prompt"
    await door.ask(session, "again")
    assert len(users(await door.stored(session))) == 18, "a person's prompt counts anew"


# -- sub-agents ------------------------------------------------------------------------------------------

TASK = """
    == turn
    tool: task {"description": "look", "prompt": "child work", "subagent_type": "general"}

    == when "child work" once
    tool: bash {"command": "echo child"}

    == when "^child"
    text: found it

    == when "look again"
    text: found it twice

    == turn
    text: done
"""


@pytest.mark.slow
async def test_hooks_fire_in_sub_agents_and_name_them(house: Machine) -> None:
    arm(
        house,
        {
            "PreToolUse": LOG,
            "SubagentStart": {
                "matcher": "general",
                "hooks": [{"command": LOG}, {"command": answer(additionalContext="be brief")}],
            },
            "SubagentStop": [
                LOG,
                'grep -q "\\"stop_hook_active\\": false" && { echo look again >&2; exit 2; }; exit 0',
            ],
            "Stop": LOG,
            "UserPromptSubmit": LOG,
        },
    )
    door, session = await ran(house, TASK)
    (child,) = await door.client.children(session)
    told = [(one["hook_event_name"], one.get("agent_id"), one["agent_type"]) for one in seen(house)]
    assert told == [
        ("UserPromptSubmit", None, "build"),
        ("PreToolUse", None, "build"),
        ("SubagentStart", child.id, "general"),
        ("PreToolUse", child.id, "general"),
        ("SubagentStop", child.id, "general"),
        ("SubagentStop", child.id, "general"),
        ("Stop", None, "build"),
    ]
    assert "be brief" in json.dumps(house.requests())
    assert "found it twice" in results(await door.stored(session))[0]


# -- the rest --------------------------------------------------------------------------------------------


async def test_before_and_after_a_summary(house: Machine) -> None:
    arm(
        house,
        {
            "PreCompact": [
                {"matcher": "manual", "hooks": [{"command": f"{LOG}; echo '{{}}'"}]},
                answer(additionalContext="keep the names"),
            ],
            "PostCompact": {"matcher": "auto", "hooks": [{"command": "touch auto"}]},
            "post_compact": LOG,
        },
    )
    door, session = await ran(house, "== turn\ntext: done\n\n== compaction\ntext: the sum\n")
    await door.client.summarize(session)
    told = [(one["hook_event_name"], one["trigger"]) for one in seen(house)]
    assert told == [("PreCompact", "manual"), ("PostCompact", "manual")]
    assert "keep the names" in json.dumps(house.requests("compaction"))
    assert not (house.folder / "auto").exists()


async def test_a_notification_tells_that_a_person_is_waited_for(house: Machine) -> None:
    arm(house, {"Notification": LOG})
    house.settings(permission={"bash": "ask"})
    door, _ = await ran(house)
    await door.until(
        lambda event: event.type == "hooks.ran" and len(seen(house)) == 2  # both have been written by then
    )
    assert [one["notification_type"] for one in seen(house)] == ["permission_prompt", "idle_prompt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "runs"),
    [
        (answer(decision="allow"), True),
        ("exit 2", False),
        (answer(hookSpecificOutput={"decision": {"behavior": "allow"}}), True),
        (answer(hookSpecificOutput={"decision": {"behavior": "deny", "message": "no"}}), False),
        (
            answer(
                hookSpecificOutput={"decision": {"behavior": "allow", "updatedInput": {"command": "true"}}}
            ),
            False,
        ),
        (answer(decision="ask"), False),
        ("true", False),
    ],
)
async def test_a_rule_answers_in_a_persons_place(house: Machine, rule: str, runs: bool) -> None:
    arm(house, {"PermissionRequest": rule})
    house.settings(permission={"bash": "ask"})
    await ran(house)
    assert (house.folder / "one.txt").exists() is runs


@pytest.mark.slow
async def test_once_is_once_in_a_session_also_after_a_restart(house: Machine) -> None:
    arm(house, {"UserPromptSubmit": {"command": LOG, "once": True}})
    door, session = await ran(house, ENDLESS)
    await door.ask(session, "more")
    await door.runtime.close()
    door = await house.open()
    await door.ask(session, "more")
    assert len(seen(house)) == 1
    await door.ask(await door.session(), "another session")
    assert len(seen(house)) == 2


async def test_a_long_rule_that_was_changed_at_its_end_runs_once_more(house: Machine) -> None:
    rule = {"type": "command", "command": f": {'x' * 300}; touch one", "once": True}
    arm(house, {"UserPromptSubmit": rule})
    door, session = await ran(house, ENDLESS)
    await door.runtime.close()
    arm(house, {"UserPromptSubmit": rule | {"command": f": {'x' * 300}; touch two"}})
    await (await house.open()).ask(session, "more")
    assert (house.folder / "one").exists()
    assert (house.folder / "two").exists()


@pytest.mark.slow
async def test_an_async_rule_delays_nothing_and_ends_with_the_instance(house: Machine) -> None:
    arm(house, {"Stop": {"command": "echo $$ > pid; sleep 60", "async": True}})
    door, _ = await ran(house, ENDLESS)
    pid = await written(house.folder / "pid")
    assert lives(pid)
    await door.runtime.close()
    await until(lambda: not lives(pid))


async def test_a_message_for_the_person_is_published_with_the_run(house: Machine) -> None:
    arm(house, {"Stop": answer(systemMessage="look at the log")})
    door, _ = await ran(house, ENDLESS)
    (one,) = door.of("hooks.ran")
    assert (one.messages, one.action, one.code, one.undecided) == (["look at the log"], "none", 0, False)


async def test_each_run_is_recorded_in_the_session_and_the_record_goes_with_it(house: Machine) -> None:
    path = arm(house, {"Stop": ["echo no >&2; exit 1"], "Stpo": "true"})
    door, session = await ran(house, ENDLESS)
    record = door.runtime.instance.paths.of_plugin("hooks") / "sessions" / f"{session}.jsonl"
    armed, run = [json.loads(line) for line in record.read_text().splitlines()]
    assert armed["type"] == "hooks.armed"
    assert any(str(path) in text for text in armed["properties"]["rules"])
    assert any("did you mean Stop?" in text for text in armed["properties"]["problems"])
    assert run["properties"]["undecided"] is True
    assert run["properties"]["error"] == "it exited with 1: no"
    assert run["properties"]["code"] == 1
    await door.client.delete(session)
    assert not record.exists()


def accept(house: Machine) -> None:
    """Let the project's rules hold as they stand there now."""
    house.environment["INSTAR_TRUST"] = ""
    house.trust()


async def test_the_model_cannot_rewrite_the_rules_that_hold_it(house: Machine) -> None:
    arm(house, {"PreToolUse": {"matcher": "todoread", "hooks": [{"command": "echo not now >&2; exit 2"}]}})
    accept(house)
    turn = """
        == turn
        tool: write {"filePath": ".instar/hooks.json", "content": "{}"}
        tool: bash {"command": "echo '{}' > .instar/hooks.json; rm .instar/hooks.json"}
        == turn
        tool: todoread {}
        == turn
        text: done
        """
    for _ in range(2):
        door, session = await ran(house, turn)
        assert results(await door.stored(session))[-1].endswith("refused this call: not now")
    assert not (house.folder / ".instar/hooks.json").exists()


@pytest.mark.parametrize(
    "command",
    [
        "./checks/guard.sh",
        '"$CLAUDE_PROJECT_DIR"/checks/guard.sh --strict',
        "cd . && sh -e checks/guard.sh",
        "LEVEL=2 env sh checks/../checks/guard.sh; exit 0",
        "xargs -0 ./checks/guard.sh",
    ],
)
async def test_the_model_cannot_rewrite_the_program_of_a_rule_that_holds_it(
    house: Machine, command: str
) -> None:
    program = house.folder / "checks/guard.sh"
    program.parent.mkdir()
    program.write_text("""#!/bin/sh\necho '{"decision": "deny", "reason": "not now"}'\n""")
    program.chmod(0o755)
    arm(house, {"PreToolUse": {"matcher": "todoread", "hooks": [{"command": command}]}})
    accept(house)
    turn = """
        == turn
        tool: read {"filePath": "checks/guard.sh"}
        == turn
        tool: edit {"filePath": "checks/guard.sh", "oldString": "deny", "newString": "allow"}
        == turn
        tool: bash {"command": "mv checks other; mkdir checks; echo true > checks/guard.sh; chmod 755 checks/*"}
        == turn
        tool: todoread {}
        == turn
        text: done
        """
    for _ in range(2):
        door, session = await ran(house, turn)
        assert results(await door.stored(session))[-1].endswith("refused this call: not now")
    assert program.read_text() == "true\n"


async def test_rules_that_a_person_changed_hold_from_the_next_start_and_that_is_said(house: Machine) -> None:
    path = arm(house, {"UserPromptSubmit": LOG})
    door, _ = await ran(house, ENDLESS)
    path.write_text("{}")
    await door.ask(await door.session(), "more")
    assert len(seen(house)) == 2
    assert "hold until instar reads them again" in door.of("hooks.armed")[-1].problems[-1]


@pytest.mark.slow
async def test_rules_of_settings_agents_and_plugins_hold_beside_those_of_files(house: Machine) -> None:
    group = [{"hooks": [{"command": "echo settings >> seen"}]}]
    house.settings(hooks={"UserPromptSubmit": group})
    arm(house, {"UserPromptSubmit": "echo file >> seen"})
    agents = house.folder / ".instar" / "agent"
    agents.mkdir(parents=True)
    (agents / "poet.md").write_text(
        "---\nhooks:\n  UserPromptSubmit:\n    - hooks:\n        - command: echo agent >> seen\n---\nYou write."
    )
    (house.folder / "instar.json").write_text(
        json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [{"command": "echo project >> seen"}]}]}})
    )
    house.plugin("""
        async def mine(input, options):
            async def config(config):
                rules = config.setdefault("hooks", {}).setdefault("UserPromptSubmit", [])
                rules.append({"hooks": [{"command": "echo plugin >> seen"}]})
            return {"config": config}
    """)
    house.says(ENDLESS)
    door = await house.open()
    await door.ask(await door.session(), "go")
    lines = (house.folder / "seen").read_text().split()
    assert sorted(lines) == ["file", "plugin", "project", "settings"]
    names = " ".join(door.of("hooks.armed")[0].rules)
    for place in (
        f"{house.home}/instar.json:1:",
        f"{house.folder}/instar.json:1:",
        "(a plugin's config hook)",
        "poet.md)",
    ):
        assert place in names
    await door.ask(await door.session(), "go", agent="poet")
    assert (house.folder / "seen").read_text().split()[len(lines) :].count("agent") == 1


async def test_the_rules_of_a_folder_that_nobody_trusts_do_not_run_and_that_is_said(house: Machine) -> None:
    house.environment["INSTAR_TRUST"] = "none"
    arm(house, {"UserPromptSubmit": LOG})
    (house.home).mkdir(parents=True, exist_ok=True)
    house.settings(hooks={"Stop": [{"hooks": [{"command": "true"}]}]})
    door, _ = await ran(house, ENDLESS)
    assert seen(house) == []
    assert "nobody trusted the folder" in " ".join(door.of("hooks.armed")[0].problems)


async def test_without_a_rule_no_hook_point_is_listened_to(house: Machine) -> None:
    arm(house, {})
    door, _ = await ran(house)
    assert door.runtime.instance.plugins.names == ["hooks"]
    plugins = door.runtime.instance.plugins
    assert not any(plugins.listens(point) for point in points.CORE.all())
    assert door.of("hooks.armed") == []


async def test_the_plugin_is_not_loaded_where_nothing_names_a_rule(house: Machine) -> None:
    door, _ = await ran(house)
    assert door.runtime.instance.plugins.names == []


async def test_rules_that_cannot_be_armed_let_nothing_through(house: Machine) -> None:
    house.plugin("""
        async def mine(input, options):
            def broken(**places):
                raise RuntimeError("the disk is gone")

            input.children.guard = broken
    """)
    arm(house, {"PreToolUse": "true"})
    house.says(ENDLESS)
    door = await house.open()
    with pytest.raises(Invalid, match=r"cannot be armed .*the disk is gone"):
        await door.ask(await door.session(), "go")
    assert house.requests() == []


@pytest.mark.slow
async def test_a_script_finds_the_conversation_where_its_payload_says(house: Machine) -> None:
    arm(
        house,
        {
            "Stop": 'cp "$(python3 -c "import json, sys; print(json.load(sys.stdin)[\'transcript_path\'])")" seen.jsonl'
        },
    )
    door, session = await ran(house)
    asked, called, result, answered = seen(house)
    assert (asked["type"], asked["message"]["content"]) == ("user", "go")
    use = {"type": "tool_use", "id": "call_t1_1", "name": "Bash", "input": {"command": "echo one > one.txt"}}
    assert called["message"]["content"] == [use]
    assert result["message"]["content"][0]["tool_use_id"] == "call_t1_1"
    assert answered["message"]["content"] == [{"type": "text", "text": "done"}]
    await door.runtime.close()
    door = await house.open()
    await door.ask(session, "more")
    assert [one["message"]["content"] for one in seen(house)][:1] == ["go"]
    assert len(seen(house)) == 6
    folders = set(Path(tempfile.gettempdir()).glob(f"instar-transcripts-*/{session}.jsonl"))
    assert len(folders) == 1
    await door.runtime.close()
    assert not any(path.exists() for path in folders)


async def test_rules_of_claude_code_run_side_by_side_and_are_weighed_in_their_order(house: Machine) -> None:
    # Each waits for the other: one after the other they would never end.
    waits = "touch {0}; while ! test -e {1}; do sleep 0.01; done; echo {0}"
    arm(
        house,
        {"UserPromptSubmit": [waits.format("a", "b"), waits.format("b", "a")]},
        ".claude/settings.json",
    )
    await ran(house, ENDLESS)
    first = house.requests()[0]["messages"][0]["content"]
    assert first.index(">\na\n<") < first.index(">\nb\n<")


@pytest.mark.parametrize("file", [".instar/hooks.json", ".openhands/hooks.json"])
async def test_other_rules_run_one_after_the_other_until_one_refuses(house: Machine, file: str) -> None:
    arm(
        house,
        {"PreToolUse": ["sleep 0.1; echo 1 >> order", "echo 2 >> order; exit 2", "echo 3 >> order"]},
        file,
    )
    await ran(house)
    assert (house.folder / "order").read_text().split() == ["1", "2"]


@pytest.mark.slow
async def test_async_rules_are_bounded_in_number_and_what_is_not_started_is_said(house: Machine) -> None:
    arm(house, {"Stop": [{"command": "sleep 60", "async": True}] * 18})
    door, _ = await ran(house, ENDLESS)
    await door.until(lambda event: event.type == "hooks.ran" and len(door.of("hooks.ran")) == 2)
    assert {one.error for one in door.of("hooks.ran")} == {"not started: 16 async rules run already"}


async def test_aborting_the_turn_ends_a_rule_and_its_program_within_a_second(house: Machine) -> None:
    arm(house, {"PreToolUse": "echo $$ > pid; sleep 60"})
    house.says(CALLS)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    pid = await written(house.folder / "pid")
    started = time.monotonic()
    await door.client.abort(session)
    assert time.monotonic() - started < SOON
    await until(lambda: not lives(pid))
    assert not (house.folder / "one.txt").exists()


async def written(path: Path) -> int:
    """Wait for the number that a program writes into a file."""
    async with asyncio.timeout(TIMEOUT):
        while not path.exists() or not path.read_text().strip():
            await asyncio.sleep(0.01)
    return int(path.read_text())


async def test_a_call_that_a_tool_makes_is_judged_as_one_of_the_models(house: Machine) -> None:
    house.plugin("""
        from instar.plugin import Tool

        async def mine(input, options):
            async def twice(args, ctx):
                return (await ctx.invoke("bash", {"command": "echo two > two.txt"})).output

            return {"tool": {"twice": Tool("Runs a command.", {"type": "object"}, twice)}}
    """)
    arm(
        house,
        {"PreToolUse": {"matcher": "Bash", "hooks": [{"command": answer(decision="ask", reason="sure?")}]}},
    )
    house.settings(permission={"*": "allow"})
    asked = []

    async def person(question: Any) -> str:
        asked.append(question.metadata["reason"])
        return "once"

    house.says("== turn\ntool: twice {}\n\n== turn\ntext: done\n")
    door = await house.open(person=person)
    await door.ask(await door.session(), "go")
    assert asked == ["sure?"]
    assert (house.folder / "two.txt").exists()


async def test_a_rule_may_leave_a_heartbeat_out(house: Machine) -> None:
    arm(house, {"Heartbeat": [LOG, "grep -q noisy && { echo 'quiet hours' >&2; exit 2; }; exit 0"]})
    house.says(ENDLESS)
    door = await house.open()
    session = await door.session()

    async def beat(text: str) -> None:
        about = HeartbeatInput(number=7, session_id=session, system=[], user=text)
        await door.runtime.instance.plugins.trigger(HEARTBEAT, about, points.Empty())

    await beat("look around")
    with pytest.raises(Refused, match="quiet hours"):
        await beat("be noisy")
    assert [(one["title"], one["prompt"]) for one in seen(house)] == [
        ("heartbeat 7", "look around"),
        ("heartbeat 7", "be noisy"),
    ]
