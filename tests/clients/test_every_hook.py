"""A plugin that uses every hook is given the same in instar and in the real opencode, but for what is listed."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.clients.programs import installed
from tests.conformance import hosts
from tests.conformance.model import Model

Plain = dict[str, Any]

PLUGIN = Path(__file__).with_name("every_hook.ts")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
READS = [("read", {"filePath": name}) for name in ("notes.txt", ".", "x.png")]
ANSWERS: list[Plain] = [
    {"tools": READS},
    {"tools": [("edit", {"filePath": "notes.txt", "oldString": "buy milk", "newString": "buy tea"})]},
    {"tools": [("bash", {"command": "true", "description": "nothing"})]},
    {"tools": [("nosuch", {"a": 1})]},
    {"tools": [("task", {"description": "look", "prompt": "Look.", "subagent_type": "general"})]},
    {"text": "Looked."},
    {"text": "Done."},
]
COMMANDS = {
    "greet": {"template": "Greet $1"},
    "plan": {"template": "Plan $1", "agent": "plan"},
    "look": {"template": "Look.", "subtask": True, "agent": "general"},
}
_PURPOSE = "what the call is for: a turn, a title or a summary"
_SHOWN = "more is said of a call to who shows it"
DIFFERENCES = {
    "chat.params +.input.purpose: str": _PURPOSE,
    "chat.headers +.input.purpose: str": _PURPOSE,
    "experimental.chat.system.transform +.input.purpose: str": _PURPOSE,
    "chat.params +.output.temperature: value": "what is sent where no setting says one",
    "tool.execute.after bash +.output.metadata.description: str": _SHOWN,
    "tool.execute.after invalid +.output.metadata.tool: str": _SHOWN,
    "tool.execute.after read +.output.attachments.[].filename: str": _SHOWN,
    "experimental.chat.messages.transform +.output.messages.[].parts.[].state.metadata.description: str": _SHOWN,
    "experimental.chat.messages.transform +.output.messages.[].parts.[].state.metadata.tool: str": _SHOWN,
    "experimental.chat.messages.transform +.output.messages.[].parts.[].state.attachments.[].filename: str": _SHOWN,
    "plugin -.input.client._client.[]: str": "methods of the client inside the client: they are there, and not listed",
}
"""What instar has more (+) or less (-) of, by the hook and the place, with the reason."""


def traced(host: hosts.Host, model: Model) -> dict[str, set[str]]:
    """Play a session with the plugin; return, by hook, the places in what it was given with the types there."""
    trace = host.folder / "trace"
    given = {**model.settings("one"), "command": COMMANDS, "plugin": [[str(PLUGIN), {"trace": str(trace)}]]}
    directory = host.directory("one", given)
    (directory / "x.png").write_bytes(PIXEL)

    def post(path: str, body: Plain) -> Any:
        answer = host.http.post(path, params={"directory": str(directory)}, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    session = f"/session/{post('/session', {})['id']}"
    post(f"{session}/message", {"parts": [{"type": "text", "text": "Read it."}]})
    for name in COMMANDS:
        post(f"{session}/command", {"command": name, "arguments": "Bob"})
    post(f"{session}/summarize", {"providerID": "fake", "modelID": "m"})
    found: dict[str, set[str]] = {}
    for line in trace.read_text().splitlines():
        entry = json.loads(line)
        hook = entry.pop("hook")
        tool = entry["input"].get("tool") or entry["input"].get("toolID") if "tool" in hook else None
        if hook != "tool.definition":
            found.setdefault(f"{hook} {tool}" if tool else hook, set()).update(places(entry))
    return found


def places(value: Any, at: str = "") -> Iterator[str]:
    """The places of a value, each with the type of what is there."""
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else (("[]", one) for one in value):
            yield from places(one, f"{at}.{name}")
    else:
        yield f"{at}: {'null' if value is None else 'str' if isinstance(value, str) else 'value'}"


def test_every_hook_is_given_what_it_is_given_in_opencode(tmp_path: Path) -> None:
    found = []
    for start in (hosts.opencode, hosts.instar):
        model = Model({"one": ANSWERS})
        (tmp_path / start.__name__).mkdir()
        host = start(tmp_path / start.__name__, installed())
        try:
            found.append(traced(host, model))
        finally:
            host.close()
            model.close()
    real, own = found
    differences = {
        f"{hook} {sign}{place}"
        for hook in {*real, *own}
        for sign, one, other in (("+", own, real), ("-", real, own))
        for place in one.get(hook, set()) - other.get(hook, set())
    }
    assert differences == set(DIFFERENCES)
