"""A login whose plugin sends the provider's calls itself: its `fetch` runs in the child."""

import asyncio
import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from instar.testing import Machine, said

Write = Callable[..., Path]
Headers = dict[str, str]


class Vendor(ThreadingHTTPServer):
    """A Chat Completions server: `asked` are the calls' paths, headers and bodies, `status` what it answers.

    With `packed` its answers are compressed; with `holds` it waits within an answer until its client has gone.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, Headers, Any]] = []
        self.status, self.packed, self.holds = 200, False, False
        self.left = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Vendor

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        data = b"".join(_chunk(text) for text in ("hel", "lo")) + b"data: [DONE]\n\n"
        self.send_response(self.server.status)
        self.send_header("content-type", "text/event-stream")
        if self.server.packed:
            self.send_header("content-encoding", "gzip")
            data = gzip.compress(data)
        if self.server.holds:
            self.end_headers()
            self.wfile.write(_chunk("hel"))
            self.wfile.flush()
            # Its client says nothing more: it ends when that has gone, or resets the connection.
            with contextlib.suppress(OSError):
                self.rfile.read(1)
            self.server.left.set()
            return
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *given: Any) -> None:
        """Say nothing."""


def _chunk(text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]})}\n\n".encode()


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    made = Vendor()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


PLUGIN = """
export const P = async () => ({ auth: { provider: "own", methods: [], async loader(getAuth, provider) {
  return { apiKey: "", headers: { "x-of-loader": provider.id }, async fetch(input, init) {
    const { access } = await getAuth()
    if (access === "none") throw new Error("no account is left")
    if (access === "odd") return {}
    if (access === "die") {
      process.kill(process.pid, "SIGKILL")
      await new Promise(() => {})
    }
    const body = JSON.parse(init.body)
    const changed = { ...init, headers: { ...init.headers, authorization: `Bearer ${access}` },
      body: JSON.stringify({ ...body, model: `plan-${body.model}` }) }
    return fetch(input.replace("/chat/completions", "/plan/completions"), changed)
  } }
} } })
"""


@pytest.fixture
def own(house: Machine, write: Write, vendor: Vendor) -> Callable[[str], None]:
    """Keep a login of the provider `own`, whose plugin sends its calls."""
    options = {"baseURL": vendor.url}
    house.settings(
        provider={"own": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}}
    )
    write(PLUGIN)

    def keep(access: str) -> None:
        house.data.mkdir(parents=True, exist_ok=True)
        kept = house.data / "auth.json"
        kept.write_text(
            json.dumps({"own": {"type": "oauth", "access": access, "refresh": "r", "expires": 0}})
        )
        kept.chmod(0o600)

    keep("first")
    return keep


@pytest.mark.slow
async def test_its_calls_are_sent_by_the_plugin_with_what_is_kept_of_the_login_then(
    house: Machine, vendor: Vendor, own: Callable[[str], None]
) -> None:
    door = await house.open(model="own/m")
    assert door.runtime.notices == []
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "hello"
    own("second")
    vendor.packed = True
    assert said(await door.ask(session, "and now?")) == "hello"
    assert [(path, body["model"]) for path, _, body in vendor.asked] == [
        ("/v1/plan/completions", "plan-m")
    ] * 2
    assert [headers["authorization"] for _, headers, _ in vendor.asked] == ["Bearer first", "Bearer second"]
    assert vendor.asked[0][1]["x-of-loader"] == "own"
    assert vendor.asked[0][2]["messages"][-1]["content"] == "hi"


@pytest.mark.slow
@pytest.mark.usefixtures("own")
async def test_a_stopped_turn_ends_the_request_that_the_plugin_made(house: Machine, vendor: Vendor) -> None:
    vendor.holds = True
    door = await house.open(model="own/m")
    session = await door.session()
    turn = asyncio.create_task(door.ask(session, "hi"))
    await until(lambda: door.of("message.part.delta"))
    await door.client.abort(session)
    await turn
    await until(vendor.left.is_set)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("access", "why"),
    [
        (
            "none",
            "the plugin whose login calls http://127.0.0.1:PORT/v1/chat/completions failed: no account is left",
        ),
        ("odd", "failed: its `fetch` returned no Response"),
        ("die", "failed: the JavaScript host is gone: it was ended by SIGKILL"),
    ],
)
async def test_what_it_cannot_send_fails_the_call_and_the_next_one_is_sent(
    house: Machine, vendor: Vendor, own: Callable[[str], None], access: str, why: str
) -> None:
    own(access)
    door = await house.open(model="own/m")
    session = await door.session()
    failed = await door.ask(session, "hi")
    assert failed.info.error is not None
    message = failed.info.error.data.message
    assert why.replace("PORT", str(vendor.server_address[1])) in message
    assert vendor.asked == []
    own("kept")
    assert said(await door.ask(session, "and now?")) == "hello"


@pytest.mark.slow
@pytest.mark.usefixtures("own")
async def test_a_refusal_reads_as_that_of_any_provider(house: Machine, vendor: Vendor) -> None:
    vendor.status = 403
    door = await house.open(model="own/m")
    failed = await door.ask(await door.session(), "hi")
    assert failed.info.error is not None
    assert failed.info.error.name == "ProviderAuthError"
    assert len(vendor.asked) == 1


@pytest.mark.slow
async def test_a_server_that_is_not_there_is_tried_again(
    house: Machine, write: Write, own: Callable[[str], None]
) -> None:
    # Bound, and nobody listens: what connects is refused.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{closed.getsockname()[1]}"
        write(PLUGIN.replace('input.replace("/chat/completions", "/plan/completions")', f'"http://{where}/"'))
        door = await house.open(model="own/m")
        session = await door.session()
        turn = asyncio.create_task(door.ask(session, "hi"))
        retried = await until(
            lambda: [one for one in door.of("session.status") if one.status.type == "retry"]
        )
        # In the words of node, or of bun.
        words = (f"fetch failed: connect ECONNREFUSED {where}", "Unable to connect")
        assert any(one in retried[0].status.message for one in words)
        await door.client.abort(session)
        await turn
