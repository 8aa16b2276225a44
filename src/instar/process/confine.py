"""Confinement: how a child is started so that it can reach less than its person can.

`process` only carries it out; the room `sandbox` says what is guarded and how. Source: issue 5, items 1 and 2.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Wrapped(NamedTuple):
    """A command that starts another one confined.

    `pass_fds` are descriptors that the command reads; `after` is called once when the run is over, however
    it ended, and lets go of what the confinement holds (descriptors, files).
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()
    after: Callable[[], None] = lambda: None


class Confinement(Protocol):
    """What a child may reach."""

    def wrap(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Wrapped:
        """Return the command that runs `argv` in `cwd` with `env`, confined. Raises `ProcessError`."""

    def policy(self) -> bytes | None:
        """Return the bytes with which a warm child confines itself; None: it cannot, start it by `wrap`.

        They are given to ``instar.sandbox.landlock:apply(policy: bytes) -> None``, which the warm
        interpreter loads by its file: that module imports the standard library alone and raises when the
        policy could not be applied whole.
        """
