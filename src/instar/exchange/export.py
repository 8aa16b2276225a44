"""Writing a session as opencode's export JSON."""

from typing import Any

from instar import wire
from instar.message import Session
from instar.store import Store
from instar.wire import Plain


async def export(store: Store, session: Session, *, children: bool = False) -> Plain:
    """Return ``{"info", "messages"}`` as ``opencode export`` prints it, JSON-ready.

    ``todos`` stands in it when there are any, and ``children`` (all descendants) when they are asked for;
    opencode reads a file with these keys and ignores them.
    """
    found = await plain_of(store, session)
    if children:
        found["children"] = [await plain_of(store, child) for child in await _descendants(store, session)]
    return found


async def plain_of(store: Store, session: Session) -> Plain:
    """Return one session with its messages, and its todos if it has any."""
    messages = await store.messages(session.id)
    found: dict[str, Any] = {
        "info": wire.to_plain(session),
        "messages": [message.to_plain() for message in messages],
    }
    if todos := await store.todos(session.id):
        found["todos"] = [wire.to_plain(todo) for todo in todos]
    return found


async def _descendants(store: Store, session: Session) -> list[Session]:
    """Children, their children and so on, parents first."""
    found: list[Session] = []
    seen = {session.id}
    waiting = [session.id]
    for parent in waiting:
        for child in await store.sessions(parent_id=parent, archived=True):
            if child.id not in seen:
                seen.add(child.id)
                waiting.append(child.id)
                found.append(child)
    return found
