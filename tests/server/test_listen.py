import signal
import socket
import subprocess
import sys
import threading
import time

import pytest


def test_the_line_that_opencodes_sdk_waits_for_is_printed(shared):
    assert shared.line == f"opencode server listening on {shared.url}\n"
    assert shared.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_turns_and_streams_and_the_server_within_two_seconds(
    serve, wait_until, tmp_path, number
):
    mark = tmp_path / "project" / "mark"
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
        assert time.monotonic() - began < 2
    waiting.join()
    assert answers[0].json()["info"]["error"]["name"] == "MessageAbortedError"
    assert rest[-1]["type"] != "server.connected"
    served.stop()
    assert "Traceback" not in served.errors


def test_a_port_that_is_taken_is_one_line(clean_environment, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "instar", "serve", "--port", str(port)],
            cwd=tmp_path,
            env=dict(clean_environment),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_name_that_means_nothing_is_one_line(clean_environment, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "instar", "serve", "--hostname", "no such host"],
        cwd=tmp_path,
        env=dict(clean_environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot listen on no such host" in done.stderr
