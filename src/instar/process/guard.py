"""The guard: ends the children of an instar that was itself killed and could not.

A shell of a few hundred kilobytes reads which groups live, from a pipe that only instar holds. When the pipe is
closed without a word, instar is gone, and so are they: SIGTERM, a short grace, SIGKILL, and whatever carries the mark
of its runs. A runtime starts it with the first child that lives longer than `SOON`.
"""

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Final

from instar.process.child import GRACE, Child

log = logging.getLogger("instar.process")

SOON: Final = 0.02
"""Seconds that a child lives before it is guarded: most end sooner, and by themselves."""
_SHELL: Final = "/bin/sh"
_PROGRAM: Final = str(Path(__file__).with_name("instar-guard.sh"))


class Guard:
    """The guard of one runtime's children; `mark` is what the marks of its runs begin with."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._pid = 0
        self._pipe = -1
        self._groups: dict[Child, int] = {}
        self._refused = False

    def soon(self, child: Child) -> asyncio.TimerHandle:
        """Guard `child` if it still runs in a moment; cancel what is returned when it is over."""
        return asyncio.get_running_loop().call_later(SOON, self._take, child)

    def over(self, child: Child) -> None:
        """The run of `child` is over, and its group is gone."""
        group = self._groups.pop(child, None)
        if group is not None:
            self._say(f"- {group}")

    async def close(self) -> None:
        """End the guard; nothing is left for it to do."""
        if not self._pid:
            return
        self._say("q")
        os.close(self._pipe)
        pid, self._pid, self._pipe = self._pid, 0, -1
        until, pause = time.monotonic() + 1, 0.001
        while _runs(pid) and time.monotonic() < until:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _take(self, child: Child) -> None:
        group = child.pid
        if group is None or not child.running:
            return
        if not self._pid and not self._refused:
            self._start()
        self._groups[child] = group
        self._say(f"+ {group}")

    def _say(self, line: str) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, line.encode() + b"\n")
            except OSError as error:
                log.debug("guard=deaf reason=%s", error)

    def _start(self) -> None:
        reading, writing = os.pipe()
        try:
            null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)
            self._pid = os.posix_spawn(
                _SHELL,
                [_SHELL, _PROGRAM, self._mark, str(GRACE)],
                {"PATH": os.environ.get("PATH", os.defpath)},
                file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0), *null],
                setsid=True,
            )
            os.set_blocking(writing, False)
            self._pipe = writing
        except (OSError, NotImplementedError) as error:
            # Children are still ended by instar itself; only its own sudden death leaves them.
            os.close(writing)
            self._refused = True
            log.warning("guard=none reason=%s; if instar is killed, what it started lives on", error)
        finally:
            os.close(reading)


def _runs(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG) == (0, 0)
