"""The commands of operations.md, run while a turn is under way: what is restored opens, and its turns go on."""

import re
import signal
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from tests.postgresql import Cluster, cluster
from tests.server.conftest import Served
from tests.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"
DUMP, RESTORE, _, BASE, RECOVER, *_ = re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.M | re.S)
SCRIPT = """== when "interrupted"
text: I went on
== when "^slow"
tool: bash {"command": "echo begun >> begun.txt; sleep 600"}
== when ""
text: {{user}}
"""
SETTINGS = ("shared_buffers=16MB", "instar.lease_seconds=2", "wal_level=replica", "archive_mode=on")


def keeps_its_log() -> Cluster:
    """A server whose log goes to the folder ``archive``, and which a copy of its folder can stand in for."""
    server = cluster(SETTINGS)
    places = f"unix_socket_directories = '{server.folder}'\nlisten_addresses = ''\n"
    archive = (
        f"archive_command = 'test ! -f {server.folder}/archive/%f && cp %p {server.folder}/archive/%f'\n"
    )
    server.shell(
        f"mkdir archive; cat >> data/postgresql.conf <<'END'\n{places}{archive}END\npg_ctl -D data reload"
    )
    server.shell("createdb instar")
    return server


def at(server: Cluster, name: str) -> str:
    return f"postgresql:///{name}?host={server.folder}&user=postgres"


def texts(served: Served, session: str) -> list[str]:
    messages = served.http.get(f"/session/{session}/message").json()
    return [part["text"] for one in messages for part in one["parts"] if part["type"] == "text"]


@pytest.mark.slow
def test_the_commands_of_the_page_bring_sessions_back_and_their_turns_go_on(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    server = keeps_its_log()

    def worker(name: str) -> Served:
        own = {"INSTAR_DATABASE": at(server, name), "INSTAR_DATA": str(tmp_path / name)}
        return serve(script=SCRIPT, environment=own)

    first = worker("instar")
    session, slow = first.session(), first.session()
    first.ask(session, "before")
    server.shell(BASE)
    first.ask(slow, "slow", "prompt_async")
    begun = first.directory / "begun.txt"
    wait_until(begun.exists)
    server.shell(f"INSTAR_DATABASE='{at(server, 'instar')}'\n{DUMP}")
    first.ask(session, "between")
    with psycopg.connect(at(server, "instar"), autocommit=True) as connection:
        time = connection.execute("SELECT now()").fetchall()[0][0].isoformat(sep=" ")
        first.ask(session, "late")
        first.stop(signal.SIGKILL)
        connection.execute("SELECT pg_switch_wal()")

    server.shell(RESTORE)
    restored = worker("restored")
    assert texts(restored, session) == ["before", "before"]
    wait_until(lambda: texts(restored, slow)[-1] == "I went on")
    assert restored.ask(session, "again").status_code == 200
    restored.stop(signal.SIGKILL)

    server.stop("fast")
    server.shell(RECOVER.replace("ARCHIVE", f"{server.folder}/archive").replace("TIME", time))
    recovered = worker("instar")
    assert texts(recovered, session) == ["before", "before", "between", "between"]
    wait_until(lambda: texts(recovered, slow)[-1] == "I went on")
    assert begun.read_text() == "begun\n"
    recovered.stop(signal.SIGKILL)
    server.shell("pg_ctl -D recovered -m immediate stop; pg_ctl -D data start -l log.txt")
