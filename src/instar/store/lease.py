"""Who runs a session: one process at a time, known by a lease that it renews.

A lease of a process of this machine that has died is taken over at once; any other ends by itself.
"""

import os
import platform
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from instar.api.stats import QueuedPrompts, StoppedSession
from instar.store import Lease
from instar.store.database import Row
from instar.store.store import Store, database_at

_NONCE = os.urandom(4).hex()


class SessionBusy(Exception):
    """Another process runs this session; the text says which."""


def owner_name() -> str:
    """This process as a lease names it: ``host:pid:nonce``."""
    return f"{platform.node()}:{os.getpid()}:{_NONCE}"


async def take(store: Store, session_id: str) -> Lease | None:
    """Take or renew the lease on a session; None when another living process holds it."""
    lease = await store.lease(session_id, owner_name(), store.lease_ms)
    if lease is None:
        holder = await store.holder(session_id)
        if holder is not None and is_dead(holder.owner):
            await store.release(holder)
            lease = await store.lease(session_id, owner_name(), store.lease_ms)
    return lease


async def busy(store: Store, session_id: str) -> SessionBusy:
    """Return the error that says who runs a session."""
    holder = await store.holder(session_id)
    return SessionBusy(
        f"session {session_id} is running in another process ({holder.owner if holder else 'unknown'});"
        " wait for it, abort it there, or start a new session"
    )


def is_dead(owner: str) -> bool:
    """Whether a lease's owner is a process of this machine that no longer runs."""
    node, _, rest = owner.partition(":")
    pid = rest.partition(":")[0]
    if node != platform.node() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    # Our own number under another nonce: the process that had it before us is gone.
    return int(pid) == os.getpid() and owner != owner_name()


def running(where: Path | str, now: int) -> list[StoppedSession]:
    """Return the sessions that living processes hold at `now` (ms), oldest first: each runs, or is about to change.

    None of them counts as `ended`. Raises `StoreError`.
    """
    found = []
    for session_id, title, directory, owner in _rows(where, "running", (now,)):
        host, _, rest = owner.partition(":")
        number = rest.partition(":")[0]
        if not is_dead(owner):
            pid = int(number) if number.isdigit() else None
            found.append(StoppedSession(session_id, title, directory, host, pid, False))
    return found


def waiting(where: Path | str) -> list[QueuedPrompts]:
    """Return what waits in the sessions' queues. Raises `StoreError`."""
    return [QueuedPrompts(*row) for row in _rows(where, "waiting", ())]


def _rows(where: Path | str, name: str, parameters: Sequence[int]) -> list[Row]:
    database = database_at(where)
    if not database.made():
        return []
    try:
        with closing(database.connect()) as connection:
            return connection.run(name, parameters)
    except Exception as error:
        raise database.explain(error) from error
