"""What a plugin, a client or an imported file may do wrong in a session, and what becomes of the turn."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests import started

from instar.plugin import PromptBody
from instar.testing import Machine, results, said, users

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: re {{user}}\n'
DATA = Path(__file__).parents[1] / "data"


def plugin(body: str, hook: str, more: str = "") -> str:
    """A plugin whose one hook is `body`."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return (
        "import asyncio\n\nasync def mine(input, options):\n    kept = []\n"
        f"    async def hook(given, output):\n{lines}\n"
        f"    return {{'{hook}': hook{more}}}\n"
    )


@pytest.mark.parametrize(
    ("hook", "body"),
    [
        ("chat.messages.transform", "output.messages = 'nonsense'"),
        ("chat.messages.transform", "output.messages.append(5)"),
        ("chat.messages.transform", "output.messages[0].parts[0].text = {'no': 'text'}"),
        ("chat.messages.transform", "output.messages[0].parts.append({'type': 'text'})"),
        ("chat.system.transform", "output.system = 5"),
        ("chat.system.transform", "output.system.append(object())"),
        ("chat.params", "output.temperature = 'hot'"),
        ("chat.headers", "output.headers['x'] = 1"),
        ("chat.headers", "output.headers['x y'] = 'z'"),
        ("chat.headers", "output.headers['x'] = 'one\\ntwo'"),
        ("chat.headers", "output.headers['x'] = 'caf\u00e9'"),
        ("text.complete", "output.text = None"),
        ("tool.definition", "output.parameters = []"),
    ],
)
async def test_nonsense_in_an_output_is_discarded_and_named(house: Machine, hook: str, body: str) -> None:
    house.says(ECHO)
    house.plugin(plugin(body, hook))
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "re hi"
    errors = door.of("plugin.error")
    assert errors
    assert {error.plugin for error in errors} == {"mine"}
    assert house.requests()[0]["messages"] == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    "body", ["output.env['A=B'] = 'x'", "output.env[''] = 'x'", "output.env['A'] = 'x\\0y'"]
)
async def test_a_variable_that_no_child_can_have_is_discarded_and_the_command_runs(
    house: Machine, body: str
) -> None:
    house.says('== turn\ntool: bash {"command": "echo hi"}\n\n== turn\ntext: done\n')
    house.plugin(plugin(body, "shell.env"))
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session)) == ["hi\n"]
    assert [(error.plugin, error.hook) for error in door.of("plugin.error")] == [("mine", "shell.env")]


async def test_what_a_plugin_changes_after_it_returned_changes_nothing(house: Machine) -> None:
    house.says('== turn\ntool: bash {"command": "true"}\n\n== turn\ntext: done\n')
    house.plugin(
        plugin(
            "for old in kept:\n    old.clear()\nkept.append(output.messages)\noutput.messages[0].parts[0].text += '!'",
            "chat.messages.transform",
        )
    )
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "done"
    sent = [
        [one["content"] for one in request["messages"] if one["role"] == "user"]
        for request in house.requests()
    ]
    assert sent == [["hi!"], ["hi!"]]
    assert users(await door.stored(session)) == ["hi"]


async def test_a_plugin_that_never_returns_is_ended_and_named(house: Machine) -> None:
    house.says(ECHO)
    house.plugin(plugin("await asyncio.Event().wait()", "chat.system.transform", ", 'timeout': 0.05"))
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "re hi"
    error = door.of("plugin.error")[0]
    assert (error.plugin, error.hook) == ("mine", "experimental.chat.system.transform")
    assert "did not return within 0.05 s" in error.message


async def test_a_gate_that_never_returns_refuses_and_the_model_reads_why(house: Machine) -> None:
    house.says('== turn\ntool: bash {"command": "touch made"}\n\n== turn\ntext: done\n')
    house.plugin(plugin("await asyncio.Event().wait()", "tool.execute.before", ", 'timeout': 0.05"))
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    assert "did not return within 0.05 s" in results(await door.stored(session))[0]
    assert not (house.folder / "made").exists()


async def test_a_prompt_of_five_megabytes_is_kept_and_answered(house: Machine) -> None:
    house.says("== turn\ntext: read\n")
    door = await house.open()
    session = await door.session()
    text = "five megabytes " * (5_000_000 // 15)
    assert said(await door.ask(session, text)) == "read"
    assert house.requests()[0]["messages"][0]["content"] == text
    await door.runtime.close()
    again = await house.open()
    assert users(await again.client.messages(session)) == [text]


async def test_a_file_name_that_is_not_utf_8_reaches_the_model_with_a_mark(house: Machine) -> None:
    (house.folder / os.fsdecode(b"odd\xff.txt")).write_text("hello")
    failing = {"filePath": f"{house.folder}/gone/../odd"}
    house.says(
        f"""
        == turn
        tool: list {{}}
        tool: glob {{"pattern": "*"}}
        tool: read {{"filePath": "."}}
        tool: read {json.dumps(failing)}

        == turn
        text: seen

        == turn
        text: seen again
        """
    )
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "look")) == "seen"
    assert all("odd\ufffd.txt" in output for output in results(await door.stored(session)))
    folder = {"type": "file", "mime": "application/x-directory", "url": house.folder.as_uri()}
    again = await door.client.prompt(session, PromptBody(parts=[folder]))
    assert said(again) == "seen again"
    assert await door.stored(session) == (await door.live(session)).history


@pytest.mark.parametrize("state", [
    {"status": "pending", "input": {}, "raw": ""},
    {"status": "running", "input": {"command": "ls"}, "time": {"start": 1}},
])  # fmt: skip
def test_a_call_without_a_result_in_an_imported_history_is_sent_as_interrupted(
    house: Machine, state: dict[str, Any]
) -> None:
    plain = json.loads((DATA / "opencode-export.json").read_text())
    calls = [part for one in plain["messages"] for part in one["parts"] if part["type"] == "tool"]
    calls[0]["state"] = state
    path = house.folder / "one.json"
    path.write_text(json.dumps(plain))
    house.says("== turn\nexpect: and now\ntext: Now this.\n")
    instar(house, "import", str(path))
    name = plain["info"]["id"]
    assert (
        instar(house, "run", "-s", name, "-m", "scripted/x", "--agent", "build", "and now?") == "Now this.\n"
    )
    messages = house.requests()[-1]["messages"]
    asked = [call["id"] for one in messages for call in one.get("tool_calls") or []]
    answered = {one["tool_call_id"]: one["content"] for one in messages if one["role"] == "tool"}
    assert asked == list(answered)
    assert len(asked) == len(calls)
    assert "interrupted" in answered[calls[0]["callID"]]


def instar(house: Machine, *arguments: str) -> str:
    """Run a command to its end and return what it printed."""
    done = started.run([*arguments], cwd=house.folder, environment=house.environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()
