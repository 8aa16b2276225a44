"""The same turns played through the HTTP interface of opencode or of instar, and what each program said.

Both programs get one folder, one set of settings and one model: a Chat Completions server on loopback that says what a
story wrote down. `tests/real/test_trace.py` records opencode, `tests/e2e/test_trace.py` compares instar with that.
"""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

DATA = Path(__file__).parent / "data" / "trace"
PASSWORD = "correct horse"
PATIENCE = 60.0
TITLE = "Notes about milk"

Plain = dict[str, Any]


class Story(NamedTuple):
    """A turn: what is sent with ``POST /session``, what the model answers, and what a client does."""

    name: str
    session: Plain
    answers: tuple[Plain, ...]
    play: "Callable[[Play], None]"


class Model:
    """A server that gives a story's answers one after the other.

    An answer has ``text``, ``tools`` (names with their arguments), or ``status`` with ``error``; ``after`` names
    what must have happened first (`happened`). A request without tools is a title's or a summary's: a title's is
    answered once the turn's own request has come. `pace` are the seconds before each answer: a program that
    publishes beside its turn is through with it by then.
    """

    def __init__(self, pace: float = 0.0) -> None:
        """Begin to listen on a free port."""
        self.requests: list[Plain] = []
        self._pace = pace
        self._answers: tuple[Plain, ...] = ()
        self._given = 0
        self._happened: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The base address for a provider's settings."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def settings(self) -> Plain:
        """Settings of either program that name this model, and allow every tool."""
        fake = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Fake",
            "options": {"baseURL": self.url, "apiKey": "none"},
            "models": {
                "m": {
                    "name": "M",
                    "limit": {"context": 100_000, "output": 4_000},
                    "cost": {"input": 1, "output": 2},
                }
            },
        }
        return {
            "provider": {"fake": fake},
            "model": "fake/m",
            "small_model": "fake/m",
            "permission": {"*": "allow"},
            # A watcher tells of it when it looks.
            "watcher": {"ignore": ["new.txt"]},
        }

    def tell(self, story: Story) -> None:
        """Begin a story."""
        self.requests, self._answers, self._given, self._happened = [], story.answers, 0, {}

    def happened(self, what: str) -> None:
        """Let the answers go that wait for this."""
        self._event(what).set()

    def wait(self, what: str) -> None:
        """Wait until this has happened; ``asked`` is the turn's first request."""
        assert self._event(what).wait(PATIENCE), f"{what} did not happen"

    def answer(self, body: Plain) -> tuple[int, bytes]:
        """Return the status and the body of the answer to a request."""
        purpose = _purpose(body)
        with self._lock:
            self.requests.append(body)
            given, number = self._choose(purpose)
        if purpose == "turn":
            self.happened("asked")
        if "after" in given:
            self.wait(given["after"])
        time.sleep(self._pace)
        if "status" in given:
            return given["status"], json.dumps({"error": {"message": given["error"]}}).encode()
        chunks = [json.dumps(_chunk(body["model"], **one)) for one in _deltas(given, number)]
        return 200, "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"]).encode()

    def close(self) -> None:
        """Let go of the port."""
        self._server.shutdown()
        self._server.server_close()

    def _choose(self, purpose: str) -> tuple[Plain, int]:
        if purpose == "title":
            return {"text": TITLE, "after": "asked"}, 0
        if purpose == "summary":
            return {"text": "## Objective\nBuy milk."}, 0
        number, self._given = self._given, self._given + 1
        return self._answers[number], number

    def _event(self, what: str) -> threading.Event:
        with self._lock:
            return self._happened.setdefault(what, threading.Event())


def _purpose(body: Plain) -> str:
    if body.get("tools"):
        return "turn"
    return "summary" if "<conversation>" in json.dumps(body["messages"]) else "title"


def _deltas(answer: Plain, number: int) -> Iterator[Plain]:
    if "text" in answer:
        yield {"delta": {"role": "assistant", "content": answer["text"]}}
    tools = answer.get("tools", [])
    for index, (name, arguments) in enumerate(tools):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{number}_{index}", "type": "function", "function": function}
        yield {"delta": {"tool_calls": [call]}}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    yield {"delta": {}, "finish": "tool_calls" if tools else "stop", "usage": usage}


