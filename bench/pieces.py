"""One piece of instar's work, done over and over: `python -m bench.pieces NAME`; `bench.instructions` counts it.

What stands outside `counted` (start, imports, warm-up) is not counted. Without valgrind a piece does the same work and
nobody counts.
"""

import asyncio
import contextlib
import ctypes
import mmap
import platform
import selectors
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench import hooks
from bench.contender import modelled, settings
from instar.git.project import GLOBAL, Project
from instar.message import TextPart
from instar.plugin import process
from instar.plugins.evolve import script
from instar.sandbox.model_process import Children
from instar.settings.load import read_settings
from instar.settings.paths import Paths
from instar.testing import Machine, calls_of, clean_environment

SLOWER: Final = 200
"""So many times as slow goes the clock: callgrind takes fifty times as long, and more on a busy machine.

What looks around once a second would look as much more often, and be counted.
"""
WARMING: Final = 3
TURNS: Final = 20
CALLS: Final = 20
"""Calls of one turn; three like ones in a row would ask a person."""
DELTAS: Final = 500
HISTORY: Final = 400
"""Messages of the long session."""
REQUESTS: Final = 10
HOOKS: Final = 50
SHIELDS: Final = 50
PARSES: Final = 50
STILL: Final = {"reload": False}
"""Settings of a runtime that does not look at files now and then: a slow one would look more often."""
SETTINGS: Final = """{
  // Comments and a comma too many, as people write them.
  "model": "anthropic/claude-sonnet-4-5",
  "instructions": ["docs/style.md", "docs/tests.md"],
  "permission": {"bash": {"git *": "allow", "rm *": "ask", "*": "ask"}, "edit": "allow", "webfetch": "ask"},
  "provider": {
    "local": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": "http://127.0.0.1:8080/v1", "apiKey": "none"},
      "models": {"small": {"name": "Small", "limit": {"context": 32000, "output": 4000}}},
    },
  },
  "agent": {"review": {"description": "Reads a change.", "mode": "subagent", "tools": {"edit": false, "bash": false}}},
  "command": {"check": {"template": "Run the checks of $ARGUMENTS.", "description": "Checks."}},
}
"""
_CODE: Final = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
"""A function that makes the request at the address it is given: valgrind's client request on x86-64 (`valgrind.h`)."""
_CALLGRIND: Final = (ord("C") << 24) | (ord("T") << 16)
_START, _STOP = 4, 5
"""START_INSTRUMENTATION and STOP_INSTRUMENTATION of `callgrind.h`."""


def asker() -> Callable[[int], None]:
    """Return what makes a request of callgrind; outside valgrind its instructions do nothing.

    Raises `RuntimeError` on another processor than x86-64.
    """
    if platform.machine() != "x86_64":
        raise RuntimeError(f"bench.pieces: marks are known for x86-64 only, and this is {platform.machine()}")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_CODE)
    code = ctypes.c_char.from_buffer(page)
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(code))

    def ask(request: int) -> None:
        words = (ctypes.c_uint64 * 6)(_CALLGRIND + request)
        # `code` holds the page, which is gone with the last that refers to it.
        assert code
        function(ctypes.addressof(words))

    return ask


