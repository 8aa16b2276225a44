"""A store in a folder of its own, and the values that stand in it."""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests import postgresql

from instar.event import Event
from instar.message import (
    AnswerTime,
    Assistant,
    Created,
    MessagePath,
    ModelRef,
    Session,
    SessionTime,
    Span,
    TextPart,
    Tokens,
    ToolPart,
    ToolRunning,
    User,
)
from instar.store import PutMessage, PutProject, PutSession
from instar.store.store import Store, open_store
from instar.wire import ids

collect_ignore = [] if os.environ.get("INSTAR_POSTGRESQL") else ["test_postgresql.py"]


class Make:
    """Values with the fields that a test does not care about filled in."""

    def session(self, **fields: Any) -> Session:
        known = {
            "id": ids.new("ses"),
            "slug": "brave-otter",
            "project_id": "global",
            "directory": "/work",
            "title": "t",
            "version": "0.1.0",
            "time": SessionTime(created=1, updated=2),
        }
        return Session(**{**known, **fields})

    def user(self, session_id: str, created: int = 1, **fields: Any) -> User:
        model = ModelRef(provider_id="p", model_id="m")
        known = {"id": ids.new("msg"), "time": Created(created=created), "agent": "build", "model": model}
        return User(**{**known, "session_id": session_id, **fields})

    def answer(self, session_id: str, created: int = 2, **fields: Any) -> Assistant:
        known = {
            "id": ids.new("msg"),
            "time": AnswerTime(created=created),
            "parent_id": "msg_0",
            "model_id": "m",
            "provider_id": "p",
            "mode": "build",
            "agent": "build",
            "path": MessagePath(cwd="/", root="/"),
            "cost": 0.0,
            "tokens": Tokens.zero(),
        }
        return Assistant(**{**known, "session_id": session_id, **fields})

    def text(self, message: User | Assistant, text: str = "hi", **fields: Any) -> TextPart:
        known = {
            "id": ids.new("prt"),
            "session_id": message.session_id,
            "message_id": message.id,
            "text": text,
        }
        return TextPart(**{**known, **fields})

    def tool(self, message: User | Assistant, **fields: Any) -> ToolPart:
        running = ToolRunning(input={"command": "sleep 9"}, metadata={"output": "a"}, time=Span(start=5))
        known = {
            "id": ids.new("prt"),
            "session_id": message.session_id,
            "message_id": message.id,
            "call_id": "c",
        }
        return ToolPart(**{**known, "tool": "bash", "state": running, **fields})


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "instar.db"


@pytest.fixture
def published() -> list[Event]:
    """What the store published, in order."""
    return []


@pytest.fixture(
    scope="session",
    params=["sqlite", "postgresql"] if os.environ.get("INSTAR_POSTGRESQL") else ["sqlite"],
)
def fresh(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Path | str]:
    """Return a place where no database is yet: a file, or a server's schema."""
    if request.param == "postgresql":
        return postgresql.cluster().database
    return lambda: tmp_path_factory.mktemp("store") / "data" / "instar.db"


@pytest.fixture
def where(fresh: Callable[[], Path | str], path: Path) -> Path | str:
    """Where the store is: in the file at `path`, or on a server."""
    place = fresh()
    return place if isinstance(place, str) else path


@pytest.fixture
async def store(where: Path | str, published: list[Event]) -> AsyncIterator[Store]:
    """An open store with the project that sessions outside a repository belong to."""
    opened = await open_store(where, published.append)
    await opened.commit([PutProject("global", "/", None, 1)])
    yield opened
    await opened.close()


@pytest.fixture
async def talk(store: Store, make: Make) -> tuple[Session, User]:
    """A session with one message of a person."""
    session = make.session()
    user = make.user(session.id)
    await store.commit([PutSession(session), PutMessage(user)])
    return session, user


@pytest.fixture
def sql(where: Path | str, path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """Run a statement on the database as another program would."""

    def run(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        if isinstance(where, str):
            with psycopg.connect(where) as server:
                found = server.execute(statement.replace("?", "%s"), parameters)  # type: ignore[arg-type]
                return found.fetchall() if found.description else []
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            return connection.execute(statement, parameters).fetchall()
        finally:
            connection.close()

    return run
