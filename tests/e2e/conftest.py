"""A person with a project, an evolve workspace and a scripted model, who runs `instar` as a process.

Test files cannot import each other: everything is handed out through the `person` fixture.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import started
from tests.confinement import remember
from tests.waiting import PATIENCE

from instar.message import ToolPart, WithParts, text_of
from instar.plugin import PromptBody, SessionBody
from instar.runtime import Options, Runtime
from instar.testing import clean_environment

SEED_MINIMAL = """\
#!/usr/bin/env python3
import json, sys

HOOKS = {}

def hook(fn):
    HOOKS[fn.__name__] = fn
    return fn

@hook
def discover(ctx):
    return {"name": "mybot", "test": "mybot_test.py", "tools": []}

@hook
def mutate_request(ctx):
    return {"system": ["you are a helpful assistant."]}

if __name__ == "__main__":
    h = HOOKS.get(sys.argv[1])
    if not h:
        print(json.dumps({"error": f"unknown hook: {sys.argv[1]}"}))
        sys.exit(1)
    ctx = json.loads(sys.stdin.read() or "{}")
    result = h(ctx)
    for key, value in result.items():
        print(json.dumps({key: value}), flush=True)
"""
"""The minimal Python hook of opencode-evolve's README."""

EXAMPLE = Path(__file__).parents[2] / "examples" / "hello"


class Ran:
    """A command that ended: its exit code, what it printed, and its log lines as they were written."""

    def __init__(self, done: "subprocess.CompletedProcess[bytes]") -> None:
        self.code = done.returncode
        self.stdout = done.stdout.decode()
        self.stderr = done.stderr.decode()

    @property
    def log(self) -> list[str]:
        """The messages of the log lines on stderr."""
        return [_unquoted(found) for found in re.findall(r' msg=("(?:[^"\\]|\\.)*"|\S+)', self.stderr)]

    def logged(self, *words: str) -> list[str]:
        """The log messages that hold all these words."""
        return [line for line in self.log if all(word in line for word in words)]


