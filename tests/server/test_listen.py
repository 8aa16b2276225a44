import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import httpx2
import pytest
from tests.server.conftest import LOGIN
from tests.waiting import take_quickest, wait_until


def test_the_line_that_opencodes_sdk_waits_for_is_printed(shared):
    assert shared.line == f"opencode server listening on {shared.url}\n"
    assert shared.url.startswith("http://127.0.0.1:")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_turns_and_streams_and_the_server_within_two_seconds(serve, tmp_path, number):
    mark = tmp_path / "project" / "mark"

    def ended() -> float:
        mark.unlink(missing_ok=True)
        served = serve(script=f'== turn\ntool: bash {{"command": "touch {mark}; sleep 4716"}}\n')
        session_id = served.session(title="named, so that no title is made")
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(served.ask(session_id)))
        with served.events() as events:
            waiting.start()
            wait_until(mark.exists)
            began = time.monotonic()
            served.process.send_signal(number)
            rest = list(events)
            assert served.process.wait(timeout=20) == 0
            took = time.monotonic() - began
        waiting.join()
        assert answers[0].json()["info"]["error"]["name"] == "MessageAbortedError"
        assert rest[-1]["type"] != "server.connected"
        served.stop()
        assert "Traceback" not in served.errors
        return took

    assert take_quickest(ended, 2.0) < 2


def refused(clean_environment, folder, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "instar", "serve", *arguments],
        cwd=folder,
        env=dict(clean_environment),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_line(clean_environment, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = refused(clean_environment, tmp_path, "--port", str(port))
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_host_name_that_means_nothing_is_one_line(clean_environment, tmp_path):
    done = refused(clean_environment, tmp_path, "--hostname", "no such host")
    assert done.returncode == 1
    assert "cannot listen on no such host" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--no-auth", "--hostname", "0.0.0.0"], "say it twice if that is meant"),
        (["--no-auth", "--hostname", "::"], "say it twice if that is meant"),
        (["--cors", "*"], "'*' is no origin"),
        (["--mdns"], "leave --mdns out"),
        (["--grace", "-1"], "--grace"),
    ],
)
def test_what_would_open_more_than_was_meant_is_bad_usage(clean_environment, tmp_path, arguments, why):
    done = refused(clean_environment, tmp_path, *arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_without_auth_said_twice_other_machines_are_let_in_and_the_person_is_told(serve):
    served = serve("--no-auth", "--no-auth", "--hostname", "0.0.0.0")
    port = served.url.rpartition(":")[2]
    assert httpx2.get(f"http://127.0.0.1:{port}/global/health").status_code == 200
    served.stop()
    assert "whoever reaches this machine can run commands" in served.errors


@pytest.mark.slow
def test_with_a_password_other_machines_may_come_and_the_person_is_told_of_the_wire(serve):
    served = serve("--hostname", "0.0.0.0")
    served.stop()
    assert "travels unencrypted" in served.errors


@pytest.mark.slow
def test_it_listens_at_an_ipv6_address(serve):
    served = serve("--hostname", "::1")
    assert served.url.startswith("http://[::1]:")
    assert served.http.get("/global/health").status_code == 200


def at(path) -> httpx2.Client:
    return httpx2.Client(
        transport=httpx2.HTTPTransport(uds=str(path)), base_url="http://localhost", auth=LOGIN
    )


@pytest.mark.slow
def test_a_unix_socket_serves_its_owner_asks_for_the_password_and_is_removed(serve, tmp_path):
    path = tmp_path / "run" / "instar.sock"
    served = serve("--socket", str(path))
    assert served.line == f"opencode server listening on unix://{path}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with at(path) as http:
        assert http.get("/global/health").json()["healthy"] is True
        assert http.get("/global/health", auth=("opencode", "wrong")).status_code == 401
    assert served.stop() == 0
    assert not path.exists()


@pytest.mark.slow
def test_a_unix_socket_that_was_left_behind_is_replaced_and_a_second_server_is_refused(
    serve, clean_environment, tmp_path
):
    path = tmp_path / "s"
    killed = serve("--socket", str(path))
    killed.stop(signal.SIGKILL)
    assert path.exists()
    serve("--socket", str(path))
    done = refused(clean_environment, tmp_path, "--socket", str(path))
    assert done.returncode == 1
    assert "another program does already" in done.stderr
    with at(path) as http:
        assert http.get("/global/health").status_code == 200
