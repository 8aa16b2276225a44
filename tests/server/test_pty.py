"""Terminals: as a client opens, joins and closes them."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.conformance import problems_of
from tests.server.conftest import Served
from tests.server.machine import served_in
from tests.server.sockets import closed, heard, joined, misfits, refused, replayed
from tests.waiting import SOON, wait_until
from websockets.exceptions import ConnectionClosed

FAMILIES = ("/pty", "/api/pty")
TICKET = {"x-opencode-ticket": "1"}
PLUGIN = """
id = "environment"

async def server(input, options=None):
    async def env(asked, output):
        output.env["HOOKED"] = "by a plugin"
    return {"shell.env": env}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("terminals")
    plugins = root / "project" / ".instar" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "environment.py").write_text(PLUGIN)
    with served_in(root, "== turn\ntext: hello\n", SHELL="/bin/sh", MY_TOKEN="hush") as one:
        yield one


def opened(served: Served, family: str = "/pty", **body: Any) -> dict[str, Any]:
    answer = served.http.post(family, json=body)
    assert answer.status_code == 200, answer.text
    assert problems_of("POST", family, 200, answer.json()) == []
    return info(answer)


def info(answer: httpx2.Response) -> Any:
    found = answer.json()
    return found["data"] if "location" in found else found


def script(text: str) -> dict[str, Any]:
    return {"command": "/bin/sh", "args": ["-c", text]}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("family", FAMILIES)
def test_a_terminal_is_listed_named_sized_and_removed(served, family):
    made = opened(served, family, **script("read x"), title="mine")
    one, path = f"{family}/{made['id']}", family + "/{ptyID}"
    assert made | {"id": "", "pid": 0} == {
        "id": "",
        "title": "mine",
        "command": "/bin/sh",
        "args": ["-c", "read x", "-l"],
        "cwd": str(served.directory),
        "status": "running",
        "pid": 0,
    }
    assert is_alive(made["pid"])
    for answer, where in (
        (served.http.get(family), family),
        (served.http.get(one), path),
        (served.http.put(one, json={"title": "yours", "size": {"rows": 10, "cols": 40}}), path),
        (served.http.put(one, json={"title": ""}), path),
    ):
        assert problems_of(answer.request.method, where, answer.status_code, answer.json()) == []
    assert info(served.http.get(one))["title"] == "yours"
    assert made["id"] in [each["id"] for each in info(served.http.get(family))]
    gone = served.http.delete(one)
    assert (gone.status_code, gone.content) == ((200, b"true") if family == "/pty" else (204, b""))
    wait_until(lambda: not is_alive(made["pid"]))
    for answer in (served.http.get(one), served.http.put(one, json={}), served.http.delete(one)):
        assert answer.json()["_tag"] == "PtyNotFoundError"
        assert problems_of(answer.request.method, path, 404, answer.json()) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_typed_reaches_the_program_and_what_it_prints_the_client(served, family):
    made = opened(served, family, command="/bin/cat")
    with joined(served, f"{family}/{made['id']}/connect") as socket:
        assert replayed(socket) == ("", 0)
        socket.send("hello é\n")
        heard(socket, lambda text: text == "hello é\r\nhello é\r\n")
        socket.send(b"bytes\n")
        heard(socket, lambda text: text == "bytes\r\nbytes\r\n")
        socket.send("\x04")
        assert closed(socket) == (1000, "")


def test_a_program_knows_its_terminal_and_no_secrets(served):
    made = opened(
        served,
        **script('stty size; tty; cut -d" " -f8 /proc/$$/stat; env; echo READY; read x; stty size; echo END'),
        env={"GIVEN": "yes", "HOOKED": "by me"},
    )
    one = f"/pty/{made['id']}"
    with joined(served, f"{one}/connect") as socket:
        text = heard(socket, lambda text: "READY\r\n" in text)
        served.http.put(one, json={"size": {"rows": 7, "cols": 33}})
        socket.send("\n")
        after = heard(socket, lambda text: "END" in text)
    lines = text.split("\r\n")
    assert lines[0] == "24 80"
    assert lines[1].startswith("/dev/")
    assert lines[2] == str(made["pid"])
    assert {"TERM=xterm-256color", "OPENCODE_TERMINAL=1", "HOOKED=by me"} <= set(lines)
    assert f"PWD={served.directory}" in lines
    assert "7 33" in after
    assert "hush" not in text
    assert "correct horse" not in text


