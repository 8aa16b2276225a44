"""A plugin's children: commands and programs that it runs, in the place of opencode's ``$``.

They go through `instar.process`: each has a group of its own, and what a plugin started ends with it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.process import MIB, Output, ProcessError, Processes

log = logging.getLogger("instar.plugin")

LIMIT: Final = 8 * MIB
"""Bytes of each stream that a result holds."""
_SHOWN: Final = 2_000
_LINE: Final = 4_000


class ShellResult(msgspec.Struct, frozen=True):
    """What a child did: its exit `code` (None when a signal or the time limit ended it) and what it printed."""

    command: str
    code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool = False

    def text(self) -> str:
        """Return what it printed on stdout."""
        return self.stdout.decode("utf-8", "replace")

    def lines(self) -> list[str]:
        """Return the lines of stdout."""
        return self.text().splitlines()

    def json(self) -> Any:
        """Return stdout as JSON. Raises `ShellError` when it is none."""
        try:
            return msgspec.json.decode(self.stdout)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ShellError(f"`{self.command}` printed no JSON: {error}", self) from error


class ShellError(Exception):
    """A child that failed; `result` is what it did, None when it was not started."""

    def __init__(self, message: str, result: ShellResult | None = None) -> None:
        super().__init__(message)
        self.result = result


class Background:
    """A program that runs until it ends by itself, `stop` is called, or its plugin ends."""

    def __init__(self, name: str, task: "asyncio.Task[Output]") -> None:
        self.name = name
        self._task = task

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return not self._task.done()

    async def wait(self) -> int | None:
        """Wait for its end and return its exit code, None when a signal ended it. Raises `ShellError`."""
        await asyncio.wait([self._task])
        if self._task.cancelled():
            return None
        error = self._task.exception()
        if error is not None:
            raise ShellError(str(error)) from error
        return self._task.result().code

    async def stop(self) -> None:
        """End it with its whole group."""
        self._task.cancel()
        await asyncio.wait([self._task])


class Shell:
    """Runs children for one plugin: ``await shell("git status")``, ``await shell.run(["git", "status"])``.

    Without `cwd` they run in the instance's directory. `env` is set over the instance's environment.
    """

    def __init__(
        self, processes: Processes, directory: Path, environment: Mapping[str, str], plugin: str = ""
    ) -> None:
        self.processes = processes
        self._directory = directory
        self._environment = environment
        self._plugin = plugin
        self._background: set[Background] = set()

    async def __call__(self, command: str, *words: str, **options: Any) -> ShellResult:
        """Run a command line with ``sh``; `words` are its ``$1`` and so on. Options and errors as `run`."""
        return await self._finished(command, ["sh", "-c", command, "sh", *words], **options)

    async def run(self, argv: Sequence[str], **options: Any) -> ShellResult:
        """Run a program to its end, without a shell.

        Options: `cwd`, `env`, `stdin` (text or bytes), `timeout` in seconds, `nothrow`. Raises `ShellError`
        with the end of stderr when the exit code is not 0, unless `nothrow`; and when it could not be
        started, or took longer than `timeout`.
        """
        return await self._finished(" ".join(argv), argv, **options)

    def background(
        self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Background:
        """Start a program that goes on; each line that it prints goes to the log. It ends with the plugin."""
        name = str(argv[0]) if argv else ""
        write = partial(log.info, "background plugin=%s program=%s line=%s", self._plugin, name)
        child = self.processes.run(
            argv,
            cwd=cwd or self._directory,
            env={**self._environment, **(env or {})},
            merge=True,
            on_output=LogLines(write).take,
        )
        started = Background(name, asyncio.create_task(child))
        self._background.add(started)
        started._task.add_done_callback(lambda task: self._ended(started, task))
        return started

    async def close(self) -> None:
        """End what runs in the background."""
        await asyncio.gather(*(one.stop() for one in list(self._background)))

    def _ended(self, one: Background, task: "asyncio.Task[Output]") -> None:
        self._background.discard(one)
        if task.cancelled():
            return
        error = task.exception()
        outcome = str(error) if error else f"code {task.result().code}"
        log.info("background ended plugin=%s program=%s outcome=%s", self._plugin, one.name, outcome)

    async def _finished(
        self,
        shown: str,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes = b"",
        timeout: float | None = None,
        nothrow: bool = False,
    ) -> ShellResult:
        try:
            done = await self.processes.run(
                argv,
                cwd=cwd or self._directory,
                env={**self._environment, **(env or {})},
                stdin=stdin.encode() if isinstance(stdin, str) else stdin,
                timeout=timeout,
                limit=LIMIT,
            )
        except ProcessError as error:
            raise ShellError(str(error)) from error
        result = ShellResult(shown, done.code, done.stdout, done.stderr, done.truncated)
        if done.timed_out:
            raise ShellError(f"`{shown}` took longer than {timeout:g} s and was ended", result)
        if done.code != 0 and not nothrow:
            raise ShellError(_failed(result, done), result)
        return result


class LogLines:
    """Cuts what a program prints into lines and gives each to `write`; `last` holds the last few."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.last: deque[str] = deque(maxlen=5)
        self._write = write
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Write the lines that are whole."""
        *lines, rest = (self._rest + data).split(b"\n")
        # A program that never ends its line must not fill the memory.
        self._rest = rest[-_LINE:]
        for line in lines:
            text = line[:_LINE].decode("utf-8", "replace").rstrip()
            self.last.append(text)
            self._write(text)


def _failed(result: ShellResult, done: Output) -> str:
    how = f"failed with code {done.code}" if done.signal is None else f"was ended by signal {done.signal}"
    said = result.stderr.decode("utf-8", "replace").strip()[-_SHOWN:]
    return f"`{result.command}` {how}" + (f": {said}" if said else "")
