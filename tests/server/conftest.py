"""A real `instar serve` as a process, and a client that talks to it."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator
from tests.postgresql import database_variable
from tests.waiting import PATIENCE

PASSWORD = "correct horse"
LOGIN = ("opencode", PASSWORD)

DOCUMENT = json.loads((Path(__file__).parents[1] / "data" / "opencode-schemas.json").read_text())


class Served:
    """A running server: `url`, and `http` that logs in."""

    def __init__(self, arguments: list[str], directory: Path, environment: Mapping[str, str]) -> None:
        self.directory, self.environment = directory, environment
        self.process = subprocess.Popen(
            [sys.executable, "-m", "instar", "serve", "--port", "0", "--grace", "0", *arguments],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as said:
            said.register(self.process.stdout, selectors.EVENT_READ)
            self.line = self.process.stdout.readline().decode() if said.select(PATIENCE) else ""
        if not self.line:
            self.process.kill()
            raise AssertionError(f"no address was announced: {self.process.communicate()[1].decode()}")
        self.url = self.line.rpartition(" ")[2].strip()
        self.http = httpx2.Client(base_url=self.url, auth=LOGIN, timeout=PATIENCE)

    def session(self, **body: Any) -> str:
        """Make a session and return its id."""
        return str(self.http.post("/session", json=body).json()["id"])

    def ask(self, session_id: str, text: str = "hi", path: str = "message", **body: Any) -> httpx2.Response:
        """Send a prompt to the scripted model."""
        model = {"providerID": "scripted", "modelID": "test"}
        parts = [{"type": "text", "text": text}]
        return self.http.post(f"/session/{session_id}/{path}", json={"model": model, "parts": parts, **body})

    @contextlib.contextmanager
    def events(self, path: str = "/event", **options: Any) -> Iterator[Iterator[dict[str, Any]]]:
        """Open an event stream and yield its events; the first one has been read when it is open."""
        with self.http.stream("GET", path, **options) as response:
            assert response.status_code == 200
            found = _heard(response)
            first = next(found)
            assert first.get("payload", first)["type"] == "server.connected"
            yield found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.errors = self.process.communicate(timeout=PATIENCE)[1].decode()
        self.http.close()
        return self.process.returncode


def _heard(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    # The end of the server breaks the streams of opencode's clients.
    with contextlib.suppress(httpx2.RemoteProtocolError):
        for line in response.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])


@pytest.fixture
def serve(clean_environment: Mapping[str, str], tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start servers; `script` is what their scripted model says, `environment` is added to a clean one."""
    started: list[Served] = []

    def start(
        *arguments: str, script: str = "== turn\ntext: hello\n", environment: Mapping[str, str] | None = None
    ) -> Served:
        directory = tmp_path / "project"
        directory.mkdir(exist_ok=True)
        (tmp_path / "script.txt").write_text(script)
        given = {
            **clean_environment,
            "INSTAR_SERVER_PASSWORD": PASSWORD,
            "INSTAR_SCRIPT": str(tmp_path / "script.txt"),
            **(environment or {}),
        }
        started.append(Served(list(arguments), directory, {k: v for k, v in given.items() if v}))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def environment_in(root: Path) -> dict[str, str]:
    """The environment of a server whose home, folders and script (``script.txt``) are in one folder."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "INSTAR_DATA": str(root / "data"),
        "XDG_CONFIG_HOME": str(root / "config"),
        "XDG_STATE_HOME": str(root / "state"),
        "INSTAR_SERVER_PASSWORD": PASSWORD,
        "INSTAR_SCRIPT": str(root / "script.txt"),
        **database_variable(root),
    }


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for tests that leave it as it was."""
    root = tmp_path_factory.mktemp("shared")
    (root / "project").mkdir()
    (root / "script.txt").write_text(TALK)
    served = Served([], root / "project", environment_in(root))
    yield served
    served.stop()


TALK = '== turn\nreasoning: hm\ntext: I look.\ntool: bash {"command": "echo hi"}\n== turn\ntext: Done.\n'


@pytest.fixture(scope="session")
def problems() -> Callable[[str, Any], list[str]]:
    """What is wrong with a value by opencode's schema of a name."""

    @cache
    def validator(name: str) -> Draft202012Validator:
        return Draft202012Validator(
            {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
        )

    def check(name: str, value: Any) -> list[str]:
        schema = DOCUMENT["events"].get(name, name)
        return [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(value)]

    return check
