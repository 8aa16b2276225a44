"""What `bench.beside` reckons, and the model that both programs ask, over a real socket."""

import http.client
import json
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.beside import Budget, Row, percentile, said
from bench.contender import House, Program, address, end, gone, modelled, resident, settings, tree, used

from bench import loopback

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with modelled() as started:
        yield started


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [
        ([7], 0.5, 7),
        ([3, 1, 2], 0.5, 2),
        ([4, 3, 2, 1], 0.5, 2),
        (range(1, 101), 0.95, 95),
        (range(1, 101), 0.99, 99),
        (range(1, 65), 0.99, 64),
        (range(1, 11), 0.0, 1),
        (range(1, 11), 1.0, 10),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(values: Any, share: float, found: float) -> None:
    assert percentile(list(values), share) == found


def test_there_is_no_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("budget", "ours", "theirs", "holds"),
    [
        (Budget(0.1), 10, 100, True),
        (Budget(0.1), 11, 100, False),
        (Budget(40, least=True), 100, 2.5, True),
        (Budget(40, least=True), 99, 2.5, False),
        (Budget(56, ratio=False), 56, 1, True),
        (Budget(56, ratio=False), 57, 1000, False),
    ],
)
def test_a_row_says_whether_its_budget_holds(budget: Budget, ours: float, theirs: float, holds: bool) -> None:
    row = Row("x", "ms", ours, theirs, budget)
    assert row.held is holds
    assert ("MISSED" in row.line()) is not holds
    assert json.loads(json.dumps(said(row)))["holds"] is holds


def test_a_row_without_a_budget_judges_nothing() -> None:
    row = Row("x", "ms", 1, 2)
    assert (row.held, said(row)["budget"]) == (None, None)
    assert "0.500 ×" in row.line()


@pytest.mark.slow
def test_the_model_calls_a_tool_for_each_line_of_the_prompt_and_then_answers(url: str) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": 'call read {"limit": 1}\ncall bash {"command": "true 2"}'},
    ]
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    called = []
    for _ in range(3):
        body = json.dumps({"model": "m", "messages": messages, "tools": [{"type": "function"}]})
        connection.request("POST", "/v1/chat/completions", body)
        text = connection.getresponse().read().decode()
        deltas = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        calls = [call for one in deltas for c in one["choices"] for call in c["delta"].get("tool_calls", [])]
        called.append([(call["function"]["name"], call["function"]["arguments"]) for call in calls])
        messages += [{"role": "assistant", "tool_calls": calls}, {"role": "tool", "content": "done"}]
        connection.request("GET", "/last")
        assert connection.getresponse().read().decode() == body
    connection.close()
    assert called == [[("read", '{"limit": 1}')], [("bash", '{"command": "true 2"}')], []]
    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("cut", [0, 5, 30, 52, 55])
def test_a_request_that_is_not_whole_waits_for_the_rest(cut: int) -> None:
    whole = b"POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    assert loopback.split(whole + b"GET ") == (b"POST", b"abc", len(whole))
    assert loopback.split(whole[: min(cut, len(whole) - 1)]) is None


def test_a_body_in_chunks_is_refused() -> None:
    with pytest.raises(ValueError, match="Content-Length"):
        loopback.split(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_memory_and_processor_are_those_of_the_whole_tree() -> None:
    child = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 60 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        found = tree(child.pid)
        assert child.pid in found
        assert len(found) == 2
        assert all(resident(pid) > 0 for pid in found)
        assert used(os.getpid()) > 0
    finally:
        end(child)
    assert tree(child.pid) == {child.pid}
    assert (resident(child.pid), used(child.pid)) == (0, 0.0)


def test_a_server_that_ends_without_an_address_is_quoted(tmp_path: Path) -> None:
    broken = Program("broken", [sys.executable, "-c", "import sys; sys.exit('no such thing')"])
    with pytest.raises(RuntimeError, match=r"broken: .*no such thing"), House(tmp_path, broken, {}).serving():
        pass


def test_a_server_behind_a_warning_is_found() -> None:
    said_first = "echo Warning: no password; echo opencode server listening on http://127.0.0.1:1"
    child = subprocess.Popen(["/bin/sh", "-c", said_first], stdout=subprocess.PIPE, bufsize=0)
    assert address(child) == "http://127.0.0.1:1"
    end(child)


def test_a_connection_that_the_server_closed_is_seen(url: str) -> None:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    assert gone(connection)
    connection.request("GET", "/last")
    connection.getresponse().read()
    assert not gone(connection)
    connection.close()
    assert gone(connection)


def test_both_are_given_the_same_settings_but_for_snapshots() -> None:
    shipped, off = (settings("http://x/v1", snapshot=one) for one in (True, False))
    assert off == {**shipped, "snapshot": False}
    assert "snapshot" not in shipped


@pytest.mark.slow
def test_without_opencode_the_bench_says_what_installs_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "bench.beside", "--opencode", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "make beside" in done.stderr
