"""A Chat Completions server on loopback: what the tests' models for the real opencode and for instar share."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Plain = dict[str, Any]
Chunks = Callable[[str, Mapping[str, str], Plain], Iterator[bytes]]
"""Gives the answer to a request's path, headers and body, as `framed` makes it."""

TITLE, SUMMARY = "A talk about milk", "## Goal\nBuy milk."


class Completions:
    """The server; it answers until `close`."""

    def __init__(self, chunks: Chunks) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(chunks))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Let go of the port."""
        self._server.shutdown()
        self._server.server_close()


def deltas(
    texts: Iterable[str], tools: Sequence[tuple[str, Plain]], number: int, tokens: int = 100
) -> Iterator[Plain]:
    """An answer: its texts, each in a delta, its calls, numbered by the step too, and the tokens of its input."""
    for text in texts:
        yield _choice({"role": "assistant", "content": text})
    for index, (name, arguments) in enumerate(tools):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{number}_{index}", "type": "function", "function": function}
        yield _choice({"role": "assistant", "tool_calls": [call]})
    usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
    yield {**_choice({}, "tool_calls" if tools else "stop"), "usage": usage}


def framed(model: str, found: Iterable[Plain]) -> Iterator[bytes]:
    """The server-sent events of deltas."""
    for delta in found:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model}
        yield f"data: {json.dumps({**chunk, **delta})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _choice(delta: Plain, finish: str | None = None) -> Plain:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _handler(chunks: Chunks) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for chunk in chunks(self.path, dict(self.headers), body):
                try:
                    self.wfile.write(chunk)
                except OSError:
                    # The turn was aborted.
                    return

    return Handler
