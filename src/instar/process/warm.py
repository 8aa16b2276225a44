"""The processes that fork for calls: warm interpreters for Python scripts, launchers for all other programs.

Each forks from a process that has already started. A warm interpreter is behind the confinement of its scripts, since
a script names it; a launcher is where nothing else confines its forks. `docs/evolve.md` lists what a script
can tell; `zygotes` holds one of them.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from instar.process import shebang
from instar.process.confine import Confinement, Policy, Shared
from instar.process.zygotes import LAUNCHER, Zygote

log = logging.getLogger("instar.process")

MOST: Final = 6
"""Interpreters that one runtime keeps warm: of each Python one for each shield, at some 12 MB."""
LAUNCHERS: Final = 3
"""Launchers that one runtime keeps: one for each shield that is made of mounts, and one for all others."""


class Warm:
    """The warm interpreters and the launchers of one runtime."""

    def __init__(self, mark: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        self._mark = mark
        self._known: dict[_Key, Zygote] = {}
        self._leaving: set[Zygote] = set()
        self._closed = False

    def ready(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        confine: Confinement | None = None,
    ) -> Zygote | None:
        """Return the interpreter that can run the script `argv` now, confined by `confine`; None: start it plainly.

        An interpreter that is not there yet is started in the background for the next call, behind the confinement
        that its forks are to have. Raises `ProcessError` when that cannot be had.
        """
        named = _script(argv, cwd)
        wanted = shebang.interpreter(named, cwd, env) if named else None
        if wanted is None or self._closed:
            return None
        shared = None if confine is None else confine.shared(env)
        if confine is not None and shared is None:
            return None
        found = self._kept((wanted._replace(version=()), confine), wanted, shared)
        return found if found is not None and found.usable else None

    async def launcher(self, env: Mapping[str, str], confine: Confinement) -> tuple[Zygote, Policy] | None:
        """Return what starts programs, and how its fork is confined by `confine`; None: start them plainly.

        The first call waits for its start, which takes no longer than to confine one program.
        """
        shared = None if self._closed else confine.shared(env)
        if shared is None:
            return None
        alone = shared.alone()
        policy = alone or shared.policy()
        if not policy.data:
            return None
        if alone:
            found = self._kept((LAUNCHER, None), LAUNCHER, None)
        else:
            found = self._kept((LAUNCHER, confine), LAUNCHER, shared)
        return (found, policy) if found is not None and await found.started() else None

    def _kept(self, key: "_Key", wanted: shebang.Interpreter, shared: Shared | None) -> Zygote | None:
        known = self._known.pop(key, None)
        if known is not None and (known.interpreter, known.shared) == (wanted, shared) and not known.stale:
            # Used last, it stands last.
            self._known[key] = known
            return known
        if known is not None:
            self._retire(known)
        try:
            return self._start(key, wanted, shared)
        except OSError as error:
            log.debug("warm=not interpreter=%s reason=%s", wanted.path, error)
            return None

    async def close(self) -> None:
        """End all of them."""
        self._closed = True
        await asyncio.gather(*(one.close() for one in [*self._known.values(), *self._leaving]))

    def _retire(self, one: Zygote) -> None:
        """Let one go; until it has ended, `close` waits for it too."""
        self._leaving = {other for other in self._leaving if not other.ended} | {one}
        one.retire()

    def _start(self, key: "_Key", wanted: shebang.Interpreter, shared: Shared | None) -> Zygote | None:
        alike = {
            other: one
            for other, one in self._known.items()
            if (one.interpreter is LAUNCHER) == (wanted is LAUNCHER)
        }
        if len(alike) >= (LAUNCHERS if wanted is LAUNCHER else MOST):
            # The one that was used longest ago, whatever confines it.
            idle = next((other for other, one in alike.items() if one.idle), None)
            if idle is None:
                return None
            self._retire(self._known.pop(idle))
        env = {} if wanted is LAUNCHER else self._mark(dict(wanted.environment))
        made = self._known[key] = Zygote(wanted, env, shared)
        return made


_Key = tuple[shebang.Interpreter, Confinement | None]


def _script(argv: Sequence[str], cwd: Path) -> Path | None:
    """The script of a command, None when it is none that an interpreter would be given by the same name."""
    return Path(argv[0]) if argv and os.path.isabs(argv[0]) and cwd.is_dir() else None