def _chunk(model: str, delta: Any, finish: str | None = None, **more: Any) -> Plain:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model}
    return {**head, "choices": [choice], **more}


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: object) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, data = model.answer(body)
            # Not `send_response`: its headers tell the date and the version of Python.
            self.send_response_only(status)
            self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


class Play:
    """A client in the middle of a story: what it sent, what it was answered, the events that it heard.

    `rest` are the seconds without an event after which a program counts as done.
    """

    def __init__(self, url: str, model: Model, story: Story, rest: float) -> None:
        self.model, self.story, self.rest = model, story, rest
        self.http = httpx2.Client(base_url=url, auth=("opencode", PASSWORD), timeout=PATIENCE)
        self.heard: list[Plain] = []
        self.answers: list[Plain] = []
        self.session = ""
        self._news = threading.Condition()
        self._threads: list[threading.Thread] = []

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request about the session, note the answer, and return its body."""
        noted: Plain = {"request": f"{method} /session{path}"}
        self.answers.append(noted)
        answer = self.http.request(method, f"/session{path}", json=body)
        noted["status"], noted["body"] = answer.status_code, answer.json()
        return noted["body"]

    def ask(self, text: str) -> None:
        """Send a prompt and wait for its answer."""
        self.call("POST", f"/{self.session}/message", {"parts": [{"type": "text", "text": text}]})

    def begin(self, text: str) -> None:
        """Send a prompt; its answer is waited for at the end."""
        self._threads.append(threading.Thread(target=self.ask, args=(text,)))
        self._threads[-1].start()

    def until(self, kind: str, wanted: Callable[[Plain], Any] = bool, times: int = 1) -> Plain:
        """Wait for an event of a type, the first one that is wanted, and return its properties."""
        with self._news:
            found: list[Plain] = []

            def look() -> bool:
                found[:] = [
                    e["properties"] for e in self.heard if e["type"] == kind and wanted(e["properties"])
                ]
                return len(found) >= times

            assert self._news.wait_for(look, PATIENCE), (kind, self.heard)
            return found[times - 1]

    def run(self) -> Plain:
        """Play the story and return what was said: ``http``, ``events``, ``requests``."""
        self.model.tell(self.story)
        with self.http, self.http.stream("GET", "/event") as stream:
            lines = stream.iter_lines()
            threading.Thread(target=self._listen, args=(lines,), daemon=True).start()
            self.until("server.connected", lambda _: True)
            self.session = self.call("POST", "", self.story.session)["id"]
            self.story.play(self)
            for thread in self._threads:
                thread.join(PATIENCE)
            self.settle()
            self.call("GET", f"/{self.session}")
            self.call("GET", f"/{self.session}/message")
            mark = self.http.post("/session", json={"title": "mark"}).json()["id"]
            self.until("session.created", lambda given: given["info"]["id"] == mark)
            heard = [event for event in self.heard if mark not in json.dumps(event)]
        return {"http": self.answers, "events": heard, "requests": list(self.model.requests)}

    def _listen(self, lines: Iterator[str]) -> None:
        # The stream is closed under it when the story is over.
        with contextlib.suppress(httpx2.HTTPError, httpx2.StreamError):
            for line in lines:
                if line.startswith("data: "):
                    with self._news:
                        self.heard.append(json.loads(line[6:]))
                        self._news.notify_all()

    def settle(self) -> None:
        """Wait until no event came for `rest` seconds."""
        seen = -1
        while self.rest and seen != len(self.heard):
            seen = len(self.heard)
            time.sleep(self.rest)


# -- the stories ---------------------------------------------------------------------------------------


def _read(play: Play) -> None:
    play.begin("What is in my notes?")
    play.until("session.updated", lambda given: given["info"]["title"] == TITLE)
    play.model.happened("titled")


def _permit(play: Play) -> None:
    play.begin("Say hi.")
    asked = play.until("permission.asked")
    path = f"/permission/{asked['id']}/reply"
    answer = play.http.post(path, json={"reply": "once"})
    play.answers.append({"request": f"POST {path}", "status": answer.status_code, "body": answer.json()})


def _abort(play: Play) -> None:
    play.begin("Wait.")
    play.until("message.part.updated", lambda given: "begun" in _shown(given["part"]))
    play.call("POST", f"/{play.session}/abort")


def _shown(part: Plain) -> str:
    return str(((part.get("state") or {}).get("metadata") or {}).get("output") or "")


def _busy(play: Play) -> None:
    play.begin("One?")
    play.model.wait("asked")
    play.begin("Two?")
    play.until("message.part.updated", lambda given: given["part"].get("text") == "Two?")
    play.model.happened("second prompt")


def _summarize(play: Play) -> None:
    play.ask("What shall I buy?")
    play.settle()
    play.call("POST", f"/{play.session}/summarize", {"providerID": "fake", "modelID": "m"})


TITLED = {"title": "A talk"}
_BASH = {"command": "echo hi > new.txt && cat new.txt", "description": "writes a file"}
_HI = {"command": "echo hi", "description": "says hi"}
_WAIT = {"command": "echo begun; sleep 30", "description": "waits"}
_ASKS = {**TITLED, "permission": [{"permission": "bash", "pattern": "*", "action": "ask"}]}

STORIES = (
    Story(
        "read",
        {},
        (
            {"text": "Let me look.", "tools": [("read", {"filePath": "notes.txt"})], "after": "titled"},
            {"text": "Buy milk."},
        ),
        _read,
    ),
    Story(
        "bash",
        TITLED,
        ({"tools": [("bash", _BASH)]}, {"text": "Done."}),
        lambda play: play.ask("Write a file."),
    ),
    Story("permission", _ASKS, ({"tools": [("bash", _HI)]}, {"text": "Done."}), _permit),
    Story(
        "error",
        TITLED,
        ({"status": 400, "error": "no such model"},),
        lambda play: play.ask("Fail."),
    ),
    Story("abort", TITLED, ({"tools": [("bash", _WAIT)]},), _abort),
    Story("busy", TITLED, ({"text": "One.", "after": "second prompt"}, {"text": "Two."}), _busy),
    Story("compaction", TITLED, ({"text": "Milk."},), _summarize),
)


# -- what is the same in every run ---------------------------------------------------------------------

_ID = re.compile(r"\b(ses|msg|prt|evt|per|que|call)_[0-9a-f]{12}[0-9A-Za-z]{14}\b")
_HEX = re.compile(r"\b[0-9a-f]{40}\b")
_STAMP = re.compile(r"\b\d{4}-\d\d-\d\dT[0-9:.]+Z")
_TIME = 1_600_000_000_000


class Scrub:
    """Makes a trace the same in every run: ids, snapshots and paths are named, times and versions taken out."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = sorted(places.items(), key=lambda item: -len(item[0]))
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def trace(self, said: Plain) -> Plain:
        """Return a scrubbed trace; ids are numbered as the events name them first."""
        events = [
            {"type": event["type"], "properties": self.value(event["properties"])}
            for event in said["events"]
            if event["type"] not in BOOT
        ]
        return {
            "http": self.value(said["http"]),
            "events": events,
            "requests": [self.value(request(body)) for body in said["requests"]],
        }

    def value(self, given: Any, key: str = "") -> Any:
        """Return a value without what differs between runs."""
        if isinstance(given, dict):
            return {name: self.value(one, name) for name, one in given.items()}
        if isinstance(given, list):
            return [self.value(one) for one in given]
        if isinstance(given, int | float) and not isinstance(given, bool) and given > _TIME:
            return "<time>"
        if isinstance(given, str):
            return f"<{key}>" if key in ("version", "slug") else self._text(given)
        return given

    def _text(self, text: str) -> str:
        for place, name in self._places:
            text = text.replace(place, name)
        text = _STAMP.sub("<stamp>", text)
        text = _ID.sub(lambda found: self._name(found[0], found[1]), text)
        return _HEX.sub(lambda found: self._name(found[0], "tree"), text)

    def _name(self, given: str, kind: str) -> str:
        if given not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[given] = f"{kind}_{self._counts[kind]}"
        return self._names[given]


BOOT = ("server.heartbeat", "plugin.added", "catalog.updated", "reference.updated", "integration.updated")
"""Events that tell of the clock and of a program's start, not of a turn."""


def request(body: Plain) -> Plain:
    """Return a request's parameters, tools' names and messages; each program's own prompts are left out."""
    purpose = _purpose(body)
    kept = {key: value for key, value in body.items() if key not in ("messages", "tools")}
    messages = [
        {**message, "content": "<prompt>"} if message["role"] == "system" or purpose != "turn" else message
        for message in body["messages"]
    ]
    tools = sorted(tool["function"]["name"] for tool in body.get("tools", []))
    return {"purpose": purpose, **kept, "tools": tools, "messages": messages}
