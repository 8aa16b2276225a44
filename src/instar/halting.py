"""Stopping what runs, in whichever process: the stop is written, and what it ends is waited for.

For `instar stop` and for the server; what a stop means is in `instar.halt` (issue 7, item 8).
"""

import asyncio
import time
from pathlib import Path
from typing import Final

import msgspec

from instar.api.stats import QueuedPrompts, StopMade, StoppedSession, StopReport, StopsReport
from instar.halt import Halt, Stop, Stops, covers
from instar.lease import is_dead
from instar.store import StoreError
from instar.store.running import Run, running, waiting

_PATIENCE: Final = 6.0
"""Seconds that is waited for turns to end: they need one, on a machine under load some more."""
_LOOK: Final = 0.05


class NotStopped(Exception):
    """A stop could not be written: nothing was stopped. The text says why."""


async def stop(data: Path, database: Path, scope: str) -> StopReport:
    """Write a stop and wait until what ran has ended. Raises `NotStopped` when it could not be written."""
    before, problem = await asyncio.to_thread(_running, database)
    try:
        made = Stops(data).add(scope, _now())
    except OSError as error:
        raise NotStopped(
            f"nothing was stopped: {error.filename or data}: {error.strerror or error}"
        ) from error
    # Once more: what began meanwhile was stopped too.
    found = {
        (run.session_id, run.owner): run
        for run in [*before, *(await asyncio.to_thread(_running, database))[0]]
    }
    ours = {key: run for key, run in found.items() if covers(made.scope, Path(run.directory))}
    left = await _ending(database, set(ours))
    try:
        found_waiting = await asyncio.to_thread(waiting, database)
        queued = [one for one in found_waiting if covers(made.scope, Path(one.directory))]
    except StoreError as error:
        queued, problem = [], problem or str(error)
    ended = [_ended(run, key not in left) for key, run in ours.items()]
    prompts = [QueuedPrompts(**msgspec.structs.asdict(one)) for one in queued]
    return StopReport(_made(made), ended, prompts, len(found) - len(ours), problem)


def stops(data: Path, halt: Halt) -> StopsReport:
    """Return the stops that are kept, and what they mean for the instance of `halt`. Raises `halt.StopsError`."""
    return StopsReport([_made(one) for one in Stops(data).read()], halt.halted())


async def _ending(database: Path, runs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Wait until nobody holds these sessions; return those that are still held when patience is over."""
    until = time.monotonic() + _PATIENCE
    left = runs
    while left and time.monotonic() < until:
        held, problem = await asyncio.to_thread(_running, database)
        left = left & {(run.session_id, run.owner) for run in held} if not problem else left
        await asyncio.sleep(_LOOK if left else 0)
    return left


def _running(database: Path) -> tuple[list[Run], str]:
    """The sessions that living processes hold, and why that cannot be told."""
    try:
        return [run for run in running(database, _now()) if not is_dead(run.owner)], ""
    except StoreError as error:
        return [], str(error)


def _ended(run: Run, ended: bool) -> StoppedSession:
    host, _, rest = run.owner.partition(":")
    number = rest.partition(":")[0]
    pid = int(number) if number.isdigit() else None
    return StoppedSession(run.session_id, run.title, run.directory, host, pid, ended)


def _made(one: Stop) -> StopMade:
    return StopMade(one.id, one.scope, one.time, one.resumed)


def _now() -> int:
    return time.time_ns() // 1_000_000
