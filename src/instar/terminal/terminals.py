"""The terminals of one instance."""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from instar import wire
from instar.event import Pty, PtyCreated, PtyDeleted, PtyExited, PtyUpdated, make
from instar.plugin import Invalid, NotFound, points
from instar.process import ProcessError
from instar.session.instance import Instance
from instar.terminal.terminal import Terminal, described
from instar.wire import ids

_LIST: Final = Path("/etc/shells")
_UNLIKE: Final = frozenset(("fish", "nu"))
"""Shells with a language of their own: the commands that a model writes are not for them (as in opencode)."""
_LOGIN: Final = frozenset(("bash", "dash", "fish", "ksh", "sh", "zsh"))
"""Shells that are told to be a login shell."""


class LoginShell(NamedTuple):
    """A shell. `acceptable`: it understands the commands that a model writes."""

    path: str
    name: str
    acceptable: bool


def shells(variables: Mapping[str, str], listed: Path = _LIST) -> list[LoginShell]:
    """Return the shells that are there, in the order of `listed` (a file as ``/etc/shells``), the person's own last."""
    found = dict.fromkeys((*_lines(listed), *filter(None, [variables.get("SHELL", "")])))
    return [
        LoginShell(path, Path(path).name, Path(path).name not in _UNLIKE)
        for path in found
        if is_program(path)
    ]


def preferred(variables: Mapping[str, str]) -> str:
    """Return the shell of a terminal: the person's own (``SHELL``), else one that is there."""
    names = (variables.get("SHELL") or "bash", "bash", "sh")
    return next(filter(None, (shutil.which(one, path=variables.get("PATH")) for one in names)), "/bin/sh")


def login(command: str) -> list[str]:
    """Return the arguments that make a command a login shell; none if it is not a shell."""
    return ["-l"] if Path(command).name in _LOGIN else []


def is_program(path: str) -> bool:
    """Whether an absolute path is that of a program."""
    return path.startswith("/") and Path(path).is_file() and os.access(path, os.X_OK)


def _lines(listed: Path) -> list[str]:
    try:
        lines = listed.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.startswith("/")]


MOST: Final = 64
"""Terminals of an instance whose programs run at once."""
KEPT: Final = 32
"""Terminals that are listed on after their programs have exited; the oldest goes for one more."""
_ALWAYS: Final = {"TERM": "xterm-256color", "OPENCODE_TERMINAL": "1"}
"""What the clients that show a terminal understand, and how a program knows where it runs (as in opencode)."""


class NoTerminal(NotFound):
    """No terminal has this id."""

    def __init__(self, pty_id: str) -> None:
        super().__init__(f"PTY session not found: {pty_id}")
        self.pty_id = pty_id


class TerminalRequest(msgspec.Struct, frozen=True):
    """What a person asks for; what is left out is chosen here.

    `cwd` is taken from the instance's directory. `env` is put over everything else.
    """

    command: str = ""
    args: Sequence[str] = ()
    cwd: str = ""
    title: str = ""
    env: Mapping[str, str] = msgspec.field(default_factory=dict)


class Terminals:
    """The terminals of one instance, by id, oldest first. What happens to them is published on its bus."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._found: dict[str, Terminal] = {}
        self._starting = 0
        self._closed = False

    def list(self) -> list[Pty]:
        """Return what clients see of each terminal."""
        return [terminal.info for terminal in self._found.values()]

    def get(self, pty_id: str) -> Terminal:
        """Return a terminal. Raises `NoTerminal`."""
        found = self._found.get(pty_id)
        if found is None:
            raise NoTerminal(pty_id)
        return found

    async def create(self, asked: TerminalRequest, *, lasting: bool = False) -> Pty:
        """Start a program in a new terminal; `lasting`: it is listed on after the program has exited.

        Raises `Invalid` for a folder or a program that is not there, for what no program can be given, and for one
        terminal too many.
        """
        running = sum(not one.over for one in self._found.values()) + self._starting
        if self._closed or running >= MOST:
            raise Invalid(f"{running} terminals are open, and {MOST} may be: remove one")
        self._starting += 1
        try:
            terminal = await self._started(asked, lasting)
        except (ProcessError, OSError) as error:
            raise Invalid(str(error)) from error
        finally:
            self._starting -= 1
        if self._closed:
            await terminal.end()
            raise Invalid("the instance is closing")
        self._found[terminal.info.id] = terminal
        self._instance.bus.publish(make(PtyCreated(info=terminal.info)))
        return terminal.info

    def update(self, pty_id: str, title: str | None, size: tuple[int, int] | None) -> Pty:
        """Set a terminal's title, unless it is empty, and its size in rows and columns. Raises `NoTerminal`."""
        terminal = self.get(pty_id)
        if title:
            terminal.info = wire.replace(terminal.info, title=title)
        if size is not None:
            terminal.resize(*size)
        self._instance.bus.publish(make(PtyUpdated(info=terminal.info)))
        return terminal.info

    async def remove(self, pty_id: str) -> None:
        """End a terminal's program, with all that it started, and forget it. Raises `NoTerminal`."""
        terminal = self.get(pty_id)
        self._forget(pty_id)
        await terminal.end()

    async def close(self) -> None:
        """End every terminal; no more are opened."""
        self._closed = True
        ending = [terminal.end() for terminal in self._found.values()]
        self._found.clear()
        await asyncio.gather(*ending)

    async def _started(self, asked: TerminalRequest, lasting: bool) -> Terminal:
        cwd = self._instance.directory / asked.cwd
        if "\0" in asked.cwd or not await asyncio.to_thread(cwd.is_dir):
            raise Invalid(f"cannot open a terminal: there is no folder {str(cwd)!r}")
        env = await self._environment(cwd, asked.env)
        command = asked.command or preferred(env)
        if not _is_there(command, cwd, env):
            raise Invalid(f"cannot open a terminal: there is no program {command!r}")
        args = [*asked.args, *login(command)]
        terminal = Terminal(described(ids.new("pty"), asked.title, command, args, cwd), lasting=lasting)
        await terminal.start(self._instance.processes, env, self._exited)
        return terminal

    async def _environment(self, cwd: Path, given: Mapping[str, str]) -> dict[str, str]:
        said = await self._instance.variables(points.ShellEnvInput(cwd=str(cwd)))
        return {**said, "PWD": str(cwd), **_ALWAYS, **given}

    def _exited(self, terminal: Terminal) -> None:
        info = terminal.info
        if self._found.get(info.id) is not terminal or info.exit_code is None:
            return
        self._instance.bus.publish(make(PtyExited(id=info.id, exit_code=info.exit_code)))
        if not terminal.lasting:
            del self._found[info.id]
            return
        gone = [one.info.id for one in self._found.values() if one.over]
        for pty_id in gone[:-KEPT]:
            self._forget(pty_id)

    def _forget(self, pty_id: str) -> None:
        del self._found[pty_id]
        self._instance.bus.publish(make(PtyDeleted(id=pty_id)))


def _is_there(command: str, cwd: Path, env: Mapping[str, str]) -> bool:
    if "\0" in command:
        return False
    return shutil.which(str(cwd / command) if "/" in command else command, path=env.get("PATH")) is not None
