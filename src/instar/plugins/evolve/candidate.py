"""A candidate: a change of a hook script that has not been installed, tried in a copy of the workspace.

The copy has the candidate in place. It must answer `discover`, keep the name and the test that the live
script registered, and pass that test. Nothing here writes in the workspace.
"""

import asyncio
import os
import stat
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import process, wire
from instar.plugins.evolve import discovery, script, tree
from instar.plugins.evolve.prompts import Prompts
from instar.plugins.evolve.workspace import VARIABLES, Workspace

SHOWN: Final = 8192
"""Bytes of a test's output that the model is shown; the end is kept, where test runners say what failed."""
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_TEST_LIMIT = 4 << 20


class Refused(Exception):
    """A candidate that may not be installed; the text tells the model why, with the output."""


class Candidate(msgspec.Struct, frozen=True):
    """New text for the script `file`, and what its live version registered, if that is known."""

    file: str
    content: str
    live: discovery.Registration | None


class Verdict(msgspec.Struct, frozen=True):
    """A candidate that may be installed: what it registers, and what its test printed (None: no test)."""

    registration: discovery.Registration
    test_output: str | None


async def check(
    processes: process.Processes, workspace: Workspace, candidate: Candidate, place: script.Place
) -> Verdict:
    """Try the candidate in a copy of the workspace. `place` gives the timeout and PATH. Raises `Refused`."""
    async with _copy(workspace, place.environment) as (copy, environment):
        target = copy.hooks / candidate.file
        mode = (workspace.hooks / candidate.file).stat().st_mode
        target.write_text(candidate.content, encoding="utf-8", newline="")
        target.chmod(stat.S_IMODE(mode) | 0o111)
        inside = script.Place(copy.root, environment, place.timeout)
        registration = await _discover(processes, copy, candidate, inside)
        test = registration.test
        if test is None:
            return Verdict(registration, None)
        return Verdict(registration, await _run_test(processes, copy, test, inside))


async def _discover(
    processes: process.Processes, copy: Workspace, candidate: Candidate, place: script.Place
) -> discovery.Registration:
    given: wire.Plain = {"prompts": Prompts(copy).all()}
    try:
        answer = await script.call(processes, copy.hooks / candidate.file, "discover", given, place)
    except script.UnknownHook:
        answer = {}
    except script.ScriptFailure as error:
        raise Refused(f"it does not answer discover: {error.why}\n{error.printed}") from None
    found = discovery.register(candidate.file, answer)
    if found.problems:
        raise Refused("what it registers is malformed:\n" + "\n".join(found.problems))
    live = candidate.live
    if live is not None and found.name != live.name:
        raise Refused(f"it registers the name {found.name!r}; it must keep the name {live.name!r}")
    if live is not None and live.test is not None and found.test != live.test:
        raise Refused(f"it registers the test {found.test!r}; it must keep the test {live.test!r}")
    return found


async def _run_test(processes: process.Processes, copy: Workspace, test: str, place: script.Place) -> str:
    path = copy.tests / test
    if not path.is_file():
        raise Refused(
            f"its test tests/{test} is missing: a person must add it, or take `test` out of discover"
        )
    if not os.access(path, os.X_OK):
        raise Refused(f"its test tests/{test} is missing its run bit: chmod +x tests/{test}")
    try:
        output = await processes.run(
            [str(path)],
            cwd=copy.root,
            env=place.environment,
            timeout=place.timeout,
            limit=_TEST_LIMIT,
            merge=True,
        )
    except process.ProcessError as error:
        raise Refused(f"its test tests/{test} could not be started: {error}") from None
    shown = tail(output.stdout)
    if output.code == 0:
        return shown
    raise Refused(f"its test tests/{test} failed: {_ended(output, place.timeout)}\n\n{shown}")


def tail(output: bytes, limit: int = SHOWN) -> str:
    """Return the last `limit` bytes of `output` as text, and say what was cut."""
    text = output[-limit:].decode(errors="replace")
    return text if len(output) <= limit else f"({len(output) - limit} bytes cut)…{text}"


def _ended(output: process.Output, timeout: float) -> str:
    if output.timed_out:
        return f"it took longer than hook_timeout ({timeout * 1000:.0f} ms)"
    return f"signal {output.signal}" if output.signal is not None else f"exit code {output.code}"


@asynccontextmanager
async def _copy(
    workspace: Workspace, given: Mapping[str, str]
) -> AsyncIterator[tuple[Workspace, dict[str, str]]]:
    """Copy the workspace for a while, with an environment for it that holds no keys.

    HOME is the folder that the copy stands in as ``workspace``, so that ``~/workspace`` is the copy too.
    """
    home = await _made(workspace.root)
    root = home / "workspace"
    try:
        environment = {name: given[name] for name in _KEPT_VARIABLES if name in given}
        named = dict.fromkeys(VARIABLES, str(root))
        environment |= {"HOME": str(home), "TMPDIR": str(home / "tmp"), **named}
        yield Workspace(root), environment
    finally:
        await asyncio.to_thread(tree.remove, home)


async def _made(source: Path) -> Path:
    """Make the folder with the copy in a thread. Raises `Refused`.

    A thread goes on when its task is cancelled: it is told to stop and waited for, or it would write
    behind the removal.
    """
    stop = threading.Event()
    making = asyncio.ensure_future(asyncio.to_thread(_make, source, stop.is_set))
    try:
        return await asyncio.shield(making)
    except OSError as error:
        raise Refused(f"the workspace could not be copied: {error}") from None
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([making])
        if making.exception() is None:
            await asyncio.to_thread(tree.remove, making.result())
        raise


def _make(source: Path, stopped: Callable[[], bool]) -> Path:
    parent = tree.place_for_copy(source)
    home = Path(os.path.realpath(tempfile.mkdtemp(prefix="instar-candidate-", dir=parent)))
    try:
        (home / "tmp").mkdir()
        tree.copy(source, home / "workspace", stopped)
    except BaseException:
        tree.remove(home)
        raise
    return home
