"""Logging in to a remote MCP server by OAuth; the browser is played by an HTTP client, the server is the SDK's."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import COMMAND, Machine
from tests.ports import free_port
from tests.server.conftest import LOGIN
from tests.waiting import PATIENCE, wait_until

SERVER = Path(__file__).parent.parent / "mcp" / "oauth_server.py"
USES = "== turn\ntool: vault_secret {}\n== turn\ntext: It is {{tool}}.\n"


class Vault:
    """The server, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.port, self._log = free_port(), folder / "log.jsonl"
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.process = subprocess.Popen(
            [sys.executable, SERVER, str(self.port), "3600"], cwd=folder, stderr=subprocess.DEVNULL
        )
        wait_until(self._listens)

    def block(self, **oauth: Any) -> dict[str, Any]:
        """The block of the settings that names it."""
        return {"type": "remote", "url": self.url, "oauth": {"callbackPort": free_port(), **oauth}}

    @property
    def log(self) -> list[dict[str, Any]]:
        """What it was asked for."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    def _listens(self) -> bool:
        try:
            return httpx2.get(self.url).status_code == 401
        except httpx2.ConnectError:
            return False


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = Vault(tmp_path / "vault")
    yield made
    made.process.kill()
    made.process.wait()


def configured(machine: Machine, block: dict[str, Any]) -> None:
    machine.write_home("instar.json", json.dumps({"model": "scripted/test", "mcp": {"vault": block}}))


def log_in(machine: Machine, visit: Callable[[str], object]) -> tuple[int, str]:
    """Run `instar mcp auth vault`; `visit` is what the person does with the address. Returns code and output."""
    process = subprocess.Popen(
        [*COMMAND, "mcp", "auth", "vault"],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if line.startswith("log in here: "):
        visit(line.removeprefix("log in here: ").strip())
    rest = process.communicate(timeout=PATIENCE)[0]
    return process.returncode, line + rest


def browse(url: str) -> str:
    """What a browser shows at last."""
    return httpx2.get(url, follow_redirects=True).text


@pytest.mark.slow
def test_a_login_is_made_in_the_browser_kept_refreshed_and_forgotten(machine: Machine, vault: Vault) -> None:
    configured(machine, vault.block())
    listed = machine.instar("mcp", "list")
    assert listed.stdout == "vault  needs_auth: somebody has to log in: instar mcp auth vault\n"
    assert vault.log == []

    def visit(url: str) -> None:
        asked = httpx2.URL(url).params
        assert asked["code_challenge_method"] == "S256"
        back = asked["redirect_uri"]
        # Whoever else finds the port ends nothing and gets nothing.
        for wrong in (f"{back}?code=x&state=guess", f"{back}?code=x", back, back.replace("callback", "else")):
            assert httpx2.get(wrong).status_code == 400
        assert "You can close this page" in browse(url)

    code, said = log_in(machine, visit)
    assert (code, said.splitlines()[-1]) == (0, "logged in to vault, which is connected")
    (file,) = machine.home.rglob("mcp-auth.json")
    assert file.stat().st_mode & 0o777 == 0o600
    machine.script(USES)
    assert machine.instar("run", "go").stdout == "It is xyzzy.\n"

    kept = json.loads(file.read_text())
    kept["vault"]["tokens"]["expires_at"] = 1
    file.write_text(json.dumps(kept))
    assert machine.instar("run", "go").stdout == "It is xyzzy.\n"
    assert [one.get("by") for one in vault.log if "by" in one] == ["code", "refresh"]
    assert len([one for one in vault.log if "registered" in one]) == 1

    kept["vault"]["tokens"]["refresh_token"] = "forged"
    file.write_text(json.dumps(kept))
    assert "somebody has to log in" in machine.instar("mcp", "list").stdout

    secrets = [one["token"] for one in vault.log if "token" in one]
    texts = [path.read_bytes() for path in machine.home.rglob("*") if path.is_file() and path != file]
    assert not any(secret.encode() in text for secret in secrets for text in texts)
    assert not any(secret in said for secret in secrets)

    assert machine.instar("mcp", "logout", "vault").stdout == "forgot the login to vault\n"
    assert "needs_auth" in machine.instar("mcp", "list").stdout
    again = machine.instar("mcp", "logout", "vault")
    assert (again.returncode, again.stderr) == (1, f"instar: no login to 'vault' is kept in {file}\n")


@pytest.mark.slow
def test_on_a_terminal_the_browser_is_opened(
    machine: Machine, vault: Vault, screen: Callable[..., Any]
) -> None:
    configured(machine, vault.block())
    browser = machine.home / "browser"
    visit = "import httpx2, sys; print(httpx2.get(sys.argv[1], follow_redirects=True, timeout=60).text)"
    browser.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{visit}' \"$1\" > {machine.home}/page\n")
    browser.chmod(0o755)
    shown = screen("mcp", "auth", "vault", BROWSER=str(browser))
    shown.wait_for("logged in to vault, which is connected")
    assert shown.end() == 0
    assert "You can close this page" in (machine.home / "page").read_text()


@pytest.mark.slow
def test_a_client_that_was_registered_by_hand_asks_for_its_own_scope(machine: Machine, vault: Vault) -> None:
    given = {"clientId": "known", "clientSecret": "known-secret", "scope": "read", "callbackPort": 19877}
    configured(machine, vault.block(**given))
    code, said = log_in(machine, browse)
    assert code == 0, said
    assert [one for one in vault.log if "registered" in one] == []
    (authorized,) = [one for one in vault.log if "authorized" in one]
    assert authorized == {"authorized": "known", "scopes": ["read"], "resource": vault.url}


@pytest.mark.slow
def test_a_login_that_is_kept_goes_to_no_other_address(
    machine: Machine, vault: Vault, tmp_path: Path
) -> None:
    configured(machine, vault.block())
    assert log_in(machine, browse)[0] == 0
    other = Vault(tmp_path / "other")
    try:
        configured(machine, other.block())
        assert "needs_auth" in machine.instar("mcp", "list").stdout
    finally:
        other.process.kill()
        other.process.wait()


@pytest.mark.slow
def test_a_login_that_fails_is_one_line(machine: Machine, vault: Vault) -> None:
    configured(machine, vault.block())

    def refuse(url: str) -> None:
        asked = httpx2.URL(url).params
        answer = {"error": "access_denied", "state": asked["state"]}
        assert "Nobody was logged in" in httpx2.get(asked["redirect_uri"], params=answer).text

    code, said = log_in(machine, refuse)
    assert code == 1
    assert said.splitlines()[1:] == [
        "instar: no login to the MCP server 'vault': its authorization server refused: access_denied"
    ]
    configured(machine, {**vault.block(), "oauth": False})
    code, said = log_in(machine, refuse)
    assert (code, said) == (
        1,
        "instar: the MCP server 'vault' has no OAuth: it is local, or its oauth is false\n",
    )
    assert "give it in the headers" in machine.instar("mcp", "list").stdout
    assert machine.instar("mcp", "auth", "other").returncode == 2


class Careless(BaseHTTPRequestHandler):
    """A server whose token is of no kind that can be used."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        answers = {"/register": (201, {"client_id": "c", "redirect_uris": []}), "/token": (200, TOKEN)}
        self._answer(*answers.get(self.path, (401, {})))

    def do_GET(self) -> None:
        self._answer(404, {})

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


