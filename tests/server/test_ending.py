"""The end of a server that has work to do, as its clients meet it."""

import os
import signal
import threading
import time
from typing import Any

import httpx2
import pytest
from tests.server.conformance import problems_of
from tests.waiting import SOON, wait_until

from instar.server.instances import Instances
from instar.server.listen import Shutdown


class Busy:
    """A server whose turn runs until it is told to `go`."""

    def __init__(self, serve: Any, folder: Any, *arguments: str) -> None:
        folder.mkdir()
        mark, self._pipe = folder / "mark", folder / "go"
        os.mkfifo(self._pipe)
        script = (
            f'== turn\ntool: bash {{"command": "touch {mark}; cat {self._pipe}"}}\n== turn\ntext: finished\n'
        )
        self.served = serve(*arguments, script=script)
        self.session_id = self.served.session(title="named, so that no title is made")
        self.answers: list[Any] = []
        self._asking = threading.Thread(target=lambda: self.answers.append(self.served.ask(self.session_id)))
        self._asking.start()
        wait_until(mark.exists)

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.served.process.send_signal(number)

    def go(self) -> None:
        self._pipe.write_text("go")

    def answer(self) -> Any:
        self._asking.join()
        return self.answers[0].json()


@pytest.fixture
def busy(serve, tmp_path):
    return lambda *arguments: Busy(serve, tmp_path / "project", *arguments)


@pytest.mark.slow
def test_a_turn_that_runs_may_end_while_nothing_new_is_taken_and_what_it_needs_is(busy):
    one = busy("--grace", "20")
    http = one.served.http
    with one.served.http.stream("GET", "/event") as stream:
        lines = stream.iter_lines()
        one.signal()
        # Every client is told.
        assert any(line.startswith(": the server is stopping: turns that run have 20 s") for line in lines)
        for method, path in (
            ("POST", f"/session/{one.session_id}/message"),
            ("POST", "/session"),
            ("PATCH", f"/session/{one.session_id}"),
            ("POST", f"/api/session/{one.session_id}/compact"),
        ):
            refused = http.request(method, path, json={})
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "20"
        assert problems_of("POST", "/api/session/{sessionID}/compact", 503, refused.json()) == []
        assert http.get("/session/status").json() == {one.session_id: {"type": "busy"}}
        assert http.post("/permission/per_1/reply", json={"reply": "once"}).status_code == 404
        one.go()
        # A client of opencode's comes back by itself only to a stream that broke, as those of a real one do.
        with pytest.raises(httpx2.RemoteProtocolError):
            list(lines)
    assert one.answer()["parts"][-2]["text"] == "finished"
    assert one.served.process.wait(timeout=20) == 0


@pytest.mark.slow
def test_streams_hear_all_that_happened_before_they_end(serve):
    served = serve()
    with (
        served.http.stream("GET", "/global/event") as theirs,
        served.http.stream("GET", "/instar/event") as own,
    ):
        served.session()
        served.process.send_signal(signal.SIGTERM)
        broken, whole = [], list(own.iter_lines())
        with pytest.raises(httpx2.RemoteProtocolError):
            broken.extend(theirs.iter_lines())
    for found in (broken, whole):
        (last,) = (line for line in found[-4:] if line.startswith("data: "))
        assert "server.instance.disposed" in last


@pytest.mark.slow
def test_after_the_grace_what_still_runs_is_aborted(busy):
    one = busy("--grace", "0.2")
    one.signal()
    assert one.answer()["info"]["error"]["name"] == "MessageAbortedError"
    assert one.served.process.wait(timeout=20) == 0


@pytest.mark.slow
def test_a_second_signal_aborts_what_runs_without_waiting(busy):
    one = busy("--grace", "600")
    with one.served.http.stream("GET", "/event") as stream:
        one.signal()
        assert any(line.startswith(": the server is stopping") for line in stream.iter_lines())
    began = time.monotonic()
    one.signal(signal.SIGINT)
    assert one.answer()["info"]["error"]["name"] == "MessageAbortedError"
    assert one.served.process.wait(timeout=20) == 0
    assert time.monotonic() - began < SOON


async def test_a_signal_while_the_rest_is_closed_ends_the_process_at_once(monkeypatch, tmp_path):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    ending = Shutdown(Instances(tmp_path, {}), grace=0)
    ending.tell()
    assert codes == []
    ending.tell()
    assert codes == [1]


@pytest.mark.slow
def test_a_turn_may_be_aborted_by_its_client_while_the_server_waits_for_it(busy):
    one = busy("--grace", "600")
    one.signal()
    assert one.served.http.post(f"/session/{one.session_id}/abort").json() is True
    assert one.answer()["info"]["error"]["name"] == "MessageAbortedError"
    assert one.served.process.wait(timeout=20) == 0


@pytest.mark.slow
def test_a_server_without_work_ends_at_once_whatever_the_grace(serve):
    served = serve("--grace", "600")
    served.session()
    began = time.monotonic()
    assert served.stop() == 0
    assert time.monotonic() - began < SOON
