"""``/instar/mcp``: instar as an MCP server by streamable HTTP, asked by the official client."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from tests.server.conftest import LOGIN, Served
from tests.waiting import PATIENCE, until

DOOR = "/instar/mcp"
ASK = {"permission": {"bash": "ask"}, "model": "scripted/test"}
CALLS = '== turn\ntool: bash {"command": "touch made"}\n== turn\ntext: Done.\n'
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def settle(environment: Mapping[str, str], **settings: Any) -> None:
    """Write the person's own settings; the server reads them with the next instance."""
    folder = Path(environment["XDG_CONFIG_HOME"]) / "instar"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "instar.json").write_text(json.dumps({**ASK, **settings}))


@asynccontextmanager
async def connected(served: Served, directory: str | None = None) -> AsyncIterator[ClientSession]:
    headers = {"x-opencode-directory": directory} if directory else {}
    async with (
        httpx2.AsyncClient(auth=LOGIN, headers=headers, timeout=PATIENCE) as client,
        streamable_http_client(served.url + DOOR, http_client=client) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


async def call(there: ClientSession, tool: str, **arguments: Any) -> Any:
    """What a tool answers; the words of its error where it has one."""
    found = await there.call_tool(tool, arguments)
    return found.content[0].text if found.is_error else found.structured_content  # type: ignore[union-attr]


@pytest.mark.slow
async def test_sessions_are_tools_over_http_too(serve: Callable[..., Any]) -> None:
    served = serve(script="== turn\ntext: First.\n== turn\ntext: Second.\n")
    async with connected(served) as there:
        listed = {one.name: one for one in (await there.list_tools()).tools}
        assert sorted(listed) == ["abort", "continue", "result", "start", "status"]
        assert listed["start"].input_schema["required"] == ["prompt"]
        begun = await call(there, "start", prompt="go", model="scripted/test")
        assert (begun["state"], begun["answer"]) == ("idle", "First.")
        session = begun["session"]
        assert [one["id"] for one in served.http.get("/session").json()] == [session]
        assert "there is no tool 'answer'" in await call(there, "answer", request="per_1", allow=True)
        assert "missing required field `prompt`" in await call(there, "start")
    # Another connection knows it too.
    async with connected(served) as there:
        assert (await call(there, "continue", session=session, prompt="on"))["answer"] == "Second."


@pytest.mark.slow
async def test_nobody_asks_over_http_without_the_password_or_from_another_site(
    serve: Callable[..., Any],
) -> None:
    served = serve()
    headers = {"accept": "application/json, text/event-stream"}
    assert httpx2.post(served.url + DOOR, json=HELLO, headers=headers).status_code == 401
    for wrong in ({"origin": "https://elsewhere.example"}, {"host": "elsewhere.example"}):
        asked = httpx2.post(served.url + DOOR, json=HELLO, headers={**headers, **wrong}, auth=LOGIN)
        assert asked.status_code == 403
    refused = served.http.get(DOOR, headers=headers)
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert served.http.post(f"{DOOR}?directory=/none", json=HELLO, headers=headers).status_code == 400


@pytest.mark.slow
async def test_permissions_are_answered_over_http_only_where_the_settings_say_so(
    serve: Callable[..., Any], clean_environment: Mapping[str, str]
) -> None:
    served = serve(script=CALLS)
    (served.directory / "opencode.json").write_text(json.dumps({"mcp_server": {"answers": True}}))
    settle(clean_environment)
    async with connected(served) as there:
        begun = await call(there, "start", prompt="go", wait=5)
        assert begun["waits_for"][0]["shown"] == "touch made"
        # A project's own file says so: that is no setting of the person's.
        assert "no tool" in await call(there, "answer", request=begun["waits_for"][0]["request"], allow=True)
        await call(there, "abort", session=begun["session"])
    settle(clean_environment, mcp_server={"answers": True})
    served.http.post("/global/dispose")
    async with connected(served) as there:
        begun = await call(there, "start", prompt="go", wait=5)
        await call(there, "answer", request=begun["waits_for"][0]["request"], allow=True)
        assert (await call(there, "result", session=begun["session"]))["answer"] == "Done."
        assert (served.directory / "made").exists()


@pytest.mark.slow
async def test_a_task_goes_on_when_the_other_agent_has_left(
    serve: Callable[..., Any], clean_environment: Mapping[str, str]
) -> None:
    served = serve(script=CALLS)
    settle(clean_environment, permission="allow")
    async with connected(served) as there:
        await call(there, "start", prompt="go", model="scripted/test", wait=0)
    await until((served.directory / "made").exists)
