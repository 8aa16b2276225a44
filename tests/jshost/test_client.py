"""`client`, `serverUrl` and `$` of a JavaScript plugin: instar's own server, and a shell."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.conftest import LOGIN, PASSWORD, Served

from instar.cli.door import in_process
from instar.plugin import Server
from instar.runtime import Options, Runtime
from instar.server.own_server import OwnServer
from instar.testing import Machine, RuntimeUnderTest, said

Write = Callable[..., Path]

SDK = """
// As the official one: it makes a client of baseUrl and fetch.
export function createOpencodeClient(config) {
  return { session: { async get({ path }) {
    const answer = await config.fetch(new Request(`${config.baseUrl}/session/${path.id}`))
    return { status: answer.status, data: await answer.json() }
  } } }
}
"""


@pytest.fixture
async def served(house: Machine) -> AsyncIterator[Callable[[], Any]]:
    opened: list[Runtime] = []

    async def opening() -> RuntimeUnderTest:
        asked = Options(
            house.folder, house.environment, {"model": "scripted/x"}, http=in_process, serve=OwnServer
        )
        opened.append(await Runtime.open(asked))
        return RuntimeUnderTest(opened[0])

    yield opening
    for runtime in opened:
        await runtime.close()


def bring_sdk(write: Write) -> None:
    """Give the project's plugins an SDK of their own."""
    write(SDK, "index.js", ".opencode/node_modules/@opencode-ai/sdk/dist")
    write('{"type": "module"}', "package.json", ".opencode/node_modules/@opencode-ai/sdk")


@pytest.mark.slow
async def test_the_sdk_that_a_plugin_brings_asks_a_server_that_starts_with_the_first_request(
    house: Machine, write: Write, served: Callable[[], Any]
) -> None:
    bring_sdk(write)
    write("""
        export const P = async ({ client, serverUrl }) => ({ "text.complete": async (i, o) => {
          const { data } = await client.session.get({ path: { id: i.sessionID } })
          const fetched = await fetch(new URL("/session", serverUrl))
          const foreign = await client.session.nothing().catch((error) => error.message)
          o.text = JSON.stringify([data.title, serverUrl instanceof URL, fetched.status, foreign])
        } })
    """)
    house.says("== turn\ntext: hello\n")
    door = await served()
    answer = json.loads(said(await door.ask(await door.session("my title"), "hi")))
    assert answer == ["my title", True, 200, "client.session.nothing is not a function"]


