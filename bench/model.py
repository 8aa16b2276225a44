"""A model that answers one word at once: an OpenAI-compatible server in a process of its own.

`python -m bench.model` prints its address and serves until it is ended. With `deltas-N` in the model's name the answer
is N text deltas instead.
"""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Model(BaseHTTPRequestHandler):
    """Answers every POST with a stream of Chat Completions chunks."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer one request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = re.search(r"deltas-(\d+)", body["model"])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks(int(found[1]) if found else 1):
            data = f"data: {chunk}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def chunks(deltas: int) -> Iterator[str]:
    """The chunks of an answer: its deltas, the finish, the usage."""
    for _ in range(deltas):
        yield json.dumps({"choices": [{"index": 0, "delta": {"content": "word "}}]})
    yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield json.dumps({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": deltas}})
    yield "[DONE]"


def main() -> None:
    """Serve on a free port of loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
