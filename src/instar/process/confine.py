"""Confinement: how a child is started so that it can reach less than its person can.

`process` only carries it out; the room `sandbox` says what is guarded and how.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec


class Ending(msgspec.Struct, frozen=True):
    """How a confined program ended, in addition to the exit code of its launcher.

    `signal` is the one that ended it; `failure` says why it did not start, "" when it did.
    """

    signal: int | None = None
    failure: str = ""


class Wrapped(NamedTuple):
    """A command that starts another one confined.

    `pass_fds` are descriptors that the command reads. `ending` is called when the child has ended; `after` once when
    the run is over, however it ended, and lets go of what the confinement holds (descriptors, files).
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()
    after: Callable[[], None] = lambda: None
    ending: Callable[[], Ending] = Ending


class Policy(msgspec.Struct, frozen=True):
    """How a fork confines itself: by the file ``applies`` and the bytes that its ``apply(data: bytes) -> None`` takes.

    That module imports the standard library alone, and raises when the policy could not be applied whole. Its
    ``become(argv, env)`` becomes a program, or returns why not (`instar.process.launcher`). ``prepare(data)`` makes
    ready what `apply` needs. No data: a fork need do nothing.
    """

    data: bytes
    applies: str


class Shared(Protocol):
    """A confinement as of one moment, for one process and all that is forked from it. Two of equal value are one."""

    def wrap(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, lasting: bool = False
    ) -> Wrapped:
        """Return the command that runs `argv` confined; `lasting`: it ends by itself when instar is gone."""

    def mounted(self, argv: Sequence[str]) -> Wrapped:
        """Return the command of a launcher, which adds `policy` in each fork and needs nothing of it itself."""

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return what a fork gets of `env`."""

    def policy(self) -> Policy:
        """Return what a fork of a process behind this adds."""

    def alone(self) -> Policy | None:
        """Return what confines a fork of a process that is not behind this; None where nothing else confines it."""

    def state(self, pid: int) -> bytes:
        """Return the state of the confined process `pid` that must not change for its forks to be confined.

        Raises `OSError` when it cannot be seen, or is no longer what was asked for.
        """


class Confinement(Hashable, Protocol):
    """What a child may reach."""

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        """Return the command that runs `argv` in `cwd` with `env`, confined. Raises `ProcessError`."""

    def shared(self, env: Mapping[str, str], cwd: Path) -> Shared | None:
        """Return what confines a process in whose forks children with `env` may run in `cwd`.

        None: each is started by `wrap`. What confines code that nobody has read must say so. Raises `ProcessError`.
        """