@pytest.mark.slow
async def test_nobody_else_is_let_in_and_nothing_listens_after_the_end(
    house: Machine, write: Write, served: Callable[[], Any]
) -> None:
    write("export const P = async ({ serverUrl }) => { globalThis.url = serverUrl }")
    door = await served()
    server = door.runtime._server.get()
    assert server is not None
    port = int(server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /session HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    assert b" 401 " in await reader.readline()
    writer.close()
    await writer.wait_closed()
    await door.runtime.close()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", port)
    unasked = await served()
    own = unasked.runtime._server.get()
    assert own is not None
    await unasked.runtime.close()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", int(own.url.rpartition(":")[2]))


@pytest.mark.slow
async def test_the_password_goes_to_instars_server_alone_and_a_plugins_own_stays(
    house: Machine, write: Write, served: Callable[[], Any]
) -> None:
    write("""
        import { createServer } from "node:http"
        export const P = async ({ serverUrl }) => {
          const asked = []
          const other = createServer((request, answer) => {
            asked.push(request.headers.authorization ?? null)
            answer.end()
          })
          await new Promise((done) => other.listen(0, "127.0.0.1", done))
          const url = `http://127.0.0.1:${other.address().port}/`
          return { "text.complete": async (i, o) => {
            await fetch(url)
            await fetch(new Request(url))
            const own = await fetch(new URL("/session", serverUrl), { headers: { authorization: "Basic eDp5" } })
            other.closeAllConnections()
            other.close()
            o.text = JSON.stringify([...asked, own.status])
          } }
        }
    """)
    house.says("== turn\ntext: hello\n")
    door = await served()
    assert json.loads(said(await door.ask(await door.session(), "hi"))) == [None, None, 401]


async def test_a_plugin_may_ask_while_it_is_loaded(
    house: Machine, write: Write, served: Callable[[], Any]
) -> None:
    bring_sdk(write)
    write("""
        export const P = async ({ client }) => {
          const { status } = await client.session.get({ path: { id: "ses_none" } })
          return { "text.complete": async (i, o) => { o.text += status } }
        }
    """)
    house.says("== turn\ntext: hello\n")
    door = await served()
    assert said(await door.ask(await door.session(), "hi")) == "hello404"


@pytest.mark.slow
def test_the_server_that_runs_is_asked_from_the_first_line_on_and_with_its_password(
    house: Machine, write: Write
) -> None:
    bring_sdk(write)
    write("""
        export const P = async ({ client, serverUrl }) => {
          // Of this directory it would wait for the instance that is being loaded.
          const early = (await fetch(new URL("/global/health", serverUrl))).status
          return { "text.complete": async (i, o) => {
            const { data } = await client.session.get({ path: { id: i.sessionID } })
            o.text = [early, serverUrl.origin, data.id === i.sessionID].join(" ")
          } }
        }
    """)
    house.says("== turn\ntext: hello\n")
    served = Served([], house.folder, {**house.environment, "INSTAR_SERVER_PASSWORD": PASSWORD})
    try:
        parts = served.ask(served.session(title="named")).json()["parts"]
        assert [one["text"] for one in parts if one["type"] == "text"] == [f"200 {served.url} true"]
    finally:
        served.stop()


@pytest.mark.slow
def test_a_plugin_that_waits_for_its_own_directory_before_that_is_open_is_answered(
    house: Machine, write: Write
) -> None:
    bring_sdk(write)
    write("""
        export const P = async ({ client, directory, serverUrl }) => {
          const url = (path) => new URL(`${path}?directory=${encodeURIComponent(directory)}`, serverUrl)
          const json = { "content-type": "application/json" }
          const made = await fetch(url("/session"), { method: "POST", body: '{"title": "early"}', headers: json })
          const seen = [(await made.json()).title]
          const gone = await fetch(url("/session/ses_none"))
          seen.push(gone.status, (await gone.json()).name)
          // Another directory is another instance's matter.
          seen.push((await (await fetch(new URL("/path?directory=/", serverUrl))).json()).directory)
          // Not awaited: the server answers when the directory is open.
          const stream = fetch(url("/event"), { headers: { accept: "text/event-stream" } })
          return {
            config: async () => { seen.push((await (await fetch(url("/session"))).json()).length) },
            "text.complete": async (i, o) => {
              const first = await (await stream).body.getReader().read()
              o.text = JSON.stringify([...seen, Buffer.from(first.value).toString().includes("server.connected")])
            },
          }
        }
    """)
    house.says("== turn\ntext: hello\n")
    served = Served([], house.folder, {**house.environment, "INSTAR_SERVER_PASSWORD": PASSWORD})
    try:
        parts = served.ask(served.session(title="named")).json()["parts"]
        (text,) = [json.loads(one["text"]) for one in parts if one["type"] == "text"]
        assert text == ["early", 404, "NotFoundError", "/", 1, True]
    finally:
        served.stop()


@pytest.mark.slow
async def test_a_plugin_that_waits_for_a_server_that_waits_for_it_is_one_line_that_says_so(
    house: Machine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.jshost.host.PATIENCE", 3)
    write("export const P = async ({ serverUrl }) => { await fetch(new URL('/session', serverUrl)) }")
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    asked = Options(house.folder, house.environment, {"model": "scripted/x"}, server=Server(url, None))
    async with await Runtime.open(asked) as runtime:
        (notice,) = runtime.notices
    silent.close()
    assert notice.endswith(
        "is skipped: it did not return within 3 s: GET /session is not answered, "
        "and the server of a directory answers once its plugins are loaded"
    )


@pytest.mark.slow
def test_plugins_of_a_server_at_a_unix_socket_ask_one_on_loopback(house: Machine, write: Write) -> None:
    bring_sdk(write)
    write("""
        export const P = async ({ client, serverUrl }) => ({ "text.complete": async (i, o) => {
          const { data } = await client.session.get({ path: { id: i.sessionID } })
          const stranger = await fetch(new URL("/session", serverUrl), { headers: { authorization: "Basic eDp5" } })
          const { status } = await fetch(new URL("/session", serverUrl))
          o.text = [data.id === i.sessionID, serverUrl.hostname, stranger.status, status].join(" ")
        } })
    """)
    house.says("== turn\ntext: hello\n")
    path = house.folder.parent / "run" / "s"
    environment = {**house.environment, "INSTAR_SERVER_PASSWORD": PASSWORD}
    served = Served(["--socket", str(path)], house.folder, environment)
    served.http.close()
    served.http = httpx2.Client(
        transport=httpx2.HTTPTransport(uds=str(path)), base_url="http://localhost", auth=LOGIN, timeout=30
    )
    try:
        parts = served.ask(served.session(title="named")).json()["parts"]
        assert [one["text"] for one in parts if one["type"] == "text"] == ["true 127.0.0.1 401 200"]
    finally:
        served.stop()


async def test_without_a_server_a_client_call_says_so(house: Machine, write: Write) -> None:
    bring_sdk(write)
    write("""
        export const P = async ({ client }) => ({ "text.complete": async (i, o) => {
          o.text = await client.session.get({ path: { id: "x" } }).catch((error) => error.message)
        } })
    """)
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert (
        said(await door.ask(await door.session(), "hi")) == "this host has no server that a client could ask"
    )


async def test_the_project_is_as_the_interface_has_it(
    house: Machine, write: Write, served: Callable[[], Any]
) -> None:
    write("""
        export const P = async ({ project }) => ({ "text.complete": async (i, o) => {
          o.text = JSON.stringify([typeof project.time.created, typeof project.time.updated, project.sandboxes])
        } })
    """)
    house.says("== turn\ntext: hello\n")
    door = await served()
    assert json.loads(said(await door.ask(await door.session(), "hi"))) == ["number", "number", []]


SHELL = {
    "await $`echo one`.text()": "one\n",
    "await $`echo ${'a b; echo $HOME'} ${['x', 'y z']}`.text()": "a b; echo $HOME x y z\n",
    'await $`echo ${"it\'s"}`.text()': "it's\n",
    "await $`echo ${{ raw: 'a | tr a b' }}`.text()": "b\n",
    "await $`echo '{\"n\": 7}'`.json()": {"n": 7},
    "await Array.fromAsync($`printf 'a\\nb\\n'`.lines())": ["a", "b", ""],
    "await Array.fromAsync($`printf 'a\\nb'`.lines())": ["a", "b"],
    "(await $`exit 3`.nothrow().quiet()).exitCode": 3,
    "await $`echo bad 1>&2; exit 3`.quiet().catch((e) => [e.exitCode, e.stderr.toString()])": [3, "bad\n"],
    "await $`pwd`.cwd('/').text()": "/\n",
    "(await $`pwd`.text()).trim() === input.directory": True,
    "await $`echo $WORD`.env({ ...process.env, WORD: 'w' }).text()": "w\n",
    "(await $`echo a; echo b 1>&2`.quiet()).stderr.toString()": "b\n",
    "(await $`cat`.quiet()).stdout.length": 0,
    "await $`echo a`.quiet().then((o) => o.text())": "a\n",
    """[$.escape('a b'), $.escape('say "$x"')]""": ['"a b"', '"say \\"\\$x\\""'],
    "$.braces('{a,{b,c}d}e{f,g}')": ["aef", "aeg", "bdef", "bdeg", "cdef", "cdeg"],
    "$.braces('{a}{b')": ["a{b"],
    "await $`cat < ${new Response('sent')} | tr a-z A-Z`.text()": "SENT",
    "await $`cat < ${new Blob(['a'])}; cat < ${Buffer.from('b')}`.text()": "ab",
    "(await $`true < ${Buffer.alloc(1000000)}`).exitCode": 0,
}


@pytest.mark.slow
@pytest.mark.parametrize("code", SHELL, ids=SHELL)
async def test_the_shell_runs_templates_as_buns_does(house: Machine, write: Write, code: str) -> None:
    write(
        """
        // Of node 22 on.
        Array.fromAsync ??= async (items) => {
          const all = []
          for await (const one of items) all.push(one)
          return all
        }
        export const P = async (input) => {
          const { $ } = input
          return { "text.complete": async (i, o) => { o.text = JSON.stringify(CODE) } }
        }
    """.replace("CODE", code)
    )
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert json.loads(said(await door.ask(await door.session(), "hi"))) == SHELL[code]


async def test_the_client_looks_like_the_real_one_before_it_is_asked(house: Machine, write: Write) -> None:
    write("""
        export const P = async ({ client }) => ({ "text.complete": async (i, o) => {
          const kinds = [client, client.session, client.session.prompt, client.tui.control.next, client.session._client,
            client._client.get, client.postSessionIdPermissionsPermissionId, client.nothing, client.session.then]
          const bound = typeof client.session.get.bind(client.session)
          const awaited = await client.session
          o.text = JSON.stringify([kinds.map((one) => typeof one), "session" in client, "nothing" in client, bound,
            typeof awaited.get, Object.keys(client), `${client.session.constructor.name}`,
            [client.session, client.mcp, client.tui].map((one) => Object.keys(one))])
        } })
    """)
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    found = json.loads(said(await door.ask(await door.session(), "hi")))
    kinds = ["object", "object", *["function"] * 2, "object", *["function"] * 2, "undefined", "undefined"]
    fields = "_client global project pty config tool instance path vcs session command provider find file app mcp lsp"
    named = [*fields.split(), "formatter", "tui", "auth", "event"]
    inner = [["_client"], ["_client", "auth"], ["_client", "control"]]
    assert found == [kinds, True, False, "function", "function", named, "Object", inner]
