"""What is asked of the engine that hands out turns to workers; `absurd.py` has the one that is used.

The engine knows that a session has something to answer, gives that to one worker at a time, and gives it to another
one when the first is not heard of any more. What a turn did is kept by the store alone, and that two workers never
change one session is the work of its lease: an engine may hand out the same work twice.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from instar.store import Enqueue, StoreError

Run = Callable[[str, str, str], Awaitable[bool]]
"""Carry a session on until nothing is left to answer; False when it cannot be done now.

By its id, its directory, and the stop (`instar stop`) that was the last one when the work was written.
"""


class WorkerEnds(StoreError):
    """This worker ends; what was waited for goes on at another one."""


class Engine(Protocol):
    """Where workers get their turns from."""

    def wanted(self, session_id: str, directory: str, key: str, stop: str) -> Enqueue:
        """Return the write, for the transaction that saves a prompt, by which some worker takes it up."""

    async def work(self, run: Run) -> None:
        """Take up work until `close`, and keep what is taken for as long as `run` lasts."""

    async def finished(self, key: str) -> None:
        """Wait until the work that was written under a key is done, or was given up.

        Raises `WorkerEnds` when this worker ends before.
        """

    async def until(self, met: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a condition is met, which is looked at whenever work was written or done. Raises as `finished`."""

    def claimed(self) -> Collection[str]:
        """Return the sessions that `run` carries on here now."""

    def pause(self) -> None:
        """Take up nothing more: what cannot be done here from now on is for the others at once."""

    async def close(self) -> None:
        """Wait for what is under way and end."""
