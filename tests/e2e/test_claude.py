"""A whole turn with Claude: a real server that speaks Anthropic Messages, and everything above it."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from instar.message import ReasoningPart
from instar.testing import Machine, answer_of, calls_of, said

pytest_plugins = ["tests.turn"]


class Claude:
    """Answers calls with streams of events, one after the other, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[list[dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                outer.asked.append(json.loads(self.rfile.read(length)))
                events = outer.answers.pop(0)
                data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data.encode())

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def says(self, reason: str, *blocks: Sequence[dict[str, Any]]) -> None:
        """Add an answer of blocks: each its start and its deltas."""
        events: list[dict[str, Any]] = [
            {
                "type": "message_start",
                "message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": 5}},
            }
        ]
        for index, (content, *deltas) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": content})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        events.append(
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}
        )
        self.answers.append([*events, {"type": "message_stop"}])


@pytest.fixture
def claude() -> Iterator[Claude]:
    found = Claude()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


async def test_thinking_and_tool_calls_go_back_to_claude_as_they_came(house: Machine, claude: Claude) -> None:
    (house.folder / "a.txt").write_text("the word is plover\n")
    house.settings(provider={"anthropic": {"options": {"baseURL": claude.url, "apiKey": "k"}}})
    claude.says(
        "tool_use",
        [
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "I read it."},
            {"type": "signature_delta", "signature": "sig-1"},
        ],
        [{"type": "redacted_thinking", "data": "opaque"}],
        [{"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "sig-2"}],
        [{"type": "text", "text": ""}, {"type": "text_delta", "text": "Reading."}],
        [
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"filePath": "a.t'},
            {"type": "input_json_delta", "partial_json": 'xt"}'},
        ],
    )
    claude.says("end_turn", [{"type": "text", "text": ""}, {"type": "text_delta", "text": "plover"}])
    door = await house.open(model="claude-sonnet-4-6")
    session = await door.session()
    answer = await door.ask(session, "what is the word?")
    history = await door.stored(session)

    assert said(answer) == "plover"
    assert (answer_of(answer).provider_id, answer_of(answer).model_id) == ("anthropic", "claude-sonnet-4-6")
    assert answer_of(answer).tokens.cache.read == 5
    first = history[1]
    assert [part.metadata for part in first.parts if isinstance(part, ReasoningPart)] == [
        {"anthropic": {"signature": "sig-1"}},
        {"anthropic": {"redactedData": "opaque"}},
        {"anthropic": {"signature": "sig-2"}},
    ]
    assert [call.call_id for call in calls_of(first)] == ["toolu_1"]
    before, after = claude.asked
    assert after["tools"] == before["tools"]
    assert after["system"] == before["system"]
    turns = [(turn["role"], turn["content"]) for turn in after["messages"]]
    assert turns[1] == (
        "assistant",
        [
            {"type": "thinking", "thinking": "I read it.", "signature": "sig-1"},
            {"type": "redacted_thinking", "data": "opaque"},
            {"type": "thinking", "thinking": "", "signature": "sig-2"},
            {"type": "text", "text": "Reading."},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"filePath": "a.txt"}},
        ],
    )
    (result,) = turns[2][1]
    assert (turns[2][0], result["tool_use_id"]) == ("user", "toolu_1")
    assert "plover" in result["content"]