ASK: Final = asker()


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Count the instructions of what runs inside, in all threads."""
    ASK(_START)
    try:
        yield
    finally:
        ASK(_STOP)


async def turn(root: Path) -> None:
    """Turns of one word, each in a session of its own, in a git repository, as shipped."""
    async with Machine(root) as machine:
        machine.settings(**STILL)
        machine.repository()
        machine.says('== when "."\ntext: word\n')
        under = await machine.open()
        sessions = [await under.session() for _ in range(WARMING + TURNS)]
        for session in sessions[:WARMING]:
            await under.ask(session, "go")
        with counted():
            for session in sessions[WARMING:]:
                await under.ask(session, "go")


async def read(root: Path) -> None:
    """A turn with calls of `read`, one after another."""
    call = 'tool: read {"filePath": "small.txt", "limit": NUMBER}'
    steps = "".join(f"== turn\n{call.replace('NUMBER', str(n))}\n" for n in range(1, CALLS + 1))
    async with Machine(root) as machine:
        machine.write("small.txt", "one line\n")
        machine.settings(**STILL)
        machine.repository()
        machine.says(f"{steps}== turn\ntext: done\n")
        under = await machine.open()
        await under.ask(await under.session(), "go")
        session = await under.session()
        with counted():
            await under.ask(session, "go")
        states = [call.state.status for message in await under.stored(session) for call in calls_of(message)]
        assert states == ["completed"] * CALLS


async def delta(root: Path) -> None:
    """Pieces of an answer, each published, and its part saved and published, one after another.

    In a turn the store joins what comes while it writes, so that there the count follows from how fast the disk is.
    """
    async with Machine(root) as machine:
        machine.settings(**STILL)
        machine.says("== turn\ntext: word\n")
        under = await machine.open()
        session = await under.session()
        await under.ask(session, "go")
        holder = (await under.live(session)).history[-1]
        part = next(part for part in holder.parts if isinstance(part, TextPart))
        sessions, heard = under.runtime.instance.sessions, len(under.heard)
        with counted():
            for _ in range(DELTAS):
                sessions.delta(part, "word ")
                await sessions.save_part(holder, part)
        assert len(under.heard) - heard == 2 * DELTAS


async def request(root: Path) -> None:
    """Turns in a session with a long history, asked of a model over HTTP: each sends all of it."""
    with modelled() as url:
        async with Machine(root) as machine:
            machine.settings(**settings(url, snapshot=False), **STILL)
            under = await machine.open(model="fake/m")
            session = await under.session()
            for _ in range(HISTORY // 2):
                await under.ask(session, "go")
            with counted():
                for _ in range(REQUESTS):
                    await under.ask(session, "go")


async def hook(root: Path) -> None:
    """Calls of a Python hook script that is warm: what instar does for them, not what the script does.

    The script runs free: valgrind knows no Landlock, without which a warm interpreter is not shielded.
    """
    async with contextlib.AsyncExitStack() as stack:
        processes = process.Processes()
        stack.push_async_callback(processes.close)
        path = hooks.write(root / "hook.py", sys.executable, "import json, sys\n")
        place = script.ScriptEnvironment(root, clean_environment(root / "home"), 30.0, warm=True)
        await script.call(processes, path, "idle", hooks.GIVEN, place)
        # The interpreter starts in the background of the first call.
        await asyncio.sleep(2 / SLOWER)
        await script.call(processes, path, "idle", hooks.GIVEN, place)
        with counted():
            for _ in range(HOOKS):
                await script.call(processes, path, "idle", hooks.GIVEN, place)


async def shield(root: Path) -> None:
    """What a child of the model is kept from, found out anew for each child."""
    given = clean_environment(root / "home")
    processes = process.Processes()
    try:
        guard = await Children(processes, Paths.from_environment(given), given).shield()
        guard.raised(given)
        with counted():
            for _ in range(SHIELDS):
                guard.raised(given)
    finally:
        await processes.close()


async def parse(root: Path) -> None:
    """Reads of the settings of a person and of a trusted project."""
    async with Machine(root) as machine:
        for path in (machine.home / "instar.jsonc", machine.folder / "instar.jsonc"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(SETTINGS)
        project = Project(GLOBAL, machine.folder, machine.folder)
        given = machine.environment
        paths = Paths.from_environment(given)
        trust = machine.trust()
        assert read_settings(machine.folder, project, paths, given, {}, trust).config.command
        with counted():
            for _ in range(PARSES):
                read_settings(machine.folder, project, paths, given, {}, trust)


PIECES: Final[Mapping[str, tuple[Callable[[Path], Coroutine[Any, Any, None]], int]]] = {
    "a turn of one word": (turn, TURNS),
    "a call of read": (read, CALLS),
    "a delta, saved and published": (delta, DELTAS),
    f"a turn after {HISTORY} messages": (request, REQUESTS),
    "a call of a warm hook script": (hook, HOOKS),
    "the shield of a child": (shield, SHIELDS),
    "the settings of a person and a project": (parse, PARSES),
}
"""What is counted, by its name, and how many of it one run of the function does."""


class Waiting(selectors.DefaultSelector):
    """Waits as much longer as the clock is slower."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait `timeout` seconds of the slow clock for what is registered."""
        return super().select(timeout * SLOWER if timeout and timeout > 0 else timeout)


def slowed() -> asyncio.AbstractEventLoop:
    """A loop whose timers, as all that asks for the time, go more slowly; threads take turns more rarely."""
    real = time.monotonic
    time.monotonic = lambda: real() / SLOWER
    sys.setswitchinterval(sys.getswitchinterval() * SLOWER)
    return asyncio.SelectorEventLoop(Waiting())


def main() -> None:
    """Do the piece that is named, in a folder that is gone afterwards."""
    work, _ = PIECES[sys.argv[1]]
    with (
        tempfile.TemporaryDirectory(prefix="instar-pieces-") as folder,
        asyncio.Runner(loop_factory=slowed) as runner,
    ):
        runner.run(work(Path(folder)))


if __name__ == "__main__":
    main()
