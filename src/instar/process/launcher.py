"""The launcher: a process behind a confinement that starts programs, so that a child need not be confined anew.

It is started once for each confinement, in the background of the first child, and forks for each program; every fork
confines itself further, as those of a warm interpreter do. The program on the other side is ``confine.pl`` of the
room `sandbox`. Source: issue 5, what a shielded child may cost.
"""

import marshal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from instar.process.confine import Shared, Wrapped
from instar.process.output import ProcessError
from instar.process.shebang import Interpreter
from instar.process.zygotes import Zygote

LAUNCHER: Final = Interpreter("instar-launcher", "instar-launcher", (), (), "/")
"""Stands where a warm interpreter's identity does."""


class Launcher(Zygote):
    """One launcher, as instar sees it."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(LAUNCHER, {}, shared)

    def _greet(self) -> None:
        """It waits for nothing before it says hello."""

    def _wrapped(self) -> Wrapped:
        wrapped = None if self.shared is None else self.shared.launcher()
        if wrapped is None:
            raise ProcessError("what confines it starts no programs")
        return wrapped

    def _encoded(self, number: int, request: Mapping[str, Any]) -> bytes:
        return marshal.dumps({"id": number, **request}, 2)

    def _forget(self, number: int) -> None:
        """It has forgotten a program that ended."""


def request(argv: Sequence[str], cwd: Path, env: Mapping[str, str], shared: Shared) -> dict[str, Any] | None:
    """Return what a launcher is asked; None when the words could not be passed on as they are."""
    words = [*argv, *(f"{name}={value}" for name, value in env.items())]
    if not argv or any(type(word) is not str or "\0" in word for word in words):
        return None
    if any("=" in name or not name for name in env):
        return None
    pairs = list(env.items())
    return {"argv": list(argv), "env": pairs, "cwd": str(cwd), "policy": shared.policy()}
