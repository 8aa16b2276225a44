"""`instar db move`: what is stored goes to another database and back, and is the same there."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import Make
from tests.waiting import PATIENCE

from instar.event import SessionUpdated, Todo
from instar.event import make as announced
from instar.message import Origin, Rule, Tokens
from instar.store import (
    FollowUp,
    PutApproval,
    PutAsk,
    PutFollowUp,
    PutMessage,
    PutOrigin,
    PutPart,
    PutProject,
    PutSession,
    PutTodos,
    PutUsage,
    PutValue,
    Usage,
)
from instar.store.move import TABLES
from instar.store.store import open_store

Place = Path | str


def run(*arguments: str, folder: Path, code: int = 0) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "INSTAR_DATA": str(folder / "data")}
    done = subprocess.run(
        [sys.executable, "-m", "instar", "db", "move", *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


async def fill(place: Place, make: Make) -> str:
    """Put something into every table that is moved."""
    store = await open_store(place, lambda event: None)
    await store.commit([PutProject("global", "/", None, 1)])
    session = make.session(title="über – \\ 'quoted' \n", cost=0.1)
    user, answer = make.user(session.id), make.answer(session.id)
    parts = [make.text(user, f"text {number} 🦊") for number in range(1500)]
    usage = Usage(session.id, answer.id, "turn", "p", "m", Tokens.zero(), 0.1 + 0.2, 5)
    await store.commit(
        [
            PutSession(session),
            PutSession(make.session(parent_id=session.id)),
            PutMessage(user),
            PutMessage(answer),
            *map(PutPart, parts),
            PutTodos(session.id, [Todo(content="c", status="pending", priority="high")]),
            PutApproval("global", Rule(permission="bash", pattern="b", action="allow")),
            PutApproval("global", Rule(permission="bash", pattern="a", action="allow")),
            PutFollowUp(FollowUp("f", session.id, "person", {"parts": []}, 1, Origin("heartbeat", "12"))),
            PutAsk("per_1", session.id, {"id": "per_1"}),
            PutValue("p", "k", {"a": [1, None]}),
            PutUsage(usage),
            PutOrigin(user.id, session.id, Origin("heartbeat", "12")),
        ],
        [announced(SessionUpdated(session_id=session.id, info=session)) for _ in range(3)],
    )
    await store.close()
    return session.id


async def held(place: Place, session_id: str) -> list[Any]:
    store = await open_store(place, lambda event: None)
    try:
        return [
            await store.session(session_id),
            await store.sessions(),
            await store.messages(session_id),
            await store.todos(session_id),
            await store.approvals("global"),
            await store.follow_ups(session_id),
            await store.asks(),
            await store.values("p"),
            await store.usage(),
            await store.origins(session_id),
            await store.events_after(0),
        ]
    finally:
        await store.close()


async def test_all_of_it_goes_to_another_database_and_back(where: Place, make: Make, tmp_path: Path) -> None:
    first, last = tmp_path / "first.db", tmp_path / "last.db"
    session_id = await fill(first, make)
    counts = json.loads(run(str(first), str(where), "--json", folder=tmp_path))
    assert [name for name in TABLES if not counts[name]] == ["instar_leftover"]
    run(str(where), str(last), folder=tmp_path)
    before = await held(first, session_id)
    assert await held(where, session_id) == before
    assert await held(last, session_id) == before
    # New rows come behind those that were moved.
    store = await open_store(where, lambda event: None)
    session = await store.session(session_id)
    assert session is not None
    await store.commit(
        [PutUsage(Usage("s", None, "turn", "p", "m", Tokens.zero(), None, 6))],
        [announced(SessionUpdated(session_id=session_id, info=session))],
    )
    assert [one.place for one in await store.events_after(0)] == [1, 2, 3, 4]
    await store.close()


async def test_a_place_is_not_moved_to_itself_and_two_of_one_server_are_two(
    fresh: Callable[[], Place], make: Make, tmp_path: Path
) -> None:
    place, other = fresh(), fresh()
    session_id = await fill(place, make)
    assert "for longer than five seconds" in run(str(place), str(place), folder=tmp_path, code=1)
    run(str(place), str(other), folder=tmp_path)
    assert await held(other, session_id) == await held(place, session_id)


async def test_what_would_be_lost_or_mixed_is_refused(where: Place, make: Make, tmp_path: Path) -> None:
    first = tmp_path / "first.db"
    session_id = await fill(first, make)
    assert "there is no database to move" in run(
        str(tmp_path / "none.db"), str(where), folder=tmp_path, code=1
    )
    store = await open_store(first, lambda event: None)
    lease = await store.lease(session_id, "another:1:a", 60_000)
    assert lease is not None
    assert f"{session_id} runs; end what runs there" in run(str(first), str(where), folder=tmp_path, code=1)
    await store.release(lease)
    await store.close()
    run(str(first), str(where), folder=tmp_path)
    assert "its table project has rows; name a database that is empty" in run(
        str(first), str(where), folder=tmp_path, code=1
    )


@pytest.mark.parametrize("name", ["mysql://host/name", "postgresql://nobody@localhost:1/none"])
def test_a_place_that_is_none_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"")
    assert "Traceback" not in run(str(tmp_path / "a.db"), name, folder=tmp_path, code=1)
