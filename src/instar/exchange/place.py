"""Writing checked transcripts into the store: all of them, or nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

from instar import event, lease
from instar.event import make
from instar.exchange.renew import renewed
from instar.exchange.transcript import ExchangeError, Taken, Transcript
from instar.store import (
    DropSession,
    Insert,
    PutMessage,
    PutPart,
    PutProject,
    PutSession,
    PutTodos,
    Store,
    StoreError,
    Write,
)

Choice = Literal["refuse", "replace", "copy"]
"""What to do when a session with the same id is here already."""


async def bring_in(
    store: Store, transcripts: Sequence[Transcript], project: PutProject, choice: Choice = "refuse"
) -> list[Transcript]:
    """Write sessions that belong together in one commit, and return them as they were written.

    Publishes ``session.created`` for each. Raises `Taken` for a session that is here already, and `ExchangeError`
    when a message's or part's id is another session's, or another process runs a session that is to be replaced;
    nothing is written then.
    """
    found = renewed(transcripts) if choice == "copy" else list(transcripts)
    taken = [one for one in found if await store.session(one.session.id) is not None]
    if taken and choice == "refuse":
        raise _taken(taken[0])
    await _keep_known_parents(store, found)
    writes: list[Write] = [DropSession(one.session.id) for one in taken]
    writes.append(project)
    for one in found:
        writes += _rows(one)
    happened = [make(event.SessionCreated(session_id=one.session.id, info=one.session)) for one in found]
    async with _held(store, [one.session.id for one in taken]):
        try:
            await store.commit(writes, happened)
        except StoreError as error:
            if "UNIQUE" not in str(error):
                raise
            raise ExchangeError(
                "a message or part of this file has the id of one that another session here has; nothing was"
                " written. --copy brings it in under new ids"
            ) from None
    return found


def _rows(one: Transcript) -> list[Write]:
    rows: list[Write] = [Insert(PutSession(one.session))]
    for message in one.messages:
        rows.append(Insert(PutMessage(message.info)))
        rows += [Insert(PutPart(part)) for part in message.parts]
    if one.todos:
        rows.append(PutTodos(one.session.id, one.todos))
    return rows


async def _keep_known_parents(store: Store, found: Sequence[Transcript]) -> None:
    coming = {one.session.id for one in found}
    for one in found:
        parent = one.session.parent_id
        if parent is None or parent in coming:
            continue
        if await store.session(parent) is None:
            one.session.parent_id = None
            one.notes.append(f"its parent {parent[:40]} is not here, so it stands by itself")


@asynccontextmanager
async def _held(store: Store, session_ids: Sequence[str]) -> AsyncIterator[None]:
    """Hold sessions while they are replaced. Raises `ExchangeError` when somebody runs one of them."""
    async with AsyncExitStack() as stack:
        for session_id in session_ids:
            held = await lease.take(store, session_id)
            if held is None:
                raise ExchangeError(str(await lease.busy(store, session_id)))
            stack.push_async_callback(store.release, held)
        yield


def _taken(one: Transcript) -> Taken:
    return Taken(
        f"session {one.session.id} is here already; --replace puts this one in its place, --copy adds it beside"
        " under new ids"
    )
