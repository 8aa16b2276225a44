"""``instar acp``: an editor's side of the Agent Client Protocol, played by the library's own client."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema
from acp.client.connection import ClientSideConnection
from tests.cli.conftest import Machine
from tests.clients import exchange
from tests.server.conftest import LOGIN
from tests.waiting import SOON, until

from instar.wire import parse

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
ASK = {"permission": {"edit": "ask", "bash": "ask"}, "model": "scripted/test"}


class Editor:
    """What an editor does: it keeps what it is told, and answers what it is asked by the kind of the options."""

    def __init__(self, kind: str = "allow_once") -> None:
        self.kind = kind
        self.told: list[tuple[str, Any]] = []
        self.asked: list[Any] = []
        self.options: list[Any] = []
        self.held: dict[str, str] = {}
        self.answers = asyncio.Event()
        self.answers.set()

    def on_connect(self, conn: object) -> None: ...

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.told.append((session_id, update))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        self.options.append(options)
        await self.answers.wait()
        chosen = next((one.option_id for one in options if one.kind == self.kind), None)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> schema.ReadTextFileResponse:
        if path not in self.held:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.held[path])

    def of(self, kind: type[Any], session_id: str = "") -> list[Any]:
        """The updates of a kind, of one session or of all."""
        return [one for where, one in self.told if isinstance(one, kind) and session_id in ("", where)]

    def said(self, session_id: str = "") -> str:
        """What the agent said."""
        return "".join(one.content.text for one in self.of(schema.AgentMessageChunk, session_id))

    def calls(self) -> list[Any]:
        """All that was told of tool calls."""
        return self.of((schema.ToolCallStart, schema.ToolCallProgress))  # type: ignore[arg-type]


class Opened:
    """A connection, with its first session."""

    def __init__(self, editor: Editor, agent: ClientSideConnection, process: Any, folder: Path) -> None:
        self.editor, self.agent, self.process, self.folder = editor, agent, process, folder
        self.session: Any = None

    @property
    def id(self) -> str:
        return str(self.session.session_id)

    async def begin(self) -> Any:
        self.session = await self.agent.new_session(cwd=str(self.folder), mcp_servers=[])
        return self.session

    async def prompt(self, *blocks: Any) -> str:
        given = [acp.text_block(one) if isinstance(one, str) else one for one in blocks]
        return str((await self.agent.prompt(session_id=self.id, prompt=given)).stop_reason)


@asynccontextmanager
async def connected(
    machine: Machine, editor: Editor, *arguments: str, capabilities: Any = None, **more: Any
) -> AsyncIterator[Opened]:
    async with acp.spawn_agent_process(
        editor,  # type: ignore[arg-type]
        sys.executable,
        *("-m", "instar", "acp", *arguments),
        env=machine.environment,
        cwd=machine.project,
        use_unstable_protocol=True,
        **more,
    ) as (agent, process):
        answer = await agent.initialize(protocol_version=1, client_capabilities=capabilities)
        assert answer.protocol_version == 1
        yield Opened(editor, agent, process, machine.project)


@pytest.fixture
def editor() -> Editor:
    return Editor()


Open = Callable[..., Any]


@pytest.fixture
async def opened(machine: Machine, editor: Editor) -> AsyncIterator[Open]:
    """Start `instar acp` and begin a session; `script` is what its model says."""
    async with AsyncExitStack() as stack:

        async def start(
            script: str, *arguments: str, settings: Any = ASK, capabilities: Any = None
        ) -> Opened:
            machine.script(script)
            machine.write_home("instar.json", json.dumps(settings))
            connection = connected(machine, editor, *arguments, capabilities=capabilities)
            made = await stack.enter_async_context(connection)
            await made.begin()
            return made

        yield start


WRITES = """
== turn
reasoning: I think.
text: I write.
tool: write {"filePath": "a.txt", "content": "hello\\nworld\\n"}
== turn
text: Done.
"""


@pytest.mark.slow
async def test_a_prompt_is_answered_with_chunks_thoughts_and_a_tool_call_with_its_diff(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    there = await opened(WRITES)
    assert await there.prompt("go") == "end_turn"
    assert editor.said() == "I write.Done."
    assert "".join(one.content.text for one in editor.of(schema.AgentThoughtChunk)) == "I think."
    (asked,) = editor.asked
    assert asked.kind == "edit"
    assert asked.content[0].path == str(machine.project / "a.txt")
    assert [one.kind for one in editor.options[0]] == ["allow_once", "allow_always", "reject_once"]
    calls = editor.calls()
    assert calls[0].session_update == "tool_call"
    assert calls[0].tool_call_id == asked.tool_call_id
    assert [one.status for one in calls] == ["pending", "in_progress", "completed"]
    (diff,) = calls[-1].content
    assert (diff.old_text, diff.new_text) == (None, "hello\nworld")
    assert calls[-1].locations[0].path == str(machine.project / "a.txt")
    assert (machine.project / "a.txt").read_text() == "hello\nworld\n"
    assert "init" in [one.name for one in editor.of(schema.AvailableCommandsUpdate)[0].available_commands]


@pytest.mark.slow
async def test_what_is_rejected_is_not_done_and_always_is_asked_once(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    editor.kind = "reject_once"
    there = await opened(WRITES + WRITES + WRITES)
    assert await there.prompt("go") == "end_turn"
    assert not (machine.project / "a.txt").exists()
    assert editor.calls()[-1].status == "failed"
    editor.kind = "allow_always"
    await there.begin()
    await there.prompt("go")
    await there.begin()
    await there.prompt("go")
    assert len(editor.asked) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["allow_once", "reject_once"])
async def test_what_a_call_made_that_would_run_later_is_kept_only_if_the_person_says_so(
    opened: Open, machine: Machine, editor: Editor, kind: str
) -> None:
    subprocess.run(["git", "init", "-q", machine.project], check=True, env=machine.environment)
    editor.kind = kind
    call = {"command": "echo lint > .git/hooks/pre-commit"}
    there = await opened(
        f"== turn\ntool: bash {json.dumps(call)}\n== turn\ntext: Done.\n", settings={"model": "scripted/test"}
    )
    assert await there.prompt("go") == "end_turn"
    (asked,) = editor.asked
    assert [one.kind for one in editor.options[0]] == ["allow_once", "reject_once"]
    assert "pre-commit" in str(asked.content)
    assert (machine.project / ".git/hooks/pre-commit").exists() == (kind == "allow_once")
    thoughts = "".join(one.content.text for one in editor.of(schema.AgentThoughtChunk))
    assert ("instar aside restore" in thoughts) == (kind == "reject_once")


@pytest.mark.slow
async def test_a_program_of_the_models_is_not_asked_whether_what_runs_later_is_kept(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    subprocess.run(["git", "init", "-q", machine.project], check=True, env=machine.environment)
    machine.environment["INSTAR_RUN"] = "run_1"
    call = {"command": "echo lint > .git/hooks/pre-commit"}
    there = await opened(
        f"== turn\ntool: bash {json.dumps(call)}\n== turn\ntext: Done.\n", settings={"model": "scripted/test"}
    )
    assert await there.prompt("go") == "end_turn"
    assert not editor.asked
    assert not (machine.project / ".git/hooks/pre-commit").exists()


@pytest.mark.slow
async def test_an_answer_that_is_none_of_the_options_is_a_rejection(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    editor.kind = "no such kind"
    there = await opened(WRITES)
    await there.prompt("go")
    assert not (machine.project / "a.txt").exists()


@pytest.mark.slow
async def test_a_turn_ends_within_a_second_when_it_is_cancelled(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    there = await opened(
        2 * '== turn\ntool: bash {"command": "sleep 1234.5"}\n',
        settings={"model": "scripted/test"},
    )
    turn = asyncio.create_task(there.prompt("go"))
    await until(lambda: machine.runs("sleep 1234.5"))
    begun = time.monotonic()
    await there.agent.cancel(session_id=there.id)
    assert await turn == "cancelled"
    assert time.monotonic() - begun < 1
    assert not machine.runs("sleep 1234.5")
    # So early that the turn has not begun.
    turn = asyncio.create_task(there.prompt("go"))
    await asyncio.sleep(0)
    await there.agent.cancel(session_id=there.id)
    assert await asyncio.wait_for(turn, SOON) == "cancelled"


@pytest.mark.slow
async def test_a_turn_that_waits_for_a_permission_is_cancelled(opened: Open, editor: Editor) -> None:
    editor.answers.clear()
    there = await opened(WRITES)
    turn = asyncio.create_task(there.prompt("go"))
    await until(lambda: editor.asked)
    await there.agent.cancel(session_id=there.id)
    assert await asyncio.wait_for(turn, SOON) == "cancelled"


@pytest.mark.slow
async def test_a_session_is_listed_loaded_with_its_history_resumed_forked_and_closed(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    there = await opened(
        '== turn\ntool: todowrite {"todos": [{"content": "sow", "status": "in_progress", "priority": "high"}]}\n'
        "== turn\ntext: First.\n== turn\ntext: Second.\n== turn\ntext: Third.\n"
    )
    picture = acp.image_block(PNG, "image/png")
    await there.prompt("look", picture)
    (plan,) = editor.of(schema.AgentPlanUpdate)
    assert [(one.content, one.status, one.priority) for one in plan.entries] == [
        ("sow", "in_progress", "high")
    ]
    async with connected(machine, later := Editor()) as again:
        listed = (await again.agent.list_sessions(cwd=str(machine.project))).sessions
        assert [(one.session_id, one.cwd, one.title) for one in listed] == [
            (there.id, str(machine.project), "look")
        ]
        again.session = there.session
        loaded = await again.agent.load_session(cwd=str(machine.project), session_id=there.id)
        assert loaded.modes.current_mode_id == "build"
        blocks = [one.content for one in later.of(schema.UserMessageChunk)]
        assert blocks[0].text == "look"
        assert blocks[1].data == PNG
        assert later.said() == "First."
        assert later.calls()[-1].status == "completed"
        assert later.of(schema.AgentPlanUpdate)[0].entries == plan.entries
        assert await again.prompt("more") == "end_turn"
        assert later.said().endswith("Second.")
        # What was said there is not told to the other client's own session, only to who has it open: both.
        await until(lambda: editor.said().endswith("First."))
    forked = await there.agent.fork_session(cwd=str(machine.project), session_id=there.id)
    assert forked.session_id != there.id
    words = [acp.text_block("on")]
    assert (await there.agent.prompt(session_id=forked.session_id, prompt=words)).stop_reason == "end_turn"
    assert editor.said(forked.session_id) == "Third."
    await there.agent.close_session(session_id=there.id)
    with pytest.raises(acp.RequestError, match="is not open here"):
        await there.prompt("again")
    resumed = await there.agent.resume_session(cwd=str(machine.project), session_id=there.id)
    assert resumed.config_options


@pytest.mark.slow
async def test_agents_are_modes_and_the_model_and_its_variant_are_options(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    block = {"models": {"other": {"variants": {"high": {}}}}}
    there = await opened("== turn\ntext: As {{user}}.\n", settings={**ASK, "provider": {"scripted": block}})
    modes = there.session.modes
    assert modes.current_mode_id == "build"
    assert {one.id for one in modes.available_modes} >= {"build", "plan"}
    options = {one.id: one for one in there.session.config_options}
    assert options["model"].current_value == "scripted/test"
    assert options["mode"].category == "mode"
    await there.agent.set_session_mode(session_id=there.id, mode_id="plan")
    # A client may show the modes, the options or both.
    (told,) = editor.of(schema.ConfigOptionUpdate)
    assert told.config_options[0].current_value == "plan"
    await there.agent.set_config_option(session_id=there.id, config_id="mode", value="build")
    assert editor.of(schema.CurrentModeUpdate)[0].current_mode_id == "build"
    await there.agent.set_session_mode(session_id=there.id, mode_id="plan")
    changed = await there.agent.set_config_option(
        session_id=there.id, config_id="model", value="scripted/other"
    )
    assert {one.id: one.current_value for one in changed.config_options} == {
        "mode": "plan",
        "model": "scripted/other",
        "variant": "default",
    }
    await there.agent.set_config_option(session_id=there.id, config_id="variant", value="high")
    with pytest.raises(acp.RequestError, match="there is no mode 'nobody'"):
        await there.agent.set_session_mode(session_id=there.id, mode_id="nobody")
    await there.prompt("asked")
    shown = machine.instar("export", there.id)
    info = parse(shown.stdout.encode())["messages"][0]["info"]
    assert info["agent"] == "plan"
    assert info["model"] == {"providerID": "scripted", "modelID": "other", "variant": "high"}


@pytest.mark.slow
async def test_files_images_and_embedded_texts_go_with_a_prompt(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    record = machine.home / "record.jsonl"
    machine.environment["INSTAR_SCRIPT_RECORD"] = str(record)
    there = await opened("== turn\ntext: seen\n")
    noted = machine.write("note.txt", "buy milk")
    await there.prompt(
        "look",
        acp.resource_link_block("note.txt", noted.as_uri()),
        acp.resource_block(acp.embedded_text_resource("file:///other.txt", "not saved yet")),
        acp.image_block(PNG, "image/png"),
    )
    sent = record.read_text()
    assert "buy milk" in sent
    assert "not saved yet" in sent
    assert PNG in sent
    with pytest.raises(acp.RequestError, match="takes no audio"):
        await there.prompt(acp.audio_block("AAAA", "audio/wav"))


@pytest.mark.slow
async def test_a_command_is_carried_out(opened: Open, machine: Machine, editor: Editor) -> None:
    machine.write_home("command/greet.md", "---\ndescription: Greet somebody\n---\nGreet $1 warmly.")
    there = await opened('== when "Greet Ada warmly"\ntext: Hello, Ada!\n')
    (commands,) = await until(lambda: editor.of(schema.AvailableCommandsUpdate))
    greet = next(one for one in commands.available_commands if one.name == "greet")
    assert greet.description == "Greet somebody"
    assert greet.input is not None
    await there.prompt("/greet Ada")
    assert editor.said() == "Hello, Ada!"


@pytest.mark.slow
async def test_two_sessions_work_at_once_in_folders_of_their_own(
    opened: Open, machine: Machine, editor: Editor, tmp_path: Path
) -> None:
    (other := tmp_path / "other").mkdir()
    script = '== turn\ntool: bash {"command": "until test -e ../go; do sleep 0.05; done; pwd"}\n== turn\n'
    there = await opened(script + "text: In {{tool}}", settings={"model": "scripted/test"})
    second = (await there.agent.new_session(cwd=str(other), mcp_servers=[])).session_id
    words = [acp.text_block("go")]
    turns = [
        asyncio.create_task(there.agent.prompt(session_id=one, prompt=words)) for one in (there.id, second)
    ]
    await until(lambda: len([one for one in editor.calls() if one.status == "in_progress"]) >= 2)
    (tmp_path / "go").touch()
    assert [one.stop_reason for one in await asyncio.gather(*turns)] == ["end_turn", "end_turn"]
    assert editor.said(there.id).startswith(f"In {machine.project}")
    assert editor.said(second).startswith(f"In {other}")


@pytest.mark.slow
async def test_a_question_of_the_model_is_a_choice(opened: Open, editor: Editor) -> None:
    question = {
        "question": "Which colour?",
        "header": "Colour",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
    }
    there = await opened(
        f"== turn\ntool: question {json.dumps({'questions': [question]})}\n== turn\ntext: So {{{{tool}}}}\n"
    )
    await there.prompt("ask me")
    assert [one.name for one in editor.options[0]] == ["red", "blue", "No answer"]
    assert "red" in editor.said()


@pytest.mark.slow
async def test_an_untrusted_folder_is_said_before_the_first_answer_and_once(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    machine.write(".opencode/plugin/mine.py", "raise SystemExit")
    there = await opened("== turn\ntext: One.\n== turn\ntext: Two.\n")
    await there.prompt("go")
    await there.prompt("go")
    said = editor.said()
    assert said.startswith(f"instar: {machine.project} is not trusted")
    assert said.endswith("One.Two.")
    assert said.count("instar trust") == 1


@pytest.mark.slow
async def test_what_is_unsaved_in_the_editor_is_read_and_never_overwritten(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    can = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True))
    there = await opened(
        '== turn\ntool: read {"filePath": "a.txt"}\n== turn\n'
        'tool: edit {"filePath": "a.txt", "oldString": "saved", "newString": "changed"}\n'
        "== turn\ntext: {{tool}}\n"
        '== turn\ntool: read {"filePath": "a.txt"}\n'
        '== turn\ntool: edit {"filePath": "a.txt", "oldString": "saved", "newString": "changed"}\n'
        "== turn\ntext: {{tool}}\n",
        capabilities=can,
    )
    path = machine.write("a.txt", "saved\n")
    editor.held[str(path)] = "saved and more\n"
    await there.prompt("go")
    outputs = [one.raw_output["output"] for one in editor.calls() if one.raw_output]
    assert "1: saved and more" in outputs[0]
    assert "unsaved in the editor" in outputs[0]
    assert "Ask them to save it" in editor.calls()[-1].content[0].content.text
    assert path.read_text() == "saved\n"
    editor.held[str(path)] = "saved"  # without its line end, as some editors hold it
    await there.prompt("go")
    assert path.read_text() == "changed\n"


@pytest.mark.slow
async def test_an_mcp_server_that_the_client_hands_over_is_used(
    machine: Machine, opened: Open, editor: Editor
) -> None:
    there = await opened('== turn\ntool: calc_add {"a": 2, "b": 40}\n== turn\ntext: It is {{tool}}.\n')
    program = machine.write(
        "calc.py",
        "from mcp.server import MCPServer\nserver = MCPServer('calc')\n"
        "@server.tool()\ndef add(a: int, b: int) -> int:\n    '''Add.'''\n    return a + b\nserver.run()\n",
    )
    calc = schema.McpServerStdio(name="calc", command=sys.executable, args=[str(program)], env=[])
    lost = schema.McpServerStdio(name="lost", command="/no/such/program", args=[], env=[])
    there.session = await there.agent.new_session(cwd=str(machine.project), mcp_servers=[calc, lost])
    await there.prompt("add")
    assert "the MCP server lost is left out" in editor.said()
    assert editor.said().endswith("It is 42.")


@pytest.mark.slow
async def test_a_session_without_a_model_says_what_to_do_until_there_is_one(
    machine: Machine, editor: Editor
) -> None:
    async with connected(machine, editor) as there:
        with pytest.raises(acp.RequestError, match="instar auth login") as refused:
            await there.begin()
        assert refused.value.code == -32000
        with pytest.raises(acp.RequestError, match="no model can be called"):
            await there.agent.authenticate(method_id="key")
        machine.write_home("instar.json", '{"model": "scripted/echo"}')
        await there.agent.authenticate(method_id="key")
        await there.begin()
        assert await there.prompt("hello") == "end_turn"
        assert editor.said() == "hello"


@pytest.mark.slow
async def test_an_error_of_a_turn_is_an_error_of_its_prompt(opened: Open, editor: Editor) -> None:
    there = await opened(
        '== when "first"\nerror: auth the key is wrong\n== when "second"\ntext: cut\nfinish: length\n'
    )
    with pytest.raises(acp.RequestError, match="the key is wrong"):
        await there.prompt("first")
    assert await there.prompt("second") == "max_tokens"


@pytest.mark.slow
async def test_a_server_is_worked_in_and_another_clients_prompt_is_seen(
    machine: Machine, editor: Editor, serve: Callable[..., Any]
) -> None:
    server = serve(script="== turn\ntext: From there.\n== turn\ntext: And again.\n")
    (server.directory / "opencode.json").write_text('{"model": "scripted/test"}')
    machine.environment["INSTAR_SERVER_PASSWORD"] = LOGIN[1]
    async with connected(machine, editor, "--attach", server.url) as there:
        there.folder = server.directory
        await there.begin()
        assert await there.prompt("go") == "end_turn"
        assert editor.said().endswith("From there.")
        await asyncio.to_thread(server.ask, there.id, "from elsewhere")
        await until(lambda: editor.said().endswith("And again."))
        assert [one.content.text for one in editor.of(schema.UserMessageChunk)] == ["from elsewhere"]


@pytest.mark.slow
async def test_the_exchange_with_the_librarys_own_client_is_as_it_was_recorded(machine: Machine) -> None:
    messages: list[Any] = []

    def heard(one: Any) -> None:
        messages.append({"to": "client" if one.direction == "incoming" else "agent", "message": one.message})

    machine.script(exchange.STORY)
    machine.write_home("instar.json", json.dumps(exchange.SETTINGS))
    editor, folder = Editor(), str(machine.project)
    async with connected(machine, editor, observers=[heard]) as there:
        session = (await there.begin()).session_id
        await there.prompt("write")
        editor.kind = "reject_once"
        await there.prompt("write")
        await there.agent.set_session_mode(session_id=session, mode_id="plan")
        await there.agent.set_config_option(session_id=session, config_id="mode", value="build")
        turn = asyncio.create_task(there.prompt("sleep"))
        await until(
            lambda: editor.calls()[-1].kind == "execute" and editor.calls()[-1].status == "in_progress"
        )
        await there.agent.cancel(session_id=session)
        await turn
        await there.agent.list_sessions(cwd=folder)
        await there.agent.load_session(session_id=session, cwd=folder, mcp_servers=[])
        await there.agent.close_session(session_id=session)
        await there.agent.resume_session(session_id=session, cwd=folder, mcp_servers=[])
    found, recorded = exchange.compared(messages)
    assert found == recorded


class Raw:
    """`instar acp` without a client: lines in, lines out."""

    def __init__(self, machine: Machine, process: asyncio.subprocess.Process) -> None:
        self.machine, self.process = machine, process

    async def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n".join(lines) + b"\n")
        await self.process.stdin.drain()

    async def receive(self) -> Any:
        assert self.process.stdout is not None
        return parse(await asyncio.wait_for(self.process.stdout.readline(), SOON * 3))

    async def ask(self, method: str, **params: Any) -> Any:
        await self.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode())
        while (found := await self.receive()).get("id") != 7:
            pass
        return found


@pytest.fixture
async def raw(machine: Machine) -> AsyncIterator[Raw]:
    machine.write_home("instar.json", '{"model": "scripted/test"}')
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "instar", "acp"),
        env=machine.environment,
        cwd=machine.project,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr,
        limit=1 << 26,
    )
    yield Raw(machine, process)
    if process.returncode is None:
        process.kill()
    await process.wait()
    process._transport.close()  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_garbage_is_answered_and_what_follows_it_is_carried_out(raw: Raw) -> None:
    await raw.send(
        b"{", b"[1]", b"3", b'{"id": [], "method": "initialize"}', b"\xff\xfe", b"[" * 100_000, b'{"id": {}}'
    )
    codes = [(await raw.receive())["error"]["code"] for _ in range(7)]
    assert sorted(codes) == sorted([-32700, -32600, -32600, -32600, -32700, -32700, -32600])
    assert (await raw.ask("no/such"))["error"]["code"] == -32601
    assert (await raw.ask("session/new", cwd=5))["error"]["code"] == -32602
    assert (await raw.ask("session/new", cwd="/no/such/folder", mcpServers=[]))["error"]["code"] == -32602
    assert (await raw.ask("session/prompt", sessionId="ses_none", prompt=[]))["error"]["code"] == -32002
    assert (await raw.ask("session/list", cursor="x"))["error"]["code"] == -32602
    assert (await raw.ask("initialize", protocolVersion=1))["result"]["protocolVersion"] == 1


@pytest.mark.slow
async def test_a_client_that_goes_away_ends_its_turns_and_the_process(raw: Raw, machine: Machine) -> None:
    machine.script('== turn\ntool: bash {"command": "sleep 4321.5"}\n')
    raw.process.kill()
    await raw.process.wait()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "instar", "acp"),
        env=machine.environment,
        cwd=machine.project,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr,
    )
    raw.process._transport.close()  # type: ignore[attr-defined]
    raw.process = process
    made = await raw.ask("session/new", cwd=str(machine.project), mcpServers=[])
    words = [{"type": "text", "text": "go"}]
    asked = {"sessionId": made["result"]["sessionId"], "prompt": words}
    await raw.send(
        json.dumps({"jsonrpc": "2.0", "id": 8, "method": "session/prompt", "params": asked}).encode()
    )
    await until(lambda: machine.runs("sleep 4321.5"))
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), SOON) == 0
    assert not machine.runs("sleep 4321.5")


@pytest.mark.slow
async def test_what_a_plugin_prints_is_not_part_of_the_protocol(raw: Raw, machine: Machine) -> None:
    machine.write_home(
        "plugin/loud.py",
        "import os\nprint('loud')\nos.system('echo louder')\nasync def plugin(input):\n    print('still')\n"
        "    return {}\n",
    )
    made = await raw.ask("session/new", cwd=str(machine.project), mcpServers=[])
    assert made["result"]["sessionId"].startswith("ses_")


def test_a_terminal_is_told_who_starts_it(screen: Callable[..., Any]) -> None:
    shown = screen("acp")
    assert shown.end() == 1
    assert "an editor starts instar acp" in shown.text


@pytest.mark.slow
def test_without_the_package_it_says_how_to_install_it_here(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "acp.py").write_text("raise ModuleNotFoundError('no acp', name='acp')")
    machine.environment["PYTHONPATH"] = os.pathsep.join(
        [str(tmp_path), machine.environment.get("PYTHONPATH", "")]
    )
    done = machine.fresh("acp")
    assert done.returncode == 1
    assert f"{sys.executable} -m pip install 'agent-client-protocol".encode() in done.stderr


@pytest.mark.slow
async def test_a_retry_a_rules_message_and_a_limit_are_told(
    opened: Open, machine: Machine, editor: Editor
) -> None:
    rule = {
        "matcher": "bash",
        "hooks": [{"type": "command", "command": 'echo \'{"systemMessage": "mind it"}\''}],
    }
    there = await opened(
        "== turn\nerror: 429 slow down retry-after=0.1 times=1\n"
        'tool: bash {"command": "true"}\nusage: input=100 output=20\n== turn\ntext: Never.\n',
        settings={
            "model": "scripted/test",
            "hooks": {"PreToolUse": [rule]},
            "limits": {"session": {"tokens": 110}},
        },
    )
    await there.prompt("go")
    thoughts = "".join(one.content.text for one in editor.of(schema.AgentThoughtChunk))
    assert "slow down" in thoughts
    assert "PreToolUse hook: mind it" in thoughts
    assert "instar: " in editor.said()


@pytest.mark.slow
async def test_one_heart_beats_for_a_workspace_that_two_editors_have_open(machine: Machine) -> None:
    workspace = machine.home / "workspace"
    machine.instar("init", str(workspace))
    machine.script("== turn\ntext: Beat.\n" * 50)
    machine.environment["INSTAR_WORKSPACE"] = str(workspace)
    machine.write_home("instar.json", json.dumps(ASK))
    config = workspace / "config/evolve.jsonc"
    config.parent.mkdir(exist_ok=True)
    config.write_text('{"heartbeat_ms": 1000}')
    async with connected(machine, Editor()) as one, connected(machine, Editor()) as other:
        await one.begin()
        await other.begin()

        def status() -> Any:
            return parse(machine.instar("heartbeat", "status", "--json").stdout.encode())

        await until(lambda: len(status()["log"]) > 2)
        begun = [one["number"] for one in status()["log"] if one.get("number") is not None]
        assert len(begun) == len(set(begun))
        assert status()["process"] in {one.process.pid, other.process.pid}
