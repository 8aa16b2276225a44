"""Editors over the net: the protocol at ``/acp`` of `instar serve`, over a web socket and over HTTP."""

import asyncio
import base64
import json
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import acp
import httpx2
import pytest
from acp import schema
from acp.core import connect_to_agent
from acp.ws.client import create_websocket_stream
from tests.cli.test_acp import Editor
from tests.running import having
from tests.server.conftest import LOGIN, Served
from tests.server.sockets import refused
from tests.waiting import PATIENCE, until

BASIC = {"Authorization": "Basic " + base64.b64encode(":".join(LOGIN).encode()).decode()}
READS = """
== turn
tool: read {"filePath": "a.txt"}
== turn
tool: write {"filePath": "b.txt", "content": "made\\n"}
== turn
text: Done.
== turn
text: Again.
"""
ASKS = '{"model": "scripted/test", "permission": {"edit": "ask"}}'
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}

Serve = Callable[..., Served]


@asynccontextmanager
async def connected(server: Served, editor: Editor) -> AsyncIterator[Any]:
    url = server.url.replace("http", "ws", 1) + "/acp"
    stream = await create_websocket_stream(url, headers=BASIC)
    agent = connect_to_agent(editor, stream, use_unstable_protocol=True)  # type: ignore[arg-type]
    can = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True))
    await agent.initialize(protocol_version=1, client_capabilities=can)
    try:
        yield agent
    finally:
        await agent.close()


async def said(agent: Any, session_id: str, text: str) -> str:
    answer = await agent.prompt(session_id=session_id, prompt=[acp.text_block(text)])
    return str(answer.stop_reason)


@pytest.mark.slow
async def test_an_editor_far_away_begins_forks_loads_and_closes_sessions_over_a_web_socket(
    serve: Serve,
) -> None:
    server, editor = serve(script=READS), Editor()
    (server.directory / "opencode.json").write_text(ASKS)
    (server.directory / "a.txt").write_text("saved\n")
    editor.held[str(server.directory / "a.txt")] = "not saved\n"
    async with connected(server, editor) as agent:
        folder = str(server.directory)
        session = (await agent.new_session(cwd=folder, mcp_servers=[])).session_id
        assert await said(agent, session, "go") == "end_turn"
        assert "not saved" in str(editor.calls())
        assert [one.kind for one in editor.options[0]] == ["allow_once", "allow_always", "reject_once"]
        assert (server.directory / "b.txt").read_text() == "made\n"
        assert editor.said().endswith("Done.")
        await agent.close_session(session_id=session)
    again = Editor()
    async with connected(server, again) as agent:
        await agent.load_session(cwd=folder, session_id=session, mcp_servers=[])
        await until(lambda: again.said() == "Done.")
        fork = (await agent.fork_session(session_id=session, cwd=folder, mcp_servers=[])).session_id
        assert await said(agent, fork, "more") == "end_turn"
        assert again.said(fork).endswith("Again.")
    assert fork != session


@pytest.mark.slow
async def test_an_editor_that_goes_away_ends_the_turns_that_it_began(serve: Serve) -> None:
    server, editor = serve(script='== turn\ntool: bash {"command": "sleep 4321.5"}\n'), Editor()
    (server.directory / "opencode.json").write_text('{"model": "scripted/test"}')
    async with connected(server, editor) as agent:
        session = (await agent.new_session(cwd=str(server.directory), mcp_servers=[])).session_id
        turn = asyncio.create_task(said(agent, session, "go"))
        await until(lambda: having("sleep", "4321.5"))
    await until(lambda: not having("sleep", "4321.5"))
    with pytest.raises(ConnectionError):
        await turn


