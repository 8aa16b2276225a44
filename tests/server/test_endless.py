"""Answers of a model without an end: they are cut off, an abort ends them at once, and the session goes on."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Served
from tests.waiting import take_quickest


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("flood.py"))], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.kill()


@pytest.fixture
def served(serve: Callable[..., Served], tmp_path: Path, port: int) -> Served:
    options = {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "k", "chunkTimeout": 1000}
    model = {"limit": {"context": 200_000, "output": 1000}}
    patient = {"limit": {"context": 4_000_000, "output": 2_000_000}}
    models = {"m": model, "patient": patient}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
    config = tmp_path / "config" / "instar"
    config.mkdir(parents=True)
    (config / "instar.json").write_text(json.dumps({"provider": {"local": provider}}))
    return serve(environment={"XDG_CONFIG_HOME": str(config.parent)})


def ask(served: Served, session: str, words: str, name: str = "m") -> dict[str, Any]:
    answer = served.ask(session, words, model={"providerID": "local", "modelID": name})
    assert answer.status_code == 200
    return answer.json()


def answers_again(served: Served, session: str) -> bool:
    return ask(served, session, "hello")["parts"][1]["text"] == "short"


@pytest.mark.parametrize("kind", ["text", "thought", "arguments"])
def test_an_answer_without_an_end_is_cut_off_and_the_session_goes_on(served, kind):
    session = served.session()
    found = ask(served, session, f"flood with {kind}")
    said = found["info"]["error"]["data"]["message"]
    assert "local/m did not end its answer, which was cut off after 1048576 characters" in said
    assert "limit.output" in said
    if kind != "arguments":
        assert 900_000 < len(found["parts"][1]["text"]) <= 1 << 20
    assert answers_again(served, session)


@pytest.mark.parametrize("kind", ["text", "thought", "arguments", "nothing", "comments"])
def test_an_abort_ends_an_answer_without_an_end_at_once(served, kind):
    session = served.session()

    def attempt() -> float:
        with served.events() as events, ThreadPoolExecutor() as pool:
            answer = pool.submit(ask, served, session, f"flood with {kind}", "patient")
            next(one for one in events if one["type"] in ("message.part.delta", "message.part.updated"))
            time.sleep(0.3)
            began = time.monotonic()
            served.http.post(f"/session/{session}/abort")
            assert answer.result()["info"]["error"]["name"] == "MessageAbortedError"
            return time.monotonic() - began

    assert take_quickest(attempt, 1.0) < 1.0
    assert answers_again(served, session)


def test_comments_are_silence(served):
    session = served.session()
    with served.events() as events, ThreadPoolExecutor() as pool:
        answer = pool.submit(ask, served, session, "flood with comments")
        status = (one["properties"]["status"] for one in events if one["type"] == "session.status")
        retry = next(one for one in status if one["type"] == "retry")
        served.http.post(f"/session/{session}/abort")
        answer.result()
    assert "held nothing but comments for 1 s" in retry["message"]
