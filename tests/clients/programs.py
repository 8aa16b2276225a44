"""The real opencode and instar, each as a server with a home, settings and a git repository of its own."""

import functools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

PATIENCE = 60.0
"""Seconds after which a test gives up on a process: the first start of opencode writes its database."""

PASSWORD = "correct horse"
"""Of both servers; the user is opencode."""

TOY = """\
import json, sys

ANSWERS = {
    "initialize": {"capabilities": {"tools": {}, "resources": {}}, "serverInfo": {"name": "toy", "version": "1"}},
    "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object", "properties": {}}}]},
    "resources/list": {"resources": [{"uri": "toy://one", "name": "one", "mimeType": "text/plain"}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = ANSWERS.get(asked["method"], {})
        if asked["method"] == "initialize":
            answer = {**answer, "protocolVersion": asked["params"]["protocolVersion"]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
"""An MCP server of one tool and one resource."""

FILES = {
    "notes.txt": "buy milk\nbuy bread\n",
    "src/app.py": "def main():\n    return 'milk'\n",
    "AGENTS.md": "Be brief.\n",
    # opencode writes changed settings there.
    ".gitignore": "ignored/\nconfig.json\n",
}
"""The project's files, in one commit."""

DEFINED = {
    "agent/poet.md": "---\ndescription: writes poems\nmode: all\n---\nYou write poems.\n",
    "agent/scout.md": "---\ndescription: looks around\nmode: subagent\n---\nYou look.\n",
    "command/greet.md": "---\ndescription: greets somebody\nagent: poet\n---\nGreet $1.\n",
    "skill/tidy/SKILL.md": "---\nname: tidy\ndescription: how to tidy\n---\nPut things away.\n",
}
"""What the person defined, below the program's folder of settings."""


class Program:
    """A server in a folder of its own: `project` is its git repository, `environment` what it starts with.

    It starts when it is made; `url` waits for the line that announces the address. `settings` are the person's;
    MCP servers (`toy` answers, `off` is not enabled) are added to them.
    """

    name = "opencode"

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder, self.project, self.home = folder, folder / "project", folder / "home"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "LANG": "C.UTF-8",
            # opencode takes its directory from here, not from the system.
            "PWD": str(self.project),
            "OPENCODE_SERVER_PASSWORD": PASSWORD,
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        self._furnish(settings)
        self._errors = (folder / "errors.log").open("wb")
        self.process = subprocess.Popen(
            [*self.command(), "serve", "--port", "0"],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # opencode starts children that outlive it when it is killed.
            start_new_session=True,
        )

    def command(self) -> list[str]:
        """The program and its first arguments."""
        return [opencode()]

    @functools.cached_property
    def url(self) -> str:
        """The address, once it is announced."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], PATIENCE)[0]:
            line = self.process.stdout.readline().decode()
            if line.startswith("opencode server listening on "):
                return line.rpartition(" ")[2].strip()
            assert line, f"{self.name} ended: {self.errors}"
        raise AssertionError(f"{self.name} announced no address: {self.errors}")

    @functools.cached_property
    def http(self) -> httpx2.Client:
        """A client that logs in."""
        return httpx2.Client(base_url=self.url, auth=("opencode", PASSWORD), timeout=PATIENCE)

    @property
    def errors(self) -> str:
        """What it wrote to its stderr."""
        return (self.folder / "errors.log").read_text(errors="replace")

    def close(self) -> None:
        """End it, and whatever it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(5)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._errors.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        if "http" in self.__dict__:
            self.http.close()

    def _furnish(self, settings: Mapping[str, Any]) -> None:
        config = self.home / "config" / self.name
        (self.folder / "toy.py").parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "toy.py").write_text(TOY)
        toy = {"type": "local", "command": [sys.executable, str(self.folder / "toy.py")]}
        servers = {"toy": toy, "off": {"type": "local", "command": ["true"], "enabled": False}}
        texts = {config / f"{self.name}.json": json.dumps({**settings, "mcp": servers})}
        texts |= {config / name: text for name, text in DEFINED.items()}
        texts |= {self.project / name: text for name, text in FILES.items()}
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._commit()

    def _commit(self) -> None:
        # The same commit in each run and for each program: its hash is the project's id.
        fixed = {"GIT_AUTHOR_DATE": "@1735689600 +0000", "GIT_COMMITTER_DATE": "@1735689600 +0000"}
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*author, "commit", "-qm", "one"]):
            subprocess.run(["git", *command], cwd=self.project, env={**self.environment, **fixed}, check=True)


class Instar(Program):
    """`instar serve`."""

    name = "instar"

    def command(self) -> list[str]:
        """The program and its first arguments."""
        return [sys.executable, "-m", "instar"]


def installed() -> Path:
    """The folder into which `make test-clients` installed the clients."""
    return Path(os.environ["INSTAR_CLIENTS"]).absolute()


def opencode() -> str:
    """The path of the real opencode's program."""
    return str(installed() / "node_modules" / ".bin" / "opencode")
