"""The kit that tests are made with does what docs/guides/testing.md says."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from instar.event import PermissionAsked
from instar.testing import FakeClock, Machine, calls_of, results, said, until, users

CALL = 'tool: bash {"command": "echo it ran"}'


async def test_a_story_is_played_and_told(tmp_path: Path) -> None:
    async with Machine(tmp_path) as machine:
        machine.says(f"""
            == turn
            {CALL}
            == turn
            text: The tool said {{{{tool}}}}.
        """)
        runtime = await machine.open()
        session = await runtime.session()
        await runtime.start(session, "go")
        call = await runtime.running()
        await runtime.idle(session)
        history = await runtime.stored(session)
        assert users(history) == ["go"]
        assert results(history) == ["it ran\n"]
        assert [part.call_id for message in history for part in calls_of(message)] == [call.call_id]
        assert said(history[-1]) == "The tool said it ran\n."
        assert runtime.types()[0] == "session.created"
        assert [given.session_id for given in runtime.of("session.idle")] == [session]
        assert [len(asked["messages"]) for asked in machine.requests()] == [1, 3]
        assert machine.requests("title") == []


async def test_asks_are_refused_unless_a_person_answers(tmp_path: Path) -> None:
    asked: list[PermissionAsked] = []

    async def person(question: PermissionAsked) -> str:
        asked.append(question)
        return "once"

    async with Machine(tmp_path) as machine:
        machine.settings(permission={"bash": "ask"})
        machine.says(f"== turn\n{CALL}\n== turn\ntext: done\n")
        for answers, told in ((None, "nobody"), (person, "it ran")):
            runtime = await machine.open(person=answers)
            session = await runtime.session()
            await runtime.ask(session, "go")
            assert told in results(await runtime.stored(session))[0].lower()
    assert [question.permission for question in asked] == ["bash"]


async def test_a_plugin_of_an_untrusted_project_waits_for_trust(tmp_path: Path) -> None:
    async with Machine(tmp_path, trusted=False) as machine:
        machine.plugin("""
            async def loud(input, options):
                async def complete(given, output):
                    output.text += "!"

                return {"text.complete": complete}
        """)
        machine.says("== turn\ntext: hello\n")
        for expected in ("hello", "hello!"):
            runtime = await machine.open()
            assert said(await runtime.ask(await runtime.session(), "hi")) == expected
            machine.trust()


async def test_a_workspace_brings_its_scripts_tools(tmp_path: Path) -> None:
    script = """
        #!/bin/sh
        case "$1" in
        discover) echo '{"name": "bot", "tools": [{"name": "hello", "description": "Greets.", "parameters": {}}]}';;
        execute_tool) echo '{"result": "Hello!"}';;
        *) echo '{"error": "unknown hook"}'; exit 1;;
        esac
    """
    async with Machine(tmp_path) as machine:
        workspace = machine.workspace({"hooks/bot.sh": script.lstrip()})
        machine.says("== turn\ntool: bot_hello {}\n== turn\ntext: done\n")
        runtime = await machine.open()
        session = await runtime.session()
        await runtime.ask(session, "go")
        assert results(await runtime.stored(session)) == ["Hello!"]
        assert (workspace / ".git").is_dir()


async def test_commands_run_in_the_project(tmp_path: Path) -> None:
    async with Machine(tmp_path) as machine:
        machine.says("== turn\nexpect: from stdin\ntext: I see.\n")
        machine.write("note.txt", "hello")
        root = machine.repository()
        done = machine.run("run", "-m", "scripted/x", stdin="from stdin")
        assert (done.returncode, done.stdout) == (0, "I see.\n")
        tracked = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True)
        assert tracked.stdout == "note.txt\n"


async def test_what_was_and_what_comes_is_waited_for(tmp_path: Path) -> None:
    async with Machine(tmp_path) as machine:
        machine.says("== turn\ntext: done\n")
        runtime = await machine.open()
        heard: list[str] = []

        async def go(given: object, output: object) -> None:
            heard.append("message")

        runtime.plugin({"chat.message": go})
        session = await runtime.session()
        waits = asyncio.create_task(runtime.until(lambda event: event.type == "session.idle"))
        await runtime.start(session, "go")
        assert await until(lambda: heard) == ["message"]
        assert (await waits).session_id == session
        assert (await runtime.until(lambda event: event.type == "session.created")).session_id == session


async def test_an_unanswered_prompt_is_an_error_with_its_text(tmp_path: Path) -> None:
    async with Machine(tmp_path) as machine:
        machine.says("== turn\ntext: done\n")
        runtime = await machine.open()
        with pytest.raises(AssertionError, match="nobody answered 'quiet'"):
            await runtime.ask(await runtime.session(), "quiet", no_reply=True)


async def test_a_clock_moves_when_it_is_moved() -> None:
    clock, wake = FakeClock(5000), asyncio.Event()
    clock.advance(1.5)
    await clock.pause(wake, 2)
    assert (clock(), clock.wall(), clock.steady()) == (8.5, 8500, 3.5)
    wake.set()
    await clock.pause(wake, 60)
    clock.now = 0
    assert (clock.wall(), clock.steady()) == (0, 3.5)


def test_the_kit_needs_no_test_runner() -> None:
    program = "import sys, instar.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
