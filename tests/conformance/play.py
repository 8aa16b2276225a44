"""Playing a scenario on a host, and the trace of what its plugins did there."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.hosts import Host
from tests.conformance.model import Model, Request
from tests.waiting import wait_until

Plain = dict[str, Any]

_IDS = re.compile(r"\b(ses|msg|prt|per|tool|evt)_[0-9A-Za-z]{8,}\b")


class Play:
    """A scenario that is played on a host: what a client does in its directory, and what comes of it."""

    def __init__(self, host: Host, model: Model, scenario: "Scenario", suffixes: Mapping[str, str]) -> None:
        self.host, self.model, self.name = host, model, scenario.name
        self.trace = host.folder / f"{scenario.name}.jsonl"
        self.files = [name for name, _ in scenario.plugins]
        self.sessions: list[str] = []
        self.answers: list[Any] = []
        listed = [
            [
                str(host.plugins / f"{name}{suffixes.get(name, suffixes['*'])}"),
                {"trace": str(self.trace), **options},
            ]
            for name, options in scenario.plugins
        ]
        settings = {**model.settings(scenario.name), **scenario.settings, "plugin": listed}
        self.directory = host.directory(scenario.name, settings)

    # -- what a client does ----------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """Return what the server answers to GET."""
        return self.host.http.get(path, params={"directory": str(self.directory)}).json()

    def post(self, path: str, body: Plain | None = None) -> Any:
        """Return the answer to POST; it is noted where it is a message's or an error's."""
        answer = self.host.http.post(path, params={"directory": str(self.directory)}, json=body or {})
        found = answer.json() if answer.content and "json" in answer.headers.get("content-type", "") else {}
        if answer.status_code >= 400:
            self.answers.append({"refused": answer.status_code})
        elif isinstance(found, dict) and "info" in found:
            self.answers.append(_answer(found))
        return found

    def session(self, title: str | None = "named") -> str:
        """Make a session; with a title, so that no call for one is made."""
        body = {} if title is None else {"title": title}
        self.sessions.append(self.post("/session", body)["id"])
        return self.sessions[-1]

    def prompt(self, text: str = "hi", path: str = "message", **body: Any) -> Any:
        """Prompt the newest session, or a first one."""
        session = self.sessions[-1] if self.sessions else self.session()
        return self.post(f"/session/{session}/{path}", {"parts": [{"type": "text", "text": text}], **body})

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Wait until a condition holds and return what it gives."""
        return wait_until(condition)

    def recorded(self, **wanted: Any) -> Callable[[], Any]:
        """The condition that a plugin has recorded an entry with these fields."""
        return lambda: [one for one in self.entries() if wanted.items() <= one.items()]

    def idle(self) -> bool:
        """Whether no session of the directory works."""
        return not self.get("/session/status")

    def reply(self, reply: str) -> None:
        """Answer the one permission that is asked for."""
        asked = self.wait(lambda: self.get("/permission"))
        told = {name: asked[0][name] for name in ("permission", "patterns", "metadata")}
        # instar says more of a command than opencode.
        told["metadata"].pop("workdir", None)
        self.answers.append({"asked": told})
        self.post(f"/permission/{asked[0]['id']}/reply", {"reply": reply})

    # -- what came of it -------------------------------------------------------------------------------

    def entries(self) -> list[Plain]:
        """What the plugins recorded so far."""
        if not self.trace.exists():
            return []
        return [json.loads(line) for line in self.trace.read_text().splitlines() if line.endswith("}")]

    def requests(self, purpose: str = "turn") -> list[Request]:
        """What the model was sent."""
        return [one for one in self.model.requests[self.name] if one.purpose == purpose]

    def messages(self) -> list[Plain]:
        """The messages of the newest session."""
        found: list[Plain] = self.get(f"/session/{self.sessions[-1]}/message")
        return found

    def found(self, sees: Callable[["Play"], Any] | None) -> Plain:
        """The trace: what plugins recorded, what the client was answered, the calls and what the model read of them."""
        parts = [part for message in self.messages() for part in message["parts"]] if self.sessions else []
        found = {
            "recorded": _once(self.entries()),
            "answers": self.answers,
            "calls": [_call(part) for part in parts if part["type"] == "tool"],
            "read": [] if not self.requests() else _read(self.requests()[-1]),
            "seen": None if sees is None else sees(self),
            "logged": self._logged(),
        }
        text = json.dumps({name: one for name, one in found.items() if one}, sort_keys=True)
        text = text.replace(str(self.directory), "DIRECTORY").replace(str(self.host.folder), "FOLDER")
        masked: Plain = json.loads(_IDS.sub(lambda match: match[1], text))
        return masked

    def _logged(self) -> bool:
        """Whether the log names one of the plugins as one that failed."""
        named = re.compile(rf"(plugins/|plugin=)({'|'.join(self.files)})\b")
        return any(
            named.search(line) and re.search("fail|error|skipped", line, re.I) for line in self.host.log
        )


