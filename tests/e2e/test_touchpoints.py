"""Each hook point of a turn, used by plugins in a project's files, and what the turn leaves in the database."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.running import lives

from instar.message import text_of
from instar.plugin import points
from instar.testing import Machine, said, users

pytest_plugins = ["tests.turn"]

HUD = """
    from instar.plugin import message, ids

    async def hud(input, options):
        last = None
        count = 0

        async def transform(given, output):
            nonlocal last, count
            count += 1
            output.messages[:] = [one for one in output.messages if one.info.id != last]
            calls = [
                f"{part.tool} {part.state.status}"
                for one in output.messages
                if one.info.role == "assistant"
                for part in one.parts
                if part.type == "tool"
            ]
            asked = next(one for one in output.messages if one.info.role == "user")
            fresh = asked.copy()
            fresh.info.id = last = ids.new("msg")
            fresh.parts = [message.TextPart(
                id=ids.new("prt"), session_id=fresh.info.session_id, message_id=last, synthetic=True,
                text=f"HUD {count}: {', '.join(calls) or 'no calls'}",
            )]
            output.messages.append(fresh)

        return {"experimental.chat.messages.transform": transform}
"""
SCRIPT = """
    == turn
    text: I look.
    tool: bash {"command": "echo hi"}
    tool: read {"filePath": "gone.txt"}

    == turn
    text: done

    == turn
    text: again
"""


def texts(request: dict[str, Any]) -> list[str]:
    return [str(one["content"]) for one in request["messages"] if one["role"] == "user"]


async def test_a_hud_is_put_in_anew_at_each_step_and_leaves_no_trail(house: Machine) -> None:
    house.says(SCRIPT)
    house.plugin(HUD)
    door = await house.open()
    assert door.runtime.notices == []
    session = await door.session()
    await door.ask(session, "go")
    await door.ask(session, "and then")
    assert [texts(request) for request in house.requests()] == [
        ["go", "HUD 1: no calls"],
        ["go", "HUD 2: bash completed, read error"],
        ["go", "and then", "HUD 3: bash completed, read error"],
    ]
    assert users(await door.stored(session)) == ["go", "and then"]


async def test_a_plugin_takes_messages_out_and_puts_others_in_their_place(house: Machine) -> None:
    house.says('== when ""\ntext: re {{user}}\n')
    house.plugin("""
        async def edit(input, options):
            async def transform(given, output):
                del output.messages[:-1]
                replaced = output.messages[0].copy()
                replaced.parts[0].text = "[" + replaced.parts[0].text + "]"
                output.messages[0] = replaced

            return {"chat.messages.transform": transform}
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "one")
    assert said(await door.ask(session, "two")) == "re [two]"
    assert [texts(request) for request in house.requests()] == [["[one]"], ["[two]"]]
    assert users(await door.stored(session)) == ["one", "two"]


async def test_a_turn_leaves_opencodes_rows_in_the_database(
    house: Machine, request: pytest.FixtureRequest
) -> None:
    house.says(SCRIPT)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    await door.runtime.close()
    request.addfinalizer(
        (rows := sqlite3.connect(f"file:{house.data / 'instar.db'}?mode=ro", uri=True)).close
    )
    rows.row_factory = sqlite3.Row
    (row,) = rows.execute("SELECT * FROM session WHERE id = ?", (session,)).fetchall()
    assert (row["directory"], row["title"], row["parent_id"]) == (str(house.folder), "named", None)
    assert row["slug"]
    assert row["version"]
    messages = [json.loads(one["data"]) for one in rows.execute("SELECT * FROM message ORDER BY id")]
    assert set(messages[0]) - {"summary"} == {"role", "time", "agent", "model"}
    assert set(messages[1]) >= {
        *("role", "time", "parentID", "modelID", "providerID", "mode", "agent", "path", "cost", "tokens"),
        "finish",
    }
    parts = [json.loads(one["data"]) for one in rows.execute("SELECT * FROM part ORDER BY id")]
    assert not {"id", "sessionID", "messageID"} & {key for one in [*messages, *parts] for key in one}
    done, failed = (one for one in parts if one["type"] == "tool")
    assert {**done, "callID": "", "state": {**done["state"], "time": {}, "metadata": {}}} == {
        "type": "tool",
        "callID": "",
        "tool": "bash",
        "state": {
            "status": "completed",
            "input": {"command": "echo hi"},
            "output": "hi\n",
            "title": "echo hi",
            "metadata": {},
            "time": {},
        },
    }
    assert set(done["state"]["time"]) == {"start", "end"}
    assert failed["state"]["status"] == "error"
    assert "gone.txt" in failed["state"]["error"]


OPTIONS = """
async def NAME(input, options):
    async def system(given, output):
        output.system.append(f"NAME {options}")

    return {"experimental.chat.system.transform": system}
"""


async def test_plugins_are_named_in_opencode_json_by_path_url_and_with_options(house: Machine) -> None:
    house.says(SCRIPT)
    written(house.folder / "plugins" / "near.py", "near")
    far = written(house.folder.parent / "far.py", "far")
    listed = ["./plugins/near.py", [far.as_uri(), {"option1": "value1"}]]
    (house.folder / "opencode.json").write_text(json.dumps({"plugin": listed}))
    door = await house.open()
    assert door.runtime.notices == []
    await door.ask(await door.session(), "go")
    assert house.requests()[0]["system"][1:] == ["near {}", "far {'option1': 'value1'}"]