TOKEN = {"access_token": "SECRET-TOKEN", "token_type": "mac"}


@pytest.mark.slow
def test_a_token_that_cannot_be_used_is_told_to_nobody(machine: Machine) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Careless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    configured(machine, {"type": "remote", "url": url, "oauth": {"callbackPort": free_port()}})

    def visit(url: str) -> None:
        asked = httpx2.URL(url).params
        httpx2.get(asked["redirect_uri"], params={"code": "x", "state": asked["state"]})

    code, said = log_in(machine, visit)
    server.shutdown()
    server.server_close()
    assert code == 1
    assert said.splitlines()[-1].endswith("its authorization server gave no token that can be used")
    assert not any(b"SECRET-TOKEN" in path.read_bytes() for path in machine.home.rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_client_of_the_server_logs_in(serve: Callable[..., Any], vault: Vault) -> None:
    server = serve()
    block = vault.block()
    settings = {"mcp": {"vault": block, "shut": {**block, "oauth": False}}}
    with httpx2.Client(base_url=server.url, auth=LOGIN, timeout=PATIENCE) as there:
        for name, one in settings["mcp"].items():
            added = there.post("/mcp", json={"name": name, "config": one}).json()
        assert added["vault"] == {"status": "needs_auth"}
        begun = there.post("/mcp/vault/auth").json()
        assert httpx2.URL(begun["authorizationUrl"]).params["state"] == begun["oauthState"]
        # This client has a browser of its own, which hands it the code.
        sent = httpx2.get(begun["authorizationUrl"])
        while "code=" not in sent.headers["location"]:
            sent = httpx2.get(sent.headers["location"])
        code = httpx2.URL(sent.headers["location"]).params["code"]
        assert there.post("/mcp/vault/auth/callback", json={"code": code}).json() == {"status": "connected"}
        assert there.get("/mcp").json()["vault"] == {"status": "connected"}
        assert "under way" in there.post("/mcp/vault/auth/callback", json={"code": code}).text
        assert there.delete("/mcp/vault/auth").json() == {"success": True}
        assert there.get("/mcp").json()["vault"] == {"status": "needs_auth"}
        refused = there.post("/mcp/shut/auth")
        assert (refused.status_code, refused.json()) == (
            400,
            {"error": "MCP server shut does not support OAuth"},
        )
        assert there.post("/mcp/none/auth").status_code == 404


@pytest.mark.slow
def test_clients_are_shown_where_to_log_in(serve: Callable[..., Any], vault: Vault) -> None:
    server = serve()
    with httpx2.Client(base_url=server.url, auth=LOGIN, timeout=PATIENCE) as there:
        there.post("/mcp", json={"name": "vault", "config": vault.block()})
        with there.stream("GET", "/event") as events:
            lines = events.iter_lines()
            assert "server.connected" in next(line for line in lines if line.startswith("data:"))
            asking = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "import httpx2, sys; print(httpx2.post(sys.argv[1], auth=tuple(sys.argv[2:]), timeout=60).text)",
                    f"{server.url}/mcp/vault/auth/authenticate",
                    *LOGIN,
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            shown = next(json.loads(line[5:]) for line in lines if "tui.toast.show" in line)
            browse(shown["properties"]["message"].partition(": ")[2])
        assert asking.communicate(timeout=PATIENCE)[0] == '{"status":"connected"}\n'