class Person:
    """What a person has and does. `root` is the workspace, `project` where they work."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.root, self.project = folder / "ws", folder / "project"
        self.project.mkdir()
        (self.root / "hooks").mkdir(parents=True)
        self.home = Path(environment["HOME"])
        self.story, self.record = folder / "story.txt", folder / "record.jsonl"
        self.environment = {
            **environment,
            "GIT_CONFIG_NOSYSTEM": "1",
            "INSTAR_WORKSPACE": str(self.root),
            "INSTAR_SCRIPT": str(self.story),
            "INSTAR_SCRIPT_RECORD": str(self.record),
            "TMPDIR": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir()
        (self.home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n")
        remember(environment)
        self.doors: list[Runtime] = []

    # -- what lies in the workspace ---------------------------------------------------------------

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """Write a file of the workspace."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        path.chmod(mode)
        return path

    def script(self, name: str, text: str, mode: int = 0o755) -> Path:
        """Write a hook script."""
        return self.write(f"hooks/{name}", text, mode)

    def shell(self, name: str, **answers: str) -> Path:
        """Write a hook script that answers these hooks with these lines, and knows no other.

        An answer that begins with ``$ `` is shell code. What the script is given is ``$given``, and kept for `calls`,
        but where the agent changed the script: then it reaches no file of the test's.
        """
        kept = self.folder / "calls"
        kept.mkdir(exist_ok=True)
        cases = "".join(f"{hook}) {_code(answer)}\n;;\n" for hook, answer in answers.items())
        # One write a call: scripts may run at the same time.
        head = f'''#!/bin/sh
given=$(cat)
{{ printf '%s\\n' "$given" >>"{kept}/{name}.$1"; echo "{name} $1" >>"{kept}/order"; }} 2>/dev/null
'''
        tail = """*) printf '{"error": "unknown hook: %s"}\\n' "$1"; exit 1;;\nesac\n"""
        path = self.root / "hooks" / name
        path.write_text(f'{head}case "$1" in\n{cases}{tail}')
        path.chmod(0o755)
        return path

    def calls(self, name: str, hook: str) -> list[dict[str, Any]]:
        """What a `shell` script was given for a hook, call by call."""
        path = self.folder / "calls" / f"{name}.{hook}"
        return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []

    def order(self, hook: str) -> list[str]:
        """The `shell` scripts that were called for a hook, in order."""
        path = self.folder / "calls" / "order"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[0] for line in lines if line.split()[1] == hook]

    def hello(self) -> Path:
        """Make the workspace a copy of the example."""
        return Path(shutil.copytree(EXAMPLE, self.root, dirs_exist_ok=True))

    def config(self, **data: Any) -> None:
        """Write the person's own instar.json."""
        path = Path(self.environment["XDG_CONFIG_HOME"]) / "instar" / "instar.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data))

    def git(self, *args: str, cwd: Path | None = None) -> str:
        """Run git as the person would."""
        return subprocess.run(
            ["git", *args],
            cwd=cwd or self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def commit_all(self, cwd: Path | None = None) -> None:
        """Make a repository of a folder with all that is in it."""
        self.git("init", "--quiet", cwd=cwd)
        self.git("add", "--all", cwd=cwd)
        self.git("commit", "--quiet", "--allow-empty", "--message", "before", cwd=cwd)

    def accept(self, *files: str) -> None:
        """Take over what was changed in the workspace by hand: these files, or all."""
        self.instar("evolve", "accept", "--yes", *files)

    def subjects(self) -> list[str]:
        """The subjects of the workspace's commits, newest first."""
        return self.git("log", "--format=%s").splitlines()

    def files(self, folder: Path | None = None) -> dict[str, tuple[int, bytes]]:
        """Every file with its mode and bytes, ``.git`` and all, but for what each first run leaves.

        That is the mark in ``.git``, and ``state`` with the model that was used.
        """
        folder = folder or self.root
        found: dict[str, tuple[int, bytes]] = {}
        for path in sorted(folder.rglob("*")):
            if path.parent == self.root / "state" and path.name in ("evolve.json", ".gitignore"):
                continue
            if path.is_symlink():
                found[str(path.relative_to(folder))] = (0, os.readlink(path).encode())
            elif path.is_file() and not (path.name == "instar-epoch" and path.read_bytes() == b"1\n"):
                found[str(path.relative_to(folder))] = (path.stat().st_mode, path.read_bytes())
        return found

    def copies(self) -> list[str]:
        """Copies of the workspace that were left behind; TMPDIR is where they are made."""
        return [path.name for path in (self.folder / "tmp").iterdir()]

    # -- running ----------------------------------------------------------------------------------

    def instar(self, *arguments: str, code: int | None = 0, **environment: str) -> Ran:
        """Run a command to its end and see that no traceback was printed."""
        done = started.run(
            [*arguments],
            cwd=self.project,
            environment=self.environment | environment,
            timeout=PATIENCE,
        )
        ran = Ran(done)
        assert "Traceback" not in ran.stdout + ran.stderr, ran.stderr
        assert code is None or ran.code == code, (ran.code, ran.stdout, ran.stderr)
        return ran

    def run(self, story: str, *arguments: str, code: int | None = 0, **environment: str) -> Ran:
        """Let the model tell `story` to a prompt, with the log printed."""
        self.tell(story)
        given = ["run", "-m", "scripted/x", "--print-logs", "--title", "t", *arguments, "hi"]
        return self.instar(*given, code=code, **environment)

    def tell(self, story: str) -> None:
        """Write the model's script."""
        self.story.write_text(textwrap.dedent(story))

    def requests(self, purpose: str = "turn") -> list[dict[str, Any]]:
        """What the model was sent, call after call."""
        if not self.record.exists():
            return []
        found = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [line for line in found if line["purpose"] == purpose]

    def systems(self) -> list[list[str]]:
        """The system prompts that the model was sent."""
        return [request["system"] for request in self.requests()]

    def tools(self, request: int = -1) -> dict[str, Any]:
        """The tools that the model was offered in a call: name to its function."""
        return {tool["function"]["name"]: tool["function"] for tool in self.requests()[request]["tools"]}

    def results(self) -> list[str]:
        """What the model read of its calls, as the last request says."""
        messages = self.requests()[-1]["messages"]
        return [message["content"] for message in messages if message["role"] == "tool"]

    def said(self) -> list[str]:
        """What stands in a person's place in the last request."""
        return [one["content"] for one in self.requests()[-1]["messages"] if one["role"] == "user"]

    async def open(self, **options: Any) -> "Door":
        """Open a runtime in this process, where a second turn in the same process matters."""
        flags = {"model": "scripted/x", "workspace": str(self.root)}
        self.doors.append(await Runtime.open(Options(self.project, self.environment, flags, **options)))
        return Door(self.doors[-1])


class Door:
    """An open runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def session(self) -> str:
        return (await self.runtime.session.create(SessionBody(title="t"))).id

    async def ask(self, session_id: str, text: str = "hi") -> str:
        """Prompt and return the text of the last answer."""
        prompt = self.runtime.session.prompt(session_id, PromptBody.text(text))
        return text_of(await asyncio.wait_for(prompt, PATIENCE))

    async def history(self, session_id: str) -> Sequence[WithParts]:
        return await self.runtime.session.messages(session_id)

    async def calls(self, session_id: str) -> list[ToolPart]:
        """Every tool call of a session."""
        return [p for m in await self.history(session_id) for p in m.parts if isinstance(p, ToolPart)]


def _code(answer: str) -> str:
    return answer[2:] if answer.startswith("$ ") else f"cat <<'END'\n{answer}\nEND"


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), value[1:-1])


def made(folder: Path) -> Person:
    """Make a person in an empty folder."""
    given = clean_environment(folder / "home")
    # The system's own Python first: a version manager's shim needs 0.1 s to start one.
    return Person(folder, {**given, "PATH": f"/usr/bin:{given['PATH']}"})


@pytest.fixture(scope="module")
def persona(tmp_path_factory: pytest.TempPathFactory) -> Person:
    """A person for the tests of a file that only look at one run."""
    return made(tmp_path_factory.mktemp("persona"))


@pytest.fixture
async def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Person]:
    """A person with an empty workspace, whose own git settings are not this machine's."""
    found = made(tmp_path)
    # For runtimes in this process: git and mkdtemp read the process's own environment.
    for name in ("HOME", "GIT_CONFIG_NOSYSTEM", "TMPDIR"):
        monkeypatch.setenv(name, found.environment[name])
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield found
    for runtime in found.doors:
        await runtime.close()


@pytest.fixture(scope="session")
def minimal_hook() -> str:
    """The minimal Python hook of opencode-evolve's README."""
    return SEED_MINIMAL