@dataclass
class Scenario:
    """A short session with plugins: their names with their options, what the model says, and what is done and seen."""

    name: str
    answers: Sequence[Plain] = ({"text": "Done."},)
    play: Callable[[Play], Any] = Play.prompt
    sees: Callable[[Play], Any] | None = None
    settings: Plain = field(default_factory=dict)
    plugins: Sequence[tuple[str, Plain]] = ()

    def __post_init__(self) -> None:
        self.plugins = self.plugins or [(self.name, {})]

    def trace(self, host: Host, model: Model, suffixes: Mapping[str, str]) -> Plain:
        """Play it on a host and return its trace. `suffixes` are the plugins' files', ``*`` that of the others."""
        play = Play(host, model, self, suffixes)
        self.play(play)
        return play.found(self.sees)


def _answer(message: Plain) -> Plain:
    info = message["info"]
    text = [part["text"] for part in message["parts"] if part["type"] == "text"]
    error = (info.get("error") or {}).get("name")
    return {name: one for name, one in {"role": info["role"], "text": text, "error": error}.items() if one}


def _once(entries: list[Plain]) -> list[Plain]:
    """Entries, of several events in a row that say the same only one: how often a state is told is a matter of time."""
    return [
        one
        for before, one in zip([None, *entries], entries, strict=False)
        if one != before or "event" not in one
    ]


def _call(part: Plain) -> Plain:
    state = part["state"]
    files = [
        {name: one.get(name) for name in ("mime", "filename", "url")}
        for one in state.get("attachments") or ()
    ]
    own = {name: state.get(name) for name in ("status", "input", "output", "title", "error")}
    given = (state.get("metadata") or {}).items()
    metadata = {name: one for name, one in given if name not in _BASH and (name, one) != ("truncated", False)}
    if own["title"] in (state["input"].get("command"), state["input"].get("description")):
        own["title"] = None
    own["error"] = _short(own["error"])
    told = {"tool": part["tool"], **own, "metadata": metadata, "files": files}
    if len(str(told["output"] or "")) > 500:
        told["output"] = "long"
    return {name: one for name, one in told.items() if one}


_BASH = ("output", "exit", "description", "outputPath")
"""Metadata that is not a matter of plugins: those of the tool bash, and where a long output lies."""


def _read(request: Request) -> list[str]:
    """What the model read of tools' results."""
    read = [str(one["content"]) for one in request.body["messages"] if one["role"] == "tool"]
    return ["long" if len(text := _short(one) or "") > 500 else text for one in read]


def _short(text: str | None) -> str | None:
    """A text without the rules that denied a call: each program writes them out in its own way."""
    return text and re.sub(r"(from using this specific tool call).*", r"\1", text)


def write(path: Path, traces: Mapping[str, Plain]) -> None:
    """Write traces as they are kept: a line for each leaf, so that a change can be read."""
    path.write_text(json.dumps(dict(traces), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
