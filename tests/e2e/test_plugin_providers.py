"""What plugins register beside hooks that fire in a turn: settings, models, a login, and the small model."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from instar.testing import Machine, said

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: re {{user}}\n'


class Recorder(ThreadingHTTPServer):
    """A server of the Chat Completions protocol that answers one word; `asked` are paths, headers and models."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, str], str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.path, headers, body["model"]))  # type: ignore[attr-defined]
        choice = {"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}
        data = f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *given: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Any:
    made = Recorder()
    thread = Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


async def test_a_plugin_changes_the_settings(house: Machine) -> None:
    house.says(ECHO)
    house.settings(permission={"grep": "deny"})
    house.plugin("""
        async def mine(input, options):
            async def config(config):
                config["permission"] = {"bash": "deny"}
                config.setdefault("agent", {})["poet"] = {"prompt": "You rhyme."}

            return {"config": config}
    """)
    door = await house.open()
    await door.ask(await door.session(), "hi", agent="poet")
    (request,) = house.requests()
    names = {tool["function"]["name"] for tool in request["tools"]}
    assert "bash" not in names
    assert "grep" in names
    assert request["system"][0].startswith("You rhyme.")


async def test_a_plugin_chooses_the_small_model(house: Machine) -> None:
    house.says(ECHO + "\n== title\ntext: A name\n")
    house.plugin("""
        async def mine(input, options):
            async def small(given, output):
                output.model = given.provider["id"] + "/tiny"

            return {"experimental.provider.small_model": small}
    """)
    door = await house.open()
    session = await door.session(title=None)
    await door.ask(session, "hi")
    await door.until(
        lambda event: event.type == "session.updated" and event.properties.info.title == "A name"
    )  # type: ignore[attr-defined]
    assert house.requests("title")[0]["model"] == "scripted/tiny"
    assert house.requests()[0]["model"] == "scripted/x"


@pytest.mark.slow
async def test_a_plugin_brings_a_providers_models(house: Machine, server: Recorder) -> None:
    options = {"baseURL": server.url, "apiKey": "key"}
    house.settings(
        provider={"own": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"old": {}}}}
    )
    house.plugin("""
        async def mine(input, options):
            async def models(provider, ctx):
                assert provider["id"] == "own" and ctx["auth"] is None
                return {**provider["models"], "fresh": {"name": "Fresh", "limit": {"context": 100000, "output": 100}}}

            return {"provider": {"id": "own", "models": models}}
    """)
    door = await house.open(model="own/fresh")
    assert door.runtime.notices == []
    assert said(await door.ask(await door.session(), "hi")) == "hello"
    assert [model for _, _, model in server.asked] == ["fresh"]


async def test_a_plugin_sends_a_providers_calls_itself(house: Machine, server: Recorder) -> None:
    house.settings(provider={"own": {"npm": "@ai-sdk/openai-compatible", "models": {"m": {}}}})
    house.data.mkdir(parents=True)
    kept = house.data / "auth.json"
    kept.write_text(json.dumps({"own": {"type": "oauth", "access": "token", "refresh": "r", "expires": 0}}))
    kept.chmod(0o600)
    house.plugin("""
        from instar.plugin import FetchResponse

        async def body():
            yield b'data: {"choices": [{"index": 0, "delta": {"content": "sent to '
            yield b'the plugin"}, "finish_reason": "stop"}]}\\n\\ndata: [DONE]\\n\\n'

        async def mine(input, options):
            async def loader(get_auth, provider):
                async def fetch(request):
                    assert (request.method, request.url) == ("POST", "http://own.test/v1/chat/completions")
                    assert b'"model":"m"' in request.body and "host" not in request.headers
                    return FetchResponse(200, [("content-type", "text/event-stream")], body())

                return {"base_url": "http://own.test/v1", "fetch": fetch}

            return {"auth": {"provider": "own", "loader": loader, "methods": []}}
    """)
    door = await house.open(model="own/m")
    assert door.runtime.notices == []
    assert said(await door.ask(await door.session(), "hi")) == "sent to the plugin"


async def test_a_plugin_whose_loader_gives_nothing_changes_nothing(house: Machine, server: Recorder) -> None:
    options = {"baseURL": server.url, "apiKey": "key"}
    house.settings(
        provider={"own": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}}
    )
    house.data.mkdir(parents=True)
    kept = house.data / "auth.json"
    kept.write_text(json.dumps({"own": {"type": "oauth", "access": "token", "refresh": "r", "expires": 0}}))
    kept.chmod(0o600)
    house.plugin("""
        async def mine(input, options):
            async def loader(get_auth, provider):
                return None

            return {"auth": {"provider": "own", "loader": loader, "methods": []}}
    """)
    door = await house.open(model="own/m")
    assert door.runtime.notices == []
    assert said(await door.ask(await door.session(), "hi")) == "hello"


@pytest.mark.slow
async def test_a_plugin_makes_a_request_of_a_kept_login(house: Machine, server: Recorder) -> None:
    house.settings(provider={"own": {"npm": "@ai-sdk/openai-compatible", "models": {"m": {}}}})
    house.data.mkdir(parents=True)
    kept = house.data / "auth.json"
    kept.write_text(json.dumps({"own": {"type": "oauth", "access": "token", "refresh": "r", "expires": 0}}))
    kept.chmod(0o600)
    house.plugin(f"""
        async def mine(input, options):
            async def loader(get_auth, provider):
                kept = await get_auth()
                headers = {{"x-plan": "pro"}}
                return {{"apiKey": "made of " + kept["access"], "baseURL": {server.url!r}, "headers": headers}}

            return {{"auth": {{"provider": "own", "loader": loader, "methods": []}}}}
    """)
    door = await house.open(model="own/m")
    assert door.runtime.notices == []
    assert said(await door.ask(await door.session(), "hi")) == "hello"
    ((path, headers, _),) = server.asked
    assert (path, headers["authorization"], headers["x-plan"]) == (
        "/v1/chat/completions",
        "Bearer made of token",
        "pro",
    )
