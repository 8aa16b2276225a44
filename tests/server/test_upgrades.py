"""An older and a newer instar work on one PostgreSQL database, as while workers are exchanged one after the other."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.postgresql import cluster
from tests.server.conftest import Served
from tests.waiting import wait_until

import instar

ECHO = '== when ""\ntext: {{user}}\n'
LATER = """CREATE TABLE later (id text PRIMARY KEY);
ALTER TABLE session ADD COLUMN later text NOT NULL DEFAULT '';
CREATE INDEX session_later ON session (later);
"""


@pytest.mark.slow
def test_older_and_newer_workers_answer_side_by_side(serve: Callable[..., Served], tmp_path: Path) -> None:
    newer = tmp_path / "newer" / "instar"
    shutil.copytree(Path(instar.__file__).parent, newer, ignore=shutil.ignore_patterns("__pycache__"))
    (newer / "store" / "sql" / "postgresql" / "0099_add_later.sql").write_text(LATER)
    url = cluster().database()

    def worker(number: int, **environment: str) -> Served:
        own = {"INSTAR_DATABASE": url, "INSTAR_DATA": str(tmp_path / f"data{number}"), **environment}
        return serve(script=ECHO, environment=own)

    old = worker(1)
    session = old.session()
    assert old.ask(session, "before").status_code == 200
    new = worker(2, PYTHONPATH=str(newer.parent))
    for number, server in enumerate([old, new, old, new]):
        assert server.ask(session, f"n{number}").status_code == 200
    # A folder that the old one opens only now, and one more old one.
    other = tmp_path / "other"
    other.mkdir()
    late = worker(3)
    for server in (old, late):
        made = server.http.post("/session", params={"directory": str(other)}, json={}).json()["id"]
        assert server.ask(made, "there").status_code == 200
    for server in (old, late):
        assert server.stop(signal.SIGTERM) == 0
    assert new.ask(session, "after").status_code == 200
    messages = new.http.get(f"/session/{session}/message").json()
    asked = [one["parts"][0]["text"] for one in messages if one["info"]["role"] == "user"]
    assert asked == ["before", "n0", "n1", "n2", "n3", "after"]
    wait_until(lambda: new.http.get("/session/status").json() == {})
