"""What published plugins ask of a machine: the servers of two vendors on loopback, and two programs on ``PATH``."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Plain = dict[str, Any]

PROGRAMS = {
    # Of opencode-wakatime: told what was worked on.
    "wakatime-cli": '#!/bin/sh\n[ "$1" = --version ] && { echo v1.100.0; exit; }\necho "$@" >> "$HOME/beats"\n',
    # Of opencode-beads: what an issue tracker has to say.
    "bd": '#!/bin/sh\necho "three issues are open"\n',
}


class Vendors:
    """Anthropic Messages, of which `asked` keeps paths, headers and bodies; and LM Studio's list of models."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], Plain]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where both are."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        """Let go of the port."""
        self._server.shutdown()
        self._server.server_close()


def _events(body: Plain) -> list[Plain]:
    """A call of the first tool whose name ends in ``read``; once that was answered, a text."""
    names = [tool["name"] for tool in body.get("tools", ()) if tool["name"].endswith("read")]
    if names and not any(message["role"] == "assistant" for message in body["messages"]):
        block = {"type": "tool_use", "id": "toolu_1", "name": names[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": '{"filePath": "notes.txt"}'}
        reason = "tool_use"
    else:
        block, delta = (
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "Your notes say: buy milk."},
        )
        reason = "end_turn"
    begun = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    return [
        {"type": "message_start", "message": {**begun, "usage": {"input_tokens": 10, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def _handler(vendors: Vendors) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            found = {
                "object": "list",
                "data": [{"id": "made-up-8b", "object": "model", "owned_by": "nobody"}],
            }
            self._answer("application/json", json.dumps(found).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            vendors.asked.append((self.path, headers, body))
            events = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in _events(body)]
            self._answer("text/event-stream", "".join(events).encode())

        def _answer(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