def test_a_plugin_may_set_variables_for_a_terminal(served):
    made = opened(served, **script('echo "<$HOOKED>"; read x'))
    with joined(served, f"/pty/{made['id']}/connect") as socket:
        assert "<by a plugin>" in heard(socket, lambda text: ">" in text)


@pytest.mark.parametrize(
    ("cursor", "seen"),
    [
        ("", "ab😀cd\r\n"),
        ("?cursor=0", "ab😀cd\r\n"),
        ("?cursor=4", "cd\r\n"),
        ("?cursor=3", "�cd\r\n"),
        ("?cursor=-1", ""),
        ("?cursor=100", ""),
        ("?cursor=x", "ab😀cd\r\n"),
        ("?cursor=-7", "ab😀cd\r\n"),
    ],
)
def test_who_comes_later_is_shown_what_was_printed_from_a_place_on(served, talking, cursor, seen):
    with joined(served, f"/pty/{talking}/connect{cursor}") as socket:
        assert replayed(socket) == (seen, 8)


@pytest.fixture(scope="module")
def talking(served) -> str:
    made = opened(served, **script("echo 'ab😀cd'; read x"))
    with joined(served, f"/pty/{made['id']}/connect") as socket:
        heard(socket, lambda text: text.endswith("\n"))
    return str(made["id"])


def test_several_clients_see_the_same_terminal(served):
    path = f"/pty/{opened(served, command='/bin/cat')['id']}/connect"
    with joined(served, path) as one, joined(served, path) as two:
        one.send("from one\n")
        heard(two, lambda text: text.endswith("from one\r\nfrom one\r\n"))
        two.send("from two\n")
        heard(one, lambda text: text.endswith("from two\r\nfrom two\r\n"))


def test_more_is_printed_than_is_kept_and_the_newest_of_it_is_shown(served):
    made = opened(served, **script("head -c 2200000 /dev/zero | tr '\\0' x; echo END; read x"))
    with joined(served, f"/pty/{made['id']}/connect?cursor=0") as socket:
        heard(socket, lambda text: text.endswith("END\r\n"))
    with joined(served, f"/pty/{made['id']}/connect?cursor=0") as socket:
        text, place = replayed(socket)
    assert place == 2_200_005
    assert len(text) == 2 * 1024 * 1024
    assert text.endswith("xEND\r\n")


def test_a_program_that_does_not_read_is_not_given_everything(served):
    made = opened(served, **script("stty raw -echo; echo READY; sleep 4717"))
    with joined(served, f"/pty/{made['id']}/connect") as socket:
        heard(socket, lambda text: "READY" in text)
        with contextlib.suppress(ConnectionClosed):
            for _ in range(8):
                socket.send(b"x" * 500_000)
        assert closed(socket)[0] == 1008


def test_a_message_that_is_too_large_ends_the_connection(served):
    made = opened(served, command="/bin/cat")
    with joined(served, f"/pty/{made['id']}/connect") as socket:
        socket.send("x" * 1_100_000)
        assert closed(socket)[0] == 1009
    assert served.http.get(f"/pty/{made['id']}").json()["status"] == "running"