class OverHttp:
    """A client of the protocol over HTTP, by hand."""

    def __init__(self, server: Served) -> None:
        self.server, self.told = server, [dict[str, Any]()][:0]
        answer = server.http.post("/acp", json=INITIALIZE)
        assert answer.status_code == 200
        self.initialized = answer.json()["result"]
        self.headers = {"Acp-Connection-Id": answer.headers["Acp-Connection-Id"]}

    def hear(self, **headers: str) -> None:
        """Open a stream."""
        opened = threading.Event()

        def read() -> None:
            # The end of the server, or of its client here, breaks its streams.
            with (
                suppress(httpx2.TransportError),
                self.server.http.stream("GET", "/acp", headers=self.headers | headers) as stream,
            ):
                assert stream.headers["content-type"].startswith("text/event-stream")
                opened.set()
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        self.told.append(json.loads(line[6:]))

        threading.Thread(target=read, daemon=True).start()
        assert opened.wait(PATIENCE)

    def post(self, method: str, number: int | None = None, **params: Any) -> None:
        """Send a request, or a notification without a number."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        given = message if number is None else message | {"id": number}
        answer = self.server.http.post("/acp", json=given, headers=self.headers)
        assert (answer.status_code, answer.content) == (202, b"")

    async def answer(self, number: int) -> Any:
        """Return the result of a request, once it was told."""

        def mine() -> list[Any]:
            return [one for one in self.told if one.get("id") == number and "method" not in one]

        await until(lambda: bool(mine()))
        return mine()[0].get("result", mine()[0].get("error"))


@pytest.mark.slow
async def test_over_http_a_session_that_was_begun_elsewhere_is_loaded_and_its_stream_tells_of_it(
    serve: Serve,
) -> None:
    server = serve(script="== turn\ntext: Before.\n== turn\ntext: After.\n")
    (server.directory / "opencode.json").write_text('{"model": "scripted/test"}')
    session = server.session()
    server.ask(session)
    client, folder = OverHttp(server), str(server.directory)
    assert client.initialized["agentInfo"]["name"] == "instar"
    client.hear()
    # As npm's client does it: the session's stream is opened before the server knows that it is loaded.
    client.hear(**{"Acp-Session-Id": session})
    client.post("session/load", 1, sessionId=session, cwd=folder, mcpServers=[])
    assert "configOptions" in await client.answer(1)
    client.post("session/prompt", 2, sessionId=session, prompt=[{"type": "text", "text": "go"}])
    assert await client.answer(2) == {"stopReason": "end_turn"}
    updates = [one["params"]["update"] for one in client.told if one.get("method") == "session/update"]
    texts = [one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
    assert (texts[0], texts[-1]) == ("Before.", "After.")
    assert server.http.delete("/acp", headers=client.headers).status_code == 202
    await until(lambda: server.http.delete("/acp", headers=client.headers).status_code == 404)
    assert server.stop() == 0


@pytest.mark.slow
async def test_a_server_that_is_told_to_end_still_hears_what_an_editor_allows(serve: Serve) -> None:
    server = serve("--grace", "60", script=READS.partition("== turn\ntext: Again.")[0])
    (server.directory / "opencode.json").write_text(ASKS)
    (server.directory / "a.txt").write_text("saved\n")
    client, folder = OverHttp(server), str(server.directory)
    client.hear()
    client.post("session/new", 1, cwd=folder, mcpServers=[])
    session = (await client.answer(1))["sessionId"]
    client.post("session/prompt", 2, sessionId=session, prompt=[{"type": "text", "text": "go"}])

    def asked() -> list[Any]:
        return [one for one in client.told if one.get("method") == "session/request_permission"]

    await until(lambda: bool(asked()))
    server.process.send_signal(signal.SIGTERM)
    await until(
        lambda: server.http.get("/nothing").status_code == 503 or server.http.post("/session").is_error
    )
    allowed = {"outcome": {"outcome": "selected", "optionId": "once"}}
    reply = {"jsonrpc": "2.0", "id": asked()[0]["id"], "result": allowed}
    assert server.http.post("/acp", json=reply, headers=client.headers).status_code == 202
    assert await client.answer(2) == {"stopReason": "end_turn"}
    assert (server.directory / "b.txt").read_text() == "made\n"


@pytest.mark.slow
def test_over_http_wrong_requests_are_answered_with_what_to_do(serve: Serve) -> None:
    server = serve()
    http = server.http
    assert http.post("/acp", json={"method": "session/new", "id": 1}).status_code == 400
    assert http.post("/acp", content=b"[").json()["error"]["code"] == -32700
    assert http.post("/acp", json=[INITIALIZE]).json()["error"]["code"] == -32600
    assert "initialize" in http.get("/acp").text
    assert http.get("/acp", headers={"Acp-Connection-Id": "gone"}).status_code == 404
    connection = {"Acp-Connection-Id": http.post("/acp", json=INITIALIZE).headers["Acp-Connection-Id"]}
    assert http.put("/acp", headers=connection).headers["Allow"] == "DELETE, GET, POST"
    # The guard stands before it, as before all that the server does.
    assert http.post("/acp", json=INITIALIZE, auth=("opencode", "wrong")).status_code == 401
    assert http.post("/acp", json=INITIALIZE, headers={"Origin": "https://evil.example"}).status_code == 403
    assert refused(server, "/acp", login=False)[0] == 401
    assert refused(server, "/acp", headers={"Origin": "https://evil.example"})[0] == 403
    assert server.stop() == 0
    assert "Traceback" not in server.errors
