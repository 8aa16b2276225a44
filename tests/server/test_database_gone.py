"""A server whose database, or whose data folder, is deleted, moved or replaced while it runs."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.server.conftest import Served
from tests.waiting import SOON

SLOW = f"== turn\nchunk: 1\npace: 20ms\ntext: {'a word ' * 1000}\n"
"""A text that takes some minutes."""


GONE = "the database was deleted, moved or replaced"


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder: Path) -> None:
    (database,) = folder.glob("*.db")
    shutil.copy(database, folder / "copy")
    (folder / "copy").rename(database)


@pytest.fixture
def served(serve: Callable[..., Served], tmp_path: Path) -> Served:
    return serve(environment={"INSTAR_DATA": str(tmp_path / "data")})


@pytest.mark.parametrize("change", [deleted, moved, replaced])
def test_a_turn_is_refused_with_an_error_that_says_why(served, tmp_path, change: Callable[[Path], None]):
    session = served.session()
    assert served.ask(session).status_code == 200
    change(tmp_path / "data")
    for answer in (
        served.ask(session),
        served.http.post("/session", json={}),
        served.http.get(f"/session/{session}/message"),
    ):
        assert answer.status_code == 503
        said = answer.json()["data"]["message"]
        assert GONE in said
        assert "put the file back, or start instar again" in said
    newer = served.http.post(f"/api/session/{session}/prompt", json={"prompt": {"text": "hi"}})
    assert newer.status_code == 503, newer.text
    assert served.stop() == 0


def test_a_database_that_comes_back_is_used_again(served, tmp_path):
    session = served.session()
    moved(tmp_path / "data")
    assert served.ask(session).status_code == 503
    (tmp_path / "elsewhere").rename(tmp_path / "data")
    assert served.ask(session).json()["parts"][1]["text"] == "hello"


def test_a_turn_that_streams_ends_soon_and_says_why(serve, tmp_path):
    served = serve(environment={"INSTAR_DATA": str(tmp_path / "data")}, script=SLOW)
    session = served.session()
    with served.events("/event") as events, ThreadPoolExecutor() as pool:
        answer = pool.submit(served.ask, session)
        next(one for one in events if one["type"] == "message.part.delta")
        deleted(tmp_path / "data")
        began = time.monotonic()
        assert GONE in answer.result().json()["info"]["error"]["data"]["message"]
        assert time.monotonic() - began < SOON
        seen = []
        for one in events:
            seen.append(one)
            if one["type"] == "session.idle":
                break
    errors = [one["properties"]["error"]["data"]["message"] for one in seen if one["type"] == "session.error"]
    assert any(GONE in text for text in errors), seen
