"""A scenario through the Python SDK, each of its methods: python sdk_python.py INSTALLED URL PASSWORD FOLDER.

It is run with the folder that pip installed the SDK into on PYTHONPATH, and prints what the scenarios in Node print.
"""

import base64
import inspect
import json
import sys
from typing import Any

from opencode_ai import APIStatusError, Opencode

_, _, url, password, folder = sys.argv
login = base64.b64encode(f"opencode:{password}".encode()).decode()
headers = {"Authorization": f"Basic {login}", "x-opencode-directory": f"{folder}/project"}
client = Opencode(base_url=url, default_headers=headers, max_retries=0, timeout=60)
calls: list[dict[str, Any]] = []


def ask(name: str, *words: Any, **more: Any) -> Any:
    """Call a method and return what the SDK makes of the answer; one that is no JSON is noted as such."""
    room, method = name.split(".")
    try:
        response = getattr(getattr(client, room).with_raw_response, method)(*words, **more)
    except APIStatusError as error:
        calls.append({"name": name, "variant": "", "status": error.status_code, "body": error.body})
        return None
    if "json" not in response.headers.get("content-type", ""):
        calls.append({"name": name, "variant": "", "status": response.status_code, "body": "no JSON"})
        return None
    calls.append(
        {"name": name, "variant": "", "status": response.status_code, "body": json.loads(response.text())}
    )
    return response.parse()


def methods() -> list[str]:
    """Every method of every room of the client."""
    rooms = ("app", "config", "event", "file", "find", "session", "tui")
    return [
        f"{room}.{name}"
        for room in rooms
        for name, _ in inspect.getmembers(type(getattr(client, room)), inspect.isfunction)
        if not name.startswith("_")
    ]


stream = iter(client.event.list())
events = [next(stream).to_dict(warnings=False)]
ask("app.get")
ask("app.init")
ask("app.modes")
ask("app.log", service="test", level="info", message="hello")
ask("app.providers")
ask("config.get")
ask("file.read", path="src")
ask("file.status")
ask("find.files", query="notes")
ask("find.symbols", query="main")
ask("find.text", pattern="milk")

session = ask("session.create").id
part = {"type": "text", "text": "Look at the notes."}
ask("session.chat", session, model_id="m", provider_id="fake", parts=[part])
message = ask("session.messages", session)[0].info.id
ask("session.init", session, message_id="msg_000000000003aaaaaaaaaaaaaa", model_id="m", provider_id="fake")
ask("session.revert", session, message_id=message)
ask("session.unrevert", session)
ask("session.summarize", session, model_id="m", provider_id="fake")
ask("session.abort", session)
ask("session.list")
ask("session.share", session)
ask("session.unshare", session)
ask("session.delete", session)
ask("session.messages", session)
ask("tui.append_prompt", text="hello")
ask("tui.open_help")

while events[-1]["type"] != "session.deleted":
    events.append(next(stream).to_dict(warnings=False))
print(json.dumps({"methods": methods(), "calls": calls, "events": events, "everywhere": []}))
