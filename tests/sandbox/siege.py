"""Attacks through a session: one scripted model makes them all, and the machine is looked at after each."""

import asyncio
import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.sandbox.conftest import KEY, NAP, Home, running_as, state_of
from tests.waiting import PATIENCE

from instar.plugin import CommandBody
from instar.testing import Machine, RuntimeUnderTest, results, users

Call = Callable[[str], str]
"""What makes of an attack's shell program the section of the model's script that tries it."""

REGISTERED = {"name": "siege", "test": "siege_test.sh"}
HARMLESS = 'echo "$((6 * 7)) heard"'
"""A program that attacks nothing."""
TOOL = {"name": "run", "parameters": {"script": {"type": "string"}}}


class Found(NamedTuple):
    """What one attack left: what was guarded and is not as it was, what runs on, and what the model read."""

    changed: list[str]
    left: list[int]
    output: str

    @property
    def through(self) -> bool:
        """Whether it got past a guard."""
        printed = "OPEN" in self.output.split() or KEY in self.output
        return bool(self.changed or self.left or printed)


def by_bash(script: str) -> str:
    """The model's own bash."""
    return call_of("bash", {"timeout": 20000}, command=script)


def by_tool(script: str) -> str:
    """A tool of a hook script that the agent has made (`MADE`)."""
    return call_of("siege_run", {}, script=script)


def made(variables: Mapping[str, str]) -> str:
    """Return a call that makes of the script one whose tool runs what it is given, with these variables set."""
    return call_of(
        "evolve_hook_write", {"hook": "siege.sh"}, content=f"#!/bin/bash\n{_exports(variables)}{MADE}"
    )


