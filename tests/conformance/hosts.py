"""The two programs that run plugins, each as one server with a directory for every scenario."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

PATIENCE = 120.0
"""Seconds after which a test gives up on a server: the first start of opencode writes its database."""

PLUGINS = Path(__file__).parent / "plugins"
LOGIN = ("opencode", "correct horse")


class Host:
    """A server below `folder`. Its plugins lie beside what npm installed below `npm`, where published ones are."""

    def __init__(self, command: list[str], folder: Path, npm: Path | None, **environment: str) -> None:
        self.folder, home = folder, folder / "home"
        self.plugins = folder / "plugins"
        shutil.copytree(PLUGINS, self.plugins)
        (folder / "python").mkdir()
        (self.plugins / "record.py").rename(folder / "python" / "record.py")
        if npm is not None:
            (folder / "node_modules").symlink_to(npm / "node_modules")
        home.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")},
            "LANG": "C.UTF-8",
            # opencode takes its directory from here, not from the system.
            "PWD": str(home),
            "PYTHONPATH": str(folder / "python"),
            "OPENCODE_SERVER_PASSWORD": LOGIN[1],
            "INSTAR_TRUST": "all",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            **environment,
        }
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [*command, "serve", "--port", "0", "--print-logs"],
            cwd=home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # opencode starts children that outlive it when it is killed.
            start_new_session=True,
        )
        self.http = httpx2.Client(base_url=self._announced(), auth=LOGIN, timeout=PATIENCE)

    @property
    def log(self) -> list[str]:
        """The lines of its log."""
        return (self.folder / "log").read_text(errors="replace").splitlines()

    def directory(self, name: str, settings: Mapping[str, Any]) -> Path:
        """Make a repository with these settings; its one commit, and so its project's id, is like no other's."""
        made = self.folder / "projects" / name
        made.mkdir(parents=True)
        (made / "opencode.json").write_text(json.dumps(settings))
        (made / "notes.txt").write_text("buy milk\n")
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", name]):
            subprocess.run(["git", *command], cwd=made, env=self.environment, check=True)
        return made

    def close(self) -> None:
        """End it, and whatever it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(5)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self.http.close()
        self._log.close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _announced(self) -> str:
        assert self._process.stdout is not None
        while select.select([self._process.stdout], [], [], PATIENCE)[0]:
            line = self._process.stdout.readline().decode()
            if line.startswith("opencode server listening on "):
                return line.rpartition(" ")[2].strip()
            assert line, f"it ended: {self.log}"
        raise AssertionError(f"it announced no address: {self.log}")


def instar(folder: Path, npm: Path | None = None) -> Host:
    """Start `instar serve`. What it installs for plugins it installs once, beside what npm did."""
    cache = {} if npm is None else {"XDG_CACHE_HOME": str(npm / "cache")}
    return Host([sys.executable, "-m", "instar"], folder, npm, **cache)


def opencode(folder: Path, npm: Path) -> Host:
    """Start the real `opencode serve`."""
    # Its list of the world's models and its own plugins cost each directory a second, and no scenario meets them.
    models = folder / "models.json"
    models.write_text("{}")
    lean = {"OPENCODE_MODELS_PATH": str(models), "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}
    return Host([str(npm / "node_modules" / ".bin" / "opencode")], folder, npm, **lean)
