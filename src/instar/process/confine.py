"""Confinement: how a child is started so that it can reach less than its person can.

`process` only carries it out; the room `sandbox` says what is guarded and how. Source: issue 5, items 1 and 2.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Ending(NamedTuple):
    """What is known of a confined program beyond the exit code of what confines it.

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


class Shared(Protocol):
    """A confinement as of one moment, for one process and all that is forked from it. Two of equal value are one."""

    def wrap(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, lasting: bool = False
    ) -> Wrapped:
        """Return the command that runs `argv` confined; `lasting`: it ends by itself when instar is gone."""

    def launcher(self) -> Wrapped | None:
        """Return the command of a process behind this that starts programs (`instar.process.launcher`), if any."""

    def policy(self) -> bytes:
        """Return the bytes by which a fork confines itself further; empty: it need not.

        They are given to ``instar.sandbox.landlock:apply(policy: bytes) -> None``, which the warm
        interpreter loads by its file: that module imports the standard library alone and raises when the
        policy could not be applied whole.
        """

    def state(self, pid: int) -> bytes:
        """Return what must stay as it is, of the confined process `pid`, for its forks to be confined as before.

        Raises `OSError` when it cannot be seen, or is no longer what was asked for.
        """


class Confinement(Hashable, Protocol):
    """What a child may reach."""

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        """Return the command that runs `argv` in `cwd` with `env`, confined. Raises `ProcessError`."""

    def shared(self, env: Mapping[str, str]) -> Shared | None:
        """Return what confines a warm interpreter, in whose forks children with `env` may run.

        None: each is started by `wrap`. What confines code that nobody has read must say so. Raises `ProcessError`.
        """
