"""A node program that plays opencode, with its half of the bridge and a real `instar bridge` behind it."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from instar.opencode import bridge

HALF = Path(bridge.__file__).parent / "opencode.mjs"
PLAYER = Path(__file__).parent / "player.mjs"


class PlayError(Exception):
    """What opencode would have been told went wrong."""


class Player:
    """opencode as its plugin sees it, in `project`."""

    def __init__(self, project: Path, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "instar", "bridge"]
        self._process = subprocess.Popen(
            ["node", PLAYER, HALF.as_uri(), json.dumps(command), str(project)],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._waiting: dict[int, Future[Any]] = {}
        self._last = 0
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """opencode's process."""
        return self._process.pid

    def begin(self, what: str, /, **given: Any) -> "Future[Any]":
        """Let opencode do something, and do not wait for it."""
        self._last += 1
        future: Future[Any] = Future()
        self._waiting[self._last] = future
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": self._last, "do": what, **given}) + "\n")
        self._process.stdin.flush()
        return future

    def do(self, what: str, /, **given: Any) -> Any:
        """Let opencode do something. Raises `PlayError`."""
        return self.begin(what, **given).result(PATIENCE)

    def hook(self, name: str, given: Any, output: Any) -> Any:
        """Call a hook and return the output as opencode holds it then, in its own arrays and objects."""
        found = self.do("hook", name=name, input=given, output=output)
        held = found["held"]
        return {
            key: held[key] if isinstance(held.get(key), dict | list) else value
            for key, value in found["output"].items()
        }

    def requests(self, method: str) -> list[Any]:
        """The paths and bodies of the requests that plugins made."""
        return [(one["path"], one["body"]) for one in self.do("seen")["requests"] if one["method"] == method]

    def close(self) -> None:
        """opencode ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            future = self._waiting.pop(said["id"])
            if "error" in said:
                future.set_exception(PlayError(said["error"]))
            else:
                future.set_result(said["result"])


@pytest.fixture
def player(tmp_path: Path, clean_environment: Mapping[str, str]) -> Iterator[Callable[..., Player]]:
    """Start opencode in the project, whose plugin file holds this text, trusted unless that is said.

    `more` are variables.
    """
    players: list[Player] = []

    def start(
        plugin: str = "", *, trusted: bool = True, files: Mapping[str, str] | None = None, **more: str
    ) -> Player:
        project = tmp_path / "project"
        for name, text in {".instar/plugins/one.py": plugin, **(files or {})}.items():
            if text:
                path = project / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        project.mkdir(exist_ok=True)
        environment = {**clean_environment, **more, **({"INSTAR_TRUST": "all"} if trusted else {})}
        players.append(Player(project, environment))
        return players[-1]

    yield start
    for one in players:
        one.close()
