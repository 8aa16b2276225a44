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
from bench.contender import (
    House,
    Program,
    address,
    end,
    gone,
    instar,
    modelled,
    resident,
    settings,
    tree,
    used,
)
from bench.listeners import listening
from bench.row import Budget, Row, percentile
from bench.scenes import large

from bench import loopback, others

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
    row = Row("x", "ms", ours, theirs, (budget,))
    assert row.held is holds
    assert ("MISSED" in row.line()) is not holds
    assert json.loads(json.dumps(row.said()))["holds"] is holds


def test_of_two_budgets_both_have_to_hold() -> None:
    ratio, sane = Budget(0.1), Budget(8, ratio=False)
    held = [Row("x", "ms", ours, 100, (ratio, sane)).held for ours in (7, 9, 11)]
    assert held == [True, False, False]


def test_a_ratio_to_what_was_not_measured_does_not_hold() -> None:
    assert Row("x", "ms", 1, None, (Budget(0.1),)).held is False


def test_a_row_without_a_budget_judges_nothing_and_says_what_is_aimed_at() -> None:
    row = Row("x", "ms", 1, 2, aim=Budget(4, ratio=False))
    assert (row.held, row.said()["budgets"], row.said()["aim"]) == (None, [], "≤ 4")
    assert "0.500 ×" in row.line()


def test_what_opencode_has_not_is_a_dash() -> None:
    assert Row("x", "ms", 1).line().split()[1:3] == ["1.00", "-"]


@pytest.mark.slow
def test_the_model_calls_a_tool_for_each_line_of_the_prompt_and_then_answers(url: str) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": 'call read {"limit": 1}\ncall bash {"command": "true 2"}'},
    ]
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    called = []
    for _ in range(3):
        body = json.dumps(
            {"model": "m", "messages": messages, "tools": [{"type": "function"}], "stream": True}
        )
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


def asked(url: str, text: str, *, stream: bool) -> str:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    # Twice over one connection: an answer of another length than it says would break the second.
    for _ in range(2):
        body = {"messages": [{"role": "user", "content": text}], "stream": stream}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        answer = connection.getresponse().read().decode()
    connection.close()
    return answer


@pytest.mark.parametrize("word", ["deltas", "paced"])
def test_the_model_answers_in_as_many_deltas_as_it_is_asked_for(url: str, word: str) -> None:
    answer = asked(url, f"{word} 30", stream=True)
    assert answer.count('"word "') == 30
    assert answer.endswith("data: [DONE]\n\n")


def test_who_asks_for_no_stream_gets_one_object_with_the_calls(url: str) -> None:
    answer = json.loads(asked(url, 'call read {"limit": 1}', stream=False))
    (choice,) = answer["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], choice["finish_reason"]) == ("read", "tool_calls")


@pytest.mark.slow
def test_listeners_hear_the_end_of_each_turn(tmp_path: Path, url: str) -> None:
    house = House(tmp_path, instar(), settings(url, snapshot=False))
    with house.serving() as server, listening(server.url, 3) as heard:
        session = server.session()
        sizes = []
        for _ in range(2):
            server.turn(session, "deltas 20")
            sizes.append(heard())
    assert 0 < sizes[0] < sizes[1]


@pytest.mark.slow
def test_the_large_session_is_taken_in_and_comes_back_whole(tmp_path: Path, url: str) -> None:
    house = House(tmp_path, instar(), settings(url, snapshot=False))
    file = tmp_path / "large.json"
    data = large(100, str(house.project))
    file.write_text(json.dumps(data))
    command = [*house.program.command, "import", str(file)]
    subprocess.run(command, cwd=house.project, env=house.environment, check=True, capture_output=True)
    with house.serving() as server:
        found = server.call("GET", f"/session/{data['info']['id']}/message")
    assert [len(message["parts"]) for message in found] == [1, 19] * 5


@pytest.mark.slow
def test_of_the_others_what_is_not_installed_is_named_and_instar_is_measured(
    tmp_path: Path, url: str
) -> None:
    rows: list[others.Measured] = []
    missing = others.measure(tmp_path / "work", url, tmp_path / "nothing", 1, rows.append)
    assert set(missing) == {"nanobot", "openhands"}
    assert all("make beside" in why for why in missing.values())
    assert all(row.values["instar"] and row.values.keys() == {"instar"} for row in rows)
    assert "-" in rows[0].line()


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
