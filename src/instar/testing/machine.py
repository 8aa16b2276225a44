"""A person's machine in one folder (a home, a project, a scripted model, real runtimes on them), and a clock."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from instar.approval.permissions import Person
from instar.approval.questions import Questioner
from instar.runtime import Options, Runtime
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.testing.runtime import TIMEOUT, RuntimeUnderTest

_GIT: Final = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def clean_environment(home: Path) -> dict[str, str]:
    """Return the environment of a person who has nothing yet: no keys, no settings. `home` is made."""
    home.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        # No test may look at, or put aside, what this machine itself starts.
        "INSTAR_SYSTEM_ROOT": str(home / ".system"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


class Machine:
    """A person's machine in the folder `root`; use it with ``async with``, which closes its runtimes.

    `folder` is the project, `home` the folder of the person's configuration, `data` instar's data folder. `environment`
    is what runtimes and commands get; without one it is `clean_environment`. `trusted`: all that projects bring counts,
    as with ``INSTAR_TRUST=all``; else `trust` says so of this project.
    """

    def __init__(
        self, root: Path, environment: Mapping[str, str] | None = None, *, trusted: bool = True
    ) -> None:
        self.folder = root / "project"
        self.folder.mkdir(parents=True)
        self.script = root / "script.txt"
        self.record = root / "record.jsonl"
        self.environment = {
            **(clean_environment(root / "home") if environment is None else environment),
            "INSTAR_SCRIPT": str(self.script),
            "INSTAR_SCRIPT_RECORD": str(self.record),
            **({"INSTAR_TRUST": "all"} if trusted else {}),
        }
        self.home = Path(self.environment["XDG_CONFIG_HOME"]) / "instar"
        self.data = Path(self.environment["XDG_DATA_HOME"]) / "instar"
        self._root = root
        self._opened: list[Runtime] = []

    async def __aenter__(self) -> "Machine":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def says(self, script: str) -> None:
        """Write what the scripted model answers (docs/reference/scripted.md); common indentation is taken off."""
        self.script.write_text(textwrap.dedent(script), "utf-8")

    def requests(self, purpose: str = "turn") -> list[dict[str, Any]]:
        """Return what the model was sent, call by call: `system`, `messages`, `tools` (docs/reference/scripted.md).

        `purpose` is ``turn``, ``title``, ``compaction`` or ``generate``.
        """
        if not self.record.exists():
            return []
        lines = [json.loads(line) for line in self.record.read_text("utf-8").splitlines()]
        return [line for line in lines if line["purpose"] == purpose]

    def settings(self, **data: Any) -> None:
        """Write the person's configuration."""
        self._put(self.home / "instar.json", json.dumps(data))

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project, by its name relative to it; common indentation is taken off."""
        return self._put(self.folder / name, textwrap.dedent(text))

    def plugin(self, source: str, name: str = "mine") -> None:
        """Write a plugin of the project, ``.instar/plugins/NAME.py``."""
        self.write(f".instar/plugins/{name}.py", source)

    def repository(self) -> Path:
        """Make the project a git repository with what it holds in a first commit; return its folder."""
        for words in (
            ["init", "-q", "-b", "main"],
            ["add", "."],
            ["commit", "-q", "--allow-empty", "-m", "first"],
        ):
            subprocess.run(["git", *_GIT, *words], cwd=self.folder, env=self.environment, check=True)
        return self.folder

    def workspace(self, files: Mapping[str, str]) -> Path:
        """Make a workspace of the plugin evolve (docs/concepts/evolve.md), switch it on, and return its folder.

        `files` are texts by name; those in ``hooks/`` and ``tests/`` can be run.
        """
        workspace = self._root / "workspace"
        for name, text in files.items():
            path = self._put(workspace / name, textwrap.dedent(text))
            path.chmod(0o755 if name.startswith(("hooks/", "tests/")) else 0o644)
        workspace.mkdir(exist_ok=True)
        self.environment["INSTAR_WORKSPACE"] = str(workspace)
        return workspace

    def trust(self) -> Trust:
        """Trust the project with all that steers in it, as ``instar trust`` does, and return the list."""
        paths = Paths.from_environment(self.environment)
        trust = Trust(paths, self.environment)
        trust.add(self.folder)
        return trust

    async def open(
        self,
        *,
        person: Person | None = None,
        questioner: Questioner | None = None,
        model: str = "scripted/x",
    ) -> RuntimeUnderTest:
        """Open a runtime in the project. Raises what `Runtime.open` raises.

        `person` answers permission asks, else they are refused. `questioner` answers the model's questions, else the
        model has no tool to ask them.
        """
        options = Options(self.folder, self.environment, {"model": model}, person, questioner)
        runtime = await Runtime.open(options)
        self._opened.append(runtime)
        return RuntimeUnderTest(runtime)

    def run(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run ``instar ARGUMENTS`` in the project as a process of its own, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "instar", *arguments],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    async def close(self) -> None:
        """Close the runtimes that were opened."""
        while self._opened:
            await self._opened.pop().close()

    def _put(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whole from the first moment on: a runtime that watches would read half of it, and then once more.
        half = self.script.with_name("half-written")
        half.write_text(text, "utf-8")
        return half.replace(path)


class FakeClock:
    """Give it to code that takes a clock: a function that returns seconds, or an object with `wall` and `steady`.

    `now` is the time in ms since 1970, `uptime` the ms since the machine was started. Setting one does not change the
    other, as on a machine whose clock is set.
    """

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self.now = now
        self.uptime = 0

    def __call__(self) -> float:
        """Return the time in seconds since 1970."""
        return self.now / 1000

    def wall(self) -> int:
        """Return the time in ms since 1970."""
        return self.now

    def steady(self) -> float:
        """Return the seconds since the machine was started."""
        return self.uptime / 1000

    def advance(self, seconds: float) -> None:
        """Let time go by, in whole ms."""
        passed = round(seconds * 1000)
        self.now += passed
        self.uptime += passed

    async def pause(self, wake: asyncio.Event, seconds: float) -> None:
        """Let `seconds` go by at once, at least a ms; no time when `wake` is set."""
        if not wake.is_set():
            self.advance(max(0.001, seconds))