@pytest.mark.parametrize(("ends", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
def test_an_end_is_told_with_all_that_was_printed_before(served, ends, code):
    with served.events() as events:
        made = opened(served, "/api/pty", **script(f"echo last words; read x; {ends}"))
        with joined(served, f"/api/pty/{made['id']}/connect") as socket:
            heard(socket, lambda text: "words" in text)
            socket.send("\n")
            assert closed(socket) == (1000, "")
        # Another test's program may end only now.
        ends = (event["properties"] for event in events if event["type"] == "pty.exited")
        assert next(one for one in ends if one["id"] == made["id"]) == {"id": made["id"], "exitCode": code}
    one = served.http.get(f"/api/pty/{made['id']}")
    assert problems_of("GET", "/api/pty/{ptyID}", 200, one.json()) == []
    assert (info(one)["status"], info(one)["exitCode"]) == ("exited", code)
    with joined(served, f"/api/pty/{made['id']}/connect") as socket:
        assert closed(socket) == (4404, "session exited")


def test_a_terminal_of_the_older_routes_is_gone_with_its_program(served):
    made = opened(served, command="true")
    wait_until(lambda: served.http.get(f"/pty/{made['id']}").status_code == 404)


def test_the_events_of_a_terminal_are_as_the_document_has_them(served):
    with served.events() as events, served.events("/api/event") as newer:
        made = opened(served, command="/bin/cat")
        served.http.put(f"/pty/{made['id']}", json={"title": "named"})
        served.http.delete(f"/pty/{made['id']}")
        found, same = ([next(about(made["id"], stream)) for _ in range(3)] for stream in (events, newer))
    assert [one["type"] for one in found] == ["pty.created", "pty.updated", "pty.deleted"]
    assert found[0]["properties"]["info"] == made
    assert found[1]["properties"]["info"]["title"] == "named"
    assert [misfits("Event", one) for one in found] == [[], [], []]
    assert [misfits("V2Event", one) for one in same] == [[], [], []]


def about(pty_id: str, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events of one terminal: another test's program may end meanwhile."""
    return (one for one in events if one["type"].startswith("pty.") and pty_id in json.dumps(one))


def test_what_a_shell_started_ends_with_it(served, tmp_path):
    made = opened(served, command="/bin/bash", env={"OUT": str(tmp_path / "pids")})
    with joined(served, f"/pty/{made['id']}/connect") as socket:
        socket.send("setsid sh -c 'echo $$; exec sleep 1000' >> $OUT & sleep 1000 & echo $! >> $OUT\n")
        wait_until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
        began = time.monotonic()
        served.http.delete(f"/pty/{made['id']}")
        assert closed(socket) == (1000, "")
    wait_until(lambda: not any(is_alive(int(pid)) for pid in (tmp_path / "pids").read_text().split()))
    assert time.monotonic() - began < SOON


def test_an_instances_terminals_end_with_it(served, tmp_path):
    (tmp_path / "other").mkdir()
    query = {"directory": str(tmp_path / "other")}
    answer = served.http.post(
        "/pty", params=query, json={"command": "/bin/sh", "args": ["-c", "trap '' HUP TERM; sleep 1000"]}
    )
    pid, one = answer.json()["pid"], answer.json()["id"]
    assert served.http.get("/pty").json() != answer.json()
    assert [each["id"] for each in served.http.get("/pty", params=query).json()] == [one]
    assert served.http.get(f"/pty/{one}").status_code == 404
    with joined(served, f"/pty/{one}/connect?directory={query['directory']}") as socket:
        served.http.post("/instance/dispose", params=query)
        assert closed(socket)[0] == 1000
    wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize("times", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_server_that_is_killed_leaves_no_program_that_has_just_started(serve, times):
    started = []
    for _ in range(times):
        served = serve()
        started.append(opened(served, **script("trap '' HUP TERM; while :; do sleep 1; done"))["pid"])
        served.stop(signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in started))


@pytest.mark.slow
def test_the_end_of_the_server_ends_terminals_in_time_and_its_log_holds_no_ticket(serve):
    served = serve("--print-logs", "--log-level", "DEBUG")
    pids = [opened(served, command="/bin/bash")["pid"] for _ in range(3)]
    path = f"/pty/{served.http.get('/pty').json()[0]['id']}/connect"
    ticket = served.http.post(path + "-token", headers=TICKET).json()["ticket"]
    with joined(served, f"{path}?ticket={ticket}", login=False) as socket:
        began = time.monotonic()
        assert served.stop(signal.SIGTERM) == 0
        assert closed(socket)[0] in (1000, 1012)
    assert time.monotonic() - began < SOON
    wait_until(lambda: not any(is_alive(pid) for pid in pids))
    assert f"path={path} status=101" in served.errors
    assert ticket not in served.errors
    assert "Traceback" not in served.errors


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "body",
    [
        {"command": "/no/such/program"},
        {"command": "no-such-program"},
        {"command": "/etc/passwd"},
        {"command": "a\0b"},
        {"cwd": "no/such/folder"},
        {"cwd": "a\0b"},
        {"args": ["a\0b"]},
        {"args": ["x" * 3_000_000]},
        {"args": [1]},
        {"command": 5},
        {"env": {"A=B": "c"}},
        {"env": {"A": "b\0"}},
        {"env": {"A": 1}},
    ],
    ids=str,
)
def test_what_cannot_be_started_is_refused_and_leaves_nothing(served, family, body):
    before = served.http.get("/pty").json()
    answer = served.http.post(family, json=body)
    assert answer.status_code == 400, answer.text
    assert problems_of("POST", family, 400, answer.json()) == []
    assert served.http.get("/pty").json() == before


@pytest.mark.parametrize("size", [{"rows": 0, "cols": 1}, {"rows": 1}, {"rows": "x", "cols": 1}, 5])
def test_a_size_that_is_none_is_refused(served, talking, size):
    answer = served.http.put(f"/pty/{talking}", json={"size": size})
    assert (answer.status_code, answer.json()["name"]) == (400, "BadRequest")
    assert served.http.put(f"/pty/{talking}", json={"size": {"rows": 10**9, "cols": 80}}).status_code == 200


def test_without_a_command_the_persons_shell_is_opened_where_they_say(served):
    (served.directory / "below").mkdir(exist_ok=True)
    made = opened(served, cwd="below")
    assert (made["command"], made["args"]) == ("/bin/sh", ["-l"])
    assert made["title"] == f"Terminal {made['id'][-4:]}"
    with joined(served, f"/pty/{made['id']}/connect") as socket:
        socket.send("pwd\n")
        heard(socket, lambda text: f"{served.directory}/below\r" in text)


def test_the_shells_of_the_machine_are_listed(served):
    answer = served.http.get("/pty/shells")
    assert problems_of("GET", "/pty/shells", 200, answer.json()) == []
    assert {"path": "/bin/sh", "name": "sh", "acceptable": True} in answer.json()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_ticket_joins_its_terminal_once_without_a_password(served, family):
    made, other = opened(served, family, command="/bin/cat"), opened(served, family, command="/bin/cat")
    path = f"{family}/{made['id']}/connect"
    asked = served.http.post(path + "-token", headers=TICKET)
    assert problems_of("POST", family + "/{ptyID}/connect-token", 200, asked.json()) == []
    given = info(asked)
    assert given["expires_in"] == 60
    with joined(served, f"{path}?ticket={given['ticket']}", login=False) as socket:
        socket.send("typed\n")
        heard(socket, lambda text: "typed" in text)
    assert refused(served, f"{path}?ticket={given['ticket']}", login=False)[0] == 401
    assert refused(served, f"{path}?ticket={given['ticket']}")[0] == 403
    wrong = info(served.http.post(path + "-token", headers=TICKET))["ticket"]
    for where, login in ((f"{family}/{other['id']}/connect", False), ("/pty", False)):
        assert refused(served, f"{where}?ticket={wrong}", login=login)[0] == 401
    status, body = refused(served, f"{family}/{other['id']}/connect?ticket={wrong}")
    assert problems_of("GET", family + "/{ptyID}/connect", status, body) == []
    assert status == 403
    assert httpx2.get(f"{served.url}/pty?ticket={wrong}").status_code == 401


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("headers", [{}, {"x-opencode-ticket": "0"}])
def test_a_ticket_is_given_only_to_who_asks_for_it_by_its_header(served, talking, family, headers):
    answer = served.http.post(f"{family}/{talking}/connect-token", headers=headers)
    assert answer.status_code == 403
    assert problems_of("POST", family + "/{ptyID}/connect-token", 403, answer.json()) == []
    unknown = served.http.post(f"{family}/pty_none/connect-token", headers=TICKET)
    assert problems_of("POST", family + "/{ptyID}/connect-token", 404, unknown.json()) == []


def test_a_ticket_of_one_directory_is_none_for_another(served, talking, tmp_path):
    ticket = served.http.post(f"/pty/{talking}/connect-token", headers=TICKET).json()["ticket"]
    path = f"/pty/{talking}/connect?directory={tmp_path}&ticket={ticket}"
    assert refused(served, path, login=False)[0] == 403


@pytest.mark.parametrize("family", FAMILIES)
def test_a_web_socket_is_guarded_as_a_request_is(served, talking, family):
    path, where = f"{family}/{talking}/connect", family + "/{ptyID}/connect"
    assert refused(served, path, login=False)[0] == 401
    assert refused(served, path, headers={"Origin": "http://evil.example"})[0] == 403
    ticket = info(served.http.post(path + "-token", headers=TICKET))["ticket"]
    assert refused(served, f"{path}?ticket={ticket}", login=False, origin="http://evil.example")[0] == 403
    own = served.url
    with joined(served, path, origin=own) as socket:
        replayed(socket)
    status, body = refused(served, f"{family}/pty_none/connect")
    assert (status, problems_of("GET", where, status, body)) == (404, [])
    assert refused(served, f"{family}/none/connect")[0] == 400
    assert served.http.get(path).status_code == 400
    assert served.http.get(f"{family}/pty_none/connect").status_code == 404
    assert refused(served, "/pty")[0] in (403, 404)


@pytest.mark.slow
def test_a_server_without_a_password_opens_no_terminal(serve):
    served = serve("--no-auth", environment={"INSTAR_SERVER_PASSWORD": ""})
    for family in FAMILIES:
        answer = served.http.post(family, json={})
        assert (answer.status_code, answer.json()["name"]) == (403, "ForbiddenError")
    assert served.http.get("/pty").json() == []
