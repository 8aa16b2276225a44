"""The real opencode, run beside instar, and a small model: `make real`.

Nothing here is collected without INSTAR_REAL and INSTAR_SMALL.

INSTAR_REAL names the folder into which npm installed ``opencode-ai``. The program gets a home of its own, a git
repository, and a model that says what a test wrote down: a Chat Completions server on loopback.
"""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

_NEEDS = {
    "test_exchange.py": "INSTAR_REAL",
    "test_trace.py": "INSTAR_REAL",
    "test_small_model.py": "INSTAR_SMALL",
}
collect_ignore = [name for name, needed in _NEEDS.items() if not os.environ.get(needed)]

PATIENCE = 120.0
"""Seconds after which a test gives up on a process: the first start of opencode writes its database."""

Answer = dict[str, Any]
"""One answer: ``text``, ``reasoning`` and ``tools``, a list of names with their arguments."""


class Answers:
    """A server that gives these answers one after the other, the last one again and again.

    A request without tools is a title's; it is answered by `title`, and takes none of the answers. `requests`
    are the bodies that came, in order.
    """

    def __init__(self, answers: list[Answer], title: str = "A talk") -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers, self._title, self._given = answers, title, 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The base address for a provider's settings."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def settings(self) -> dict[str, Any]:
        """Settings of opencode and of instar that name this server's model, and allow every tool."""
        model = {"name": "M", "limit": {"context": 100_000, "output": 4_000}}
        fake = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Fake",
            "options": {"baseURL": self.url, "apiKey": "none"},
            "models": {"m": model},
        }
        return {
            "provider": {"fake": fake},
            "model": "fake/m",
            "small_model": "fake/m",
            "permission": {"*": "allow", "external_directory": "allow"},
        }

    def answer(self, body: dict[str, Any]) -> bytes:
        """The server-sent events for a request."""
        with self._lock:
            self.requests.append(body)
            number = self._given
            if body.get("tools"):
                self._given += 1
        given = (
            self._answers[min(number, len(self._answers) - 1)] if body.get("tools") else {"text": self._title}
        )
        chunks = [json.dumps(_chunk(body["model"], **one)) for one in _deltas(given, number)]
        return "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"]).encode()

    def close(self) -> None:
        """Let go of the port."""
        self._server.shutdown()
        self._server.server_close()


def _deltas(answer: Answer, number: int) -> Iterator[dict[str, Any]]:
    if "reasoning" in answer:
        yield {"delta": {"role": "assistant", "reasoning_content": answer["reasoning"]}}
    if "text" in answer:
        yield {"delta": {"role": "assistant", "content": answer["text"]}}
    tools = answer.get("tools", [])
    for index, (name, arguments) in enumerate(tools):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{number}_{index}", "type": "function", "function": function}
        yield {"delta": {"tool_calls": [call]}}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    yield {"delta": {}, "finish": "tool_calls" if tools else "stop", "usage": usage}


def _chunk(model: str, delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model}
    return {**head, "choices": [choice], **more}


def _handler(answers: Answers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: object) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            data = answers.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


class Opencode:
    """An installed opencode with a home of its own, in a git repository of one commit.

    The repository's date and author are fixed, so its project's id is the same in every run.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.program = Path(os.environ["INSTAR_REAL"]).absolute() / "node_modules" / ".bin" / "opencode"
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        home = folder / "home"
        self.database = home / "data" / "opencode" / "opencode.db"
        self.environment = {
            **environment,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            # opencode takes its directory from here, not from the system.
            "PWD": str(self.project),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        home.mkdir()
        self._commit()

    def configure(self, settings: dict[str, Any]) -> None:
        """Write the person's settings, outside of the project."""
        path = Path(self.environment["XDG_CONFIG_HOME"]) / "opencode" / "opencode.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start it with pipes and no stdin."""
        return subprocess.Popen(
            [self.program, *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run it to its end and return its stdout."""
        child = self.start(*arguments)
        try:
            out, err = child.communicate(timeout=PATIENCE)
        finally:
            child.kill()
        assert child.returncode == code, err.decode()
        return out.decode()

    def sessions(self) -> list[str]:
        """The ids of the sessions that it lists, newest first; those of sub-agents are not listed."""
        return [
            line.split()[0] for line in self.run("session", "list").splitlines() if line.startswith("ses_")
        ]

    def export(self, session_id: str) -> dict[str, Any]:
        """What `opencode export` prints."""
        return json.loads(self.run("export", session_id))

    def _commit(self) -> None:
        (self.project / "notes.txt").write_text("buy milk\n")
        fixed = {"GIT_AUTHOR_DATE": "@1735689600 +0000", "GIT_COMMITTER_DATE": "@1735689600 +0000"}
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "one"]):
            subprocess.run(["git", *command], cwd=self.project, env={**self.environment, **fixed}, check=True)


@pytest.fixture
def opencode(tmp_path: Path, clean_environment: Mapping[str, str]) -> Callable[[str], Opencode]:
    """Make an opencode with a home and a repository under this name."""
    return lambda name: Opencode(tmp_path / name, clean_environment)


@pytest.fixture
def answers() -> Iterator[Callable[..., Answers]]:
    """Start a server with these answers."""
    started: list[Answers] = []

    def start(*given: Answer, **more: Any) -> Answers:
        started.append(Answers(list(given), **more))
        return started[-1]

    yield start
    for one in started:
        one.close()