def written(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(OPTIONS.replace("NAME", name))
    return path


async def test_a_plugin_asks_the_client_about_sessions_messages_and_parts(house: Machine) -> None:
    house.says(SCRIPT)
    house.plugin("""
        import json

        async def curious(input, options):
            async def event(event):
                if event.type != "session.idle":
                    return
                name = event.properties.session_id
                found = {
                    "title": (await input.client.session.get(name)).title,
                    "listed": [one.id for one in await input.client.session.list()],
                    "parts": [part.type for one in await input.client.session.messages(name) for part in one.parts],
                }
                (input.directory / "found.json").write_text(json.dumps(found))

            return {"event": event}
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    await door.runtime.close()
    found = json.loads((house.folder / "found.json").read_text())
    assert (found["title"], found["listed"]) == ("named", [session])
    assert found["parts"] == [
        *("text", "step-start", "text", "tool", "tool", "step-finish"),
        *("step-start", "text", "step-finish"),
    ]


async def test_a_plugin_tells_a_busy_session_from_an_idle_one(house: Machine) -> None:
    house.says(SCRIPT)
    house.plugin("""
        import json

        async def listen(input, options):
            heard = []

            async def event(event):
                if event.type == "session.status":
                    heard.append(event.properties.status.type)
                if event.type in ("session.status", "session.idle"):
                    heard.append(event.to_plain())

            async def dispose():
                (input.directory / "heard.json").write_text(json.dumps(heard))

            return {"event": event, "dispose": dispose}
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    await door.runtime.close()
    heard = json.loads((house.folder / "heard.json").read_text())
    assert set(heard[:-3:2]) == {"busy"}
    assert [one if isinstance(one, str) else (one["type"], one["properties"]) for one in heard[-3:]] == [
        "idle",
        ("session.status", {"sessionID": session, "status": {"type": "idle"}}),
        ("session.idle", {"sessionID": session}),
    ]


async def test_a_plugin_reads_the_name_of_the_error_that_ended_a_turn(house: Machine) -> None:
    house.says("== turn\nerror: 400 no such model\n")
    house.plugin("""
        async def watch(input, options):
            async def event(event):
                if event.type == "session.error":
                    (input.directory / "error.txt").write_text(event.properties.error.name)

            return {"event": event}
    """)
    door = await house.open()
    await door.ask(await door.session(), "go")
    await door.runtime.close()
    assert (house.folder / "error.txt").read_text() == "APIError"


@pytest.mark.slow
def test_a_plugin_changes_the_system_prompt_by_which_an_agent_is_made(house: Machine) -> None:
    made = {"name": "poet", "description": "rhymes", "prompt": "You rhyme."}
    house.says(
        f"== generate\nexpect_system: the hook was here, without a session\ntext: {json.dumps(made)}\n"
    )
    house.plugin("""
        async def mine(input, options):
            async def system(given, output):
                if given.purpose == "agent" and given.session_id is None:
                    output.system.append("the hook was here, without a session")

            return {"chat.system.transform": system}
    """)
    done = subprocess.run(
        [sys.executable, "-m", "instar", "agent", "create", "-m", "scripted/x", "rhymes"],
        cwd=house.folder,
        env=house.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "You rhyme." in (house.folder / ".instar/agent/poet.md").read_text()


async def test_a_plugin_runs_commands_and_a_program_that_ends_with_it(house: Machine) -> None:
    house.says(SCRIPT)
    house.plugin("""
        import asyncio, json

        async def server(input, options):
            input.shell.background(["sh", "-c", "echo $$ > half; mv half pid; exec sleep 600"])
            while not (input.directory / "pid").exists():
                await asyncio.sleep(0.01)
            seen = {
                "text": (await input.shell("echo $NAME; pwd", env={"NAME": "ada"}, cwd=input.directory)).lines(),
                "json": (await input.shell("cat", stdin='{"a": 1}')).json(),
                "code": (await input.shell("exit 3", nothrow=True)).code,
                "url": input.server_url(),
            }
            try:
                await input.shell("echo why >&2; exit 4")
            except Exception as error:
                seen["error"] = str(error)
            (input.directory / "seen.json").write_text(json.dumps(seen))
            return {}
    """)
    door = await house.open()
    assert door.runtime.notices == []
    seen = json.loads((house.folder / "seen.json").read_text())
    assert seen["text"] == ["ada", str(house.folder)]
    assert (seen["json"], seen["code"], seen["url"]) == ({"a": 1}, 3, None)
    assert "why" in seen["error"]
    await door.ask(await door.session(), "go")
    pid = int((house.folder / "pid").read_text())
    assert lives(pid)
    await door.runtime.close()
    assert not lives(pid)


async def test_a_plugin_is_given_what_stands_since_the_last_summary(house: Machine) -> None:
    house.says('== when ""\ntext: re {{user}}\n\n== compaction\ntext: the summary\n')
    door = await house.open()
    session = await door.session()
    given: list[list[str]] = []

    async def look(_: Any, output: points.MessagesOutput) -> None:
        given.append([text_of(message) for message in output.messages])

    await door.ask(session, "old")
    await door.client.summarize(session)
    door.plugin({"chat.messages.transform": look})
    await door.ask(session, "new")
    assert given == [["", "the summary", "new"]]
