"""A model that does what its user says, over both wires: `python -m bench.acting` prints its address and serves.

Of the last user message that has any, these lines count, one step each: `call NAME {json}` asks for a tool, several in
one step when they are joined by ` && call `; `fail STATUS` fails the call once; `hang` says a word and then nothing.
After the last step the answer is a text. It follows from the request's body alone, so that restarts change nothing;
only `fail` is remembered, by the message's text. It counts tokens as `bench.caching` does, and none as cached.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

from bench.program import Server

MODELS: Final = {"Chat Completions": "acts/gpt", "Anthropic Messages": "claude/claude-sonnet-4-5"}
"""The model that `provider` gives for each wire."""
_STEP: Final = re.compile(r"^(?:call|fail|hang)\b.*$", re.MULTILINE)
CALL: Final = re.compile(r"(?:^| && )call (\S+) (\{.*?\})(?=$| && call )")


class Acting(BaseHTTPRequestHandler):
    """Answers every POST: Anthropic Messages on a path that ends so, Chat Completions on any other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    failed: ClassVar[set[str]] = set()
    bodies: ClassVar[list[bytes]] = []
    released: ClassVar[threading.Event] = threading.Event()
    """Set when the server ends: what hangs lets go."""

    def do_POST(self) -> None:
        """Answer one request."""
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append(raw)
        body = json.loads(raw)
        anthropic = self.path.split("?")[0].endswith("/messages")
        steps, done = (told_anthropic if anthropic else told_openai)(body["messages"])
        key, step = "\n".join(steps), steps[done] if done < len(steps) else ""
        if step.startswith("fail"):
            if key not in self.failed:
                self.failed.add(key)
                self._fail(int(step.split()[1]))
                return
            steps = [one for one in steps if not one.startswith("fail")]
            step = steps[done] if done < len(steps) else ""
        calls = CALL.findall(step)
        size = len(raw) // 4
        events = anthropic_events if anthropic else openai_events
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, chunk in enumerate(events(f"step {len(body['messages'])}", calls, size)):
            if step == "hang" and number == 3:
                self.released.wait(30)
                return
            data = f"data: {chunk}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _fail(self, status: int) -> None:
        data = b'{"type":"error","error":{"type":"overloaded_error","message":"try again"}}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("retry-after", "0")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def told_openai(messages: list[dict[str, Any]]) -> tuple[list[str], int]:
    """The steps of the last message that has any, and how many answers with calls stand after it."""
    done = 0
    for message in reversed(messages):
        if message["role"] == "user" and (steps := _STEP.findall(_text(message["content"]))):
            return steps, done
        if message["role"] == "user":
            return [], 0
        done += bool(message.get("tool_calls"))
    return [], 0


def told_anthropic(messages: list[dict[str, Any]]) -> tuple[list[str], int]:
    """As `told_openai`; results of tools are a user's turn there, which says nothing."""
    done = 0
    for message in reversed(messages):
        content = message["content"]
        kinds = {block["type"] for block in content} if isinstance(content, list) else {"text"}
        if message["role"] == "user" and "text" in kinds:
            return _STEP.findall(_text(content)), done
        done += message["role"] == "assistant" and "tool_use" in kinds
    return [], 0


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [block["text"] for block in content if block.get("type") == "text"]
    return texts[-1] if texts else ""


def openai_events(text: str, calls: list[tuple[str, str]], size: int) -> Iterator[str]:
    """The chunks of an answer."""
    yield json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]})
    yield json.dumps({"choices": [{"index": 0, "delta": {"content": "."}}]})
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": arguments}
        call = {"index": index, "id": f"call_{size}_{index}", "type": "function", "function": function}
        yield json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    reason = "tool_calls" if calls else "stop"
    yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    yield json.dumps({"choices": [], "usage": {"prompt_tokens": size, "completion_tokens": 2}})
    yield "[DONE]"


def anthropic_events(text: str, calls: list[tuple[str, str]], size: int) -> Iterator[str]:
    """The events of an answer."""
    usage = {"input_tokens": size, "output_tokens": 1}
    yield json.dumps({"type": "message_start", "message": {"type": "message", "usage": usage}})
    yield json.dumps(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    )
    yield json.dumps(_delta(0, {"type": "text_delta", "text": text}))
    yield json.dumps({"type": "content_block_stop", "index": 0})
    for index, (name, arguments) in enumerate(calls, 1):
        block = {"type": "tool_use", "id": f"toolu_{size}_{index}", "name": name, "input": {}}
        yield json.dumps({"type": "content_block_start", "index": index, "content_block": block})
        yield json.dumps(_delta(index, {"type": "input_json_delta", "partial_json": arguments}))
        yield json.dumps({"type": "content_block_stop", "index": index})
    reason = "tool_use" if calls else "end_turn"
    yield json.dumps(
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}
    )
    yield json.dumps({"type": "message_stop"})


def _delta(index: int, delta: dict[str, str]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def provider(url: str) -> dict[str, Any]:
    """The configuration's provider blocks for a server at `url`: the two of `MODELS`."""
    limit = {"context": 1_000_000, "output": 8_000}
    options = {"baseURL": url, "apiKey": "none"}
    return {
        "acts": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {**options, "setCacheKey": True},
            "models": {"gpt": {"limit": limit, "attachment": True}},
        },
        "claude": {
            "npm": "@ai-sdk/anthropic",
            "options": options,
            "models": {"claude-sonnet-4-5": {"limit": limit, "attachment": True}},
        },
    }


def serve() -> ThreadingHTTPServer:
    """Return a server on a free port of loopback, not yet serving, with a memory of its own."""
    handler = type("Handler", (Acting,), {"failed": set(), "bodies": [], "released": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    return server


@contextmanager
def running() -> Iterator[str]:
    """Serve in threads of this process; yields the base URL."""
    server = serve()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.RequestHandlerClass.released.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()


def session(server: Server, wire: str, turns: int = 50) -> None:
    """Let a session of instar's run so many turns, each with a call of a tool. Raises `RuntimeError` when one fails."""
    name = server.session()
    provider_id, _, model_id = MODELS[wire].partition("/")
    for number in range(turns):
        text = f'turn {number}\ncall bash {{"command": "seq {number * 20}"}}'
        body = {
            "model": {"providerID": provider_id, "modelID": model_id},
            "parts": [{"type": "text", "text": text}],
        }
        answer = server.post(f"/session/{name}/message", body)
        if "error" in answer["info"]:
            raise RuntimeError(f"the turn failed: {answer['info']['error']}")


def main() -> None:
    """Serve until ended."""
    server = serve()
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