def _exports(variables: Mapping[str, str]) -> str:
    """The lines that set variables: a sandbox passes none."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


MADE = f"""\
case "$1" in
discover) printf '%s\\n' {shlex.quote(json.dumps({**REGISTERED, "tools": [TOOL]}))};;
execute_tool) "$PY" -I -S -c '
import json, subprocess, sys
script = json.load(sys.stdin)["args"]["script"]
one = subprocess.PIPE
done = subprocess.run(["bash", "-c", script], stdout=one, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
print(json.dumps({{"result": done.stdout.decode(errors="replace") or "nothing"}}))';;
*) printf '{{"error": "unknown hook: %s"}}\\n' "$1"; exit 1;;
esac
"""
"""The code of a hook script whose tool runs what it is given."""

PERSONS = f"""\
#!/bin/sh
case "$1" in
discover) printf '%s\\n' {shlex.quote(json.dumps(REGISTERED))};;
*) printf '{{"error": "unknown hook: %s"}}\\n' "$1"; exit 1;;
esac
"""
"""The same script as the person wrote it: it registers its test."""

TEST = """\
#!/bin/bash
# A candidate that has an attack to make is refused afterwards, so that the next one finds the script as it was.
cd "$INSTAR_WORKSPACE" && grep -q ATTACK hooks/siege.sh && { bash hooks/siege.sh attack 2>&1; exit 1; }
exit 0
"""
"""Its registered test."""


def by_candidate(variables: Mapping[str, str]) -> Call:
    """A candidate, when its test runs it; `variables` are set in it, since a sandbox passes none."""
    register = f'if [ "$1" = discover ]; then printf "%s\\n" {shlex.quote(json.dumps(REGISTERED))}; exit; fi'
    begin = f"#!/bin/bash\n# ATTACK\n{register}\n"
    return lambda script: call_of(
        "evolve_hook_write", {"hook": "siege.sh"}, content=f"{begin}{_exports(variables)}{script}\n"
    )


class Door(NamedTuple):
    """How a program of an attack comes to run: the call, and the settings that it needs.

    `lasts`: what attacks stays between attacks, so what they leave may stay as long. `collects` is the tool of a second
    call for each attack, which waits for the first one's end.
    """

    call: Call
    settings: Mapping[str, Any] = MappingProxyType({})
    lasts: bool = False
    collects: str = ""
    model: str = "scripted/x"


class Siege:
    """A session on an evolve workspace, in which attacks are made one after another.

    Between two of them what is not guarded is put back, so that each finds what the first one found.
    """

    def __init__(
        self,
        house: Machine,
        home: Home,
        level: str,
        variables: Mapping[str, str],
        door: "Door | None" = None,
    ) -> None:
        self._house, self._home = house, home
        self._before: dict[str, str] = {}
        self._kept: dict[Path, set[str]] = {}
        self._modes: dict[Path, int] = {}
        self._found: list[tuple[list[str], list[int]]] = []
        self._waiting = False
        self._door = door or Door(by_bash)
        house.folder = home.workspace
        given = {"plugin": ["evolve"], "permission": {"*": "allow"}, "shield": {"level": level}}
        given |= {"limits": {"steps": 1000}, **self._door.settings}
        house.environment |= {
            **home.environment(),
            "INSTAR_WORKSPACE": str(home.workspace),
            "INSTAR_CONFIG_CONTENT": json.dumps(given),
            **variables,
        }
        for folder, name, text in (("hooks", "siege.sh", PERSONS), ("tests", "siege_test.sh", TEST)):
            path = home.workspace / folder / name
            path.write_text(text)
            path.chmod(0o755)

    async def run(self, call: Call, scripts: list[str], first: str = "") -> list[Found]:
        """Make the attacks and return what each left; `first` are sections of the model's before them.

        Raises `AssertionError` when a program that attacks nothing is not heard either: then none was.
        """
        door = await self._opened([*([first] if first else []), *map(call, [*scripts, HARMLESS])])
        door.plugin({"tool.execute.before": self._looked}, name="siege")
        session = await door.session()
        await door.start(session, "go")
        # As long as it takes: one attack waits for its background, and there are many.
        await door.runtime.turns.wait(await door.live(session))
        outputs = results(await door.stored(session))[1 if first else 0 :]
        if self._door.collects:
            outputs = list(map("\n".join, zip(outputs[::2], outputs[1::2], strict=True)))
        return await self._ended(outputs, scripts, 1 if first else 0)

    async def run_commands(self, name: str, scripts: list[str]) -> list[Found]:
        """Make the attacks by the body of a command of that name, which runs its arguments."""
        door = await self._opened(["== turn\ntext: read\n"] * (len(scripts) + 1))
        session, outputs = await door.session(), []
        for script in [*scripts, HARMLESS]:
            await self._look()
            await door.client.command(session, CommandBody(command=name, arguments=script))
            outputs.append(users(await door.stored(session))[-1])
        return await self._ended(outputs, scripts, 0)

    async def _opened(self, sections: list[str]) -> RuntimeUnderTest:
        self._house.script.write_text("".join(sections) + "== turn\ntext: done\n")
        self._kept = {folder: set(os.listdir(folder)) for folder in self._places()}
        self._modes = {path: path.stat().st_mode for path in self._hooks()}
        return await self._house.open(model=self._door.model)

    async def _ended(self, outputs: list[str], scripts: list[str], skipped: int) -> list[Found]:
        await self._settle()
        seen = self._found[skipped:]
        assert len(seen) == len(outputs) == len(scripts) + 1, (len(seen), outputs)
        found = [Found(*one, output) for one, output in zip(seen, outputs, strict=True)]
        assert "42 heard" in found[-1].output, found[-1].output
        return found[:-1]

    async def _looked(self, given: Any, output: Any) -> None:
        if given.tool != self._door.collects:
            await self._look()

    async def _look(self) -> None:
        await self._settle()
        self._restore()
        self._before = self._guarded()
        self._waiting = True

    async def _settle(self) -> None:
        if self._waiting:
            after = self._guarded()
            names = sorted(self._before.keys() | after.keys())
            changed = [name for name in names if self._before.get(name) != after.get(name)]
            # In a thread: what ends a program may wait for the event loop.
            runs_on = [] if self._door.lasts else await asyncio.to_thread(left)
            self._found.append((changed, runs_on))
        self._waiting = False

    def _guarded(self) -> dict[str, str]:
        """All that is guarded but what instar itself writes meanwhile: its database, and commits of its own."""
        home, repository = self._home, self._home.workspace / ".git"
        folders = [path for path in home.readonly if path != repository]
        of_git = [repository / name for name in ("config", "hooks", "info", "HEAD")]
        found: dict[str, str] = {}
        for path in (*folders, *of_git, home.config, home.data / "auth.json", home.data / "trust.json"):
            below = state_of(path)
            found |= {} if len(below) == 1 and path.is_dir() and not path.is_symlink() else below
        log = repository / "logs/HEAD"
        return found | {"commits of an attack": str(log.read_text().count("<a@b>") if log.exists() else 0)}

    def _places(self) -> list[Path]:
        return [self._home.path, self._home.workspace.parent, self._home.workspace]

    def _hooks(self) -> list[Path]:
        return sorted((self._home.workspace / "hooks").iterdir())

    def _restore(self) -> None:
        for folder in self._places():
            for name in os.listdir(folder):
                if name not in {*self._kept[folder], *("prompts", "evals", "config")}:
                    _remove(folder / name)
        for path, mode in self._modes.items():
            # A file whose mode has changed has departed: scripts would run elsewhere from then on.
            path.chmod(mode)
        source = self._home.workspace / "src"
        _remove(source)
        source.mkdir()
        (source / "main.py").write_text("code\n")


def left() -> list[int]:
    """What runs on; killed is not yet gone: the kernel may take a moment."""
    end = time.monotonic() + PATIENCE
    while (found := running_as(f"sleep {NAP}")) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def call_of(tool: str, args: Mapping[str, object], **texts: str) -> str:
    lines = [f"== turn\ntool: {tool} {json.dumps(args)}\n"]
    lines += [f"arg: {name} <<SIEGE\n{text}\nSIEGE\n" for name, text in texts.items()]
    return "".join(lines)
