"""What the tests of a turn share: a machine of its own with a project, a scripted model and real runtimes.

Use it with ``pytest_plugins = ["tests.turn"]``. Tests import it before pytest does: PYTEST_DONT_REWRITE.
"""

import asyncio
import json
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from instar.approval.permissions import Person
from instar.event import Event
from instar.message import Assistant, ToolPart, User, WithParts, text_of
from instar.plugin import PromptBody, SessionBody
from instar.runtime import Options, Runtime
from instar.session.state import SessionState
from instar.settings.load import code_in
from instar.settings.paths import Paths
from instar.settings.trust import Trust


class Door:
    """An open runtime: what a client may ask of it, in one line each, and all that it published."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.client = runtime.session
        self.heard: list[Event] = []
        runtime.instance.bus.observe(self.heard.append)

    async def session(self, title: str | None = "named", **body: Any) -> str:
        """Make a session; it has a title, so that no call for one is made, unless a test wants that."""
        return (await self.client.create(SessionBody(title=title, **body))).id

    async def ask(self, session_id: str, text: str, **fields: Any) -> WithParts:
        """Prompt and return the answer."""
        prompt = self.client.prompt(session_id, PromptBody.text(text, **fields))
        found = await asyncio.wait_for(prompt, PATIENCE)
        assert isinstance(found.info, Assistant), f"nobody answered {text_of(found)!r}"
        return found

    async def start(self, session_id: str, text: str, **fields: Any) -> None:
        await self.client.prompt_async(session_id, PromptBody.text(text, **fields))

    async def idle(self, session_id: str) -> None:
        await asyncio.wait_for(self.runtime.turns.wait(await self.live(session_id)), PATIENCE)

    async def live(self, session_id: str) -> SessionState:
        return await self.runtime.instance.sessions.open(session_id)

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the first event that is wanted, whether it was published or will be."""
        found: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

        def look(event: Event) -> None:
            if not found.done() and wanted(event):
                found.set_result(event)

        for event in self.heard:
            look(event)
        stop = self.runtime.instance.bus.observe(look)
        try:
            return await asyncio.wait_for(found, PATIENCE)
        finally:
            stop()

    async def running(self, tool: str = "bash") -> ToolPart:
        """Wait until a call of `tool` runs and return its part as it was then published."""
        event = await self.until(lambda event: _is_running(event, tool))
        part = event.properties.part  # type: ignore[attr-defined]
        assert isinstance(part, ToolPart)
        return part

    def plugin(self, hooks: Mapping[str, Any], name: str = "test") -> None:
        self.runtime.instance.plugins.add(name, hooks)

    def types(self) -> list[str]:
        return [event.type for event in self.heard]

    def of(self, kind: str) -> list[Any]:
        """The properties of the events of a type."""
        return [event.properties for event in self.heard if event.type == kind]

    async def stored(self, session_id: str) -> list[WithParts]:
        """The session as the database has it."""
        return await self.runtime.instance.store.messages(session_id)


async def reload(door: Door) -> tuple[list[str], list[str]]:
    """Reload, and return what its one event says: what was taken up, and the problems; nothing without an event."""
    before = len(door.of("instance.reloaded"))
    await asyncio.wait_for(door.runtime.reload(), PATIENCE)
    new = door.of("instance.reloaded")[before:]
    assert len(new) <= 1
    return (new[0].what, new[0].problems) if new else ([], [])


class House:
    """A person's machine."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.folder = root / "project"
        self.folder.mkdir()
        self.script = root / "script.txt"
        self.record = root / "record.jsonl"
        self.environment = {
            **environment,
            "INSTAR_SCRIPT": str(self.script),
            "INSTAR_SCRIPT_RECORD": str(self.record),
            "INSTAR_TRUST": "all",
        }
        self.home = Path(environment["XDG_CONFIG_HOME"]) / "instar"
        self.data = Path(environment["XDG_DATA_HOME"]) / "instar"
        self._doors: list[Runtime] = []

    def says(self, text: str) -> None:
        """Write the model's script."""
        self.script.write_text(textwrap.dedent(text), "utf-8")

    def settings(self, **data: Any) -> None:
        """Write the person's configuration."""
        self._put(self.home / "instar.json", json.dumps(data))

    def plugin(self, source: str, name: str = "mine") -> None:
        """Write a plugin of the project."""
        self._put(self.folder / ".instar" / "plugins" / f"{name}.py", textwrap.dedent(source))

    def _put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whole from the first moment on: a runtime that watches would read half of it, and then once more.
        half = self.script.with_name("half-written")
        half.write_text(text, "utf-8")
        half.replace(path)

    def trust(self) -> Trust:
        """Trust the project with all code that is in it, as `instar trust` does, and return the list."""
        paths = Paths.from_environment(self.environment)
        trust = Trust(paths, self.environment)
        trust.add(self.folder, code=code_in(self.folder, paths, self.environment))
        return trust

    async def open(self, *, person: Person | None = None, model: str = "scripted/x") -> Door:
        runtime = await Runtime.open(Options(self.folder, self.environment, {"model": model}, person))
        self._doors.append(runtime)
        return Door(runtime)

    async def close(self) -> None:
        for runtime in self._doors:
            await runtime.close()

    def requests(self, purpose: str = "turn") -> list[dict[str, Any]]:
        """What the model was sent, call after call."""
        if not self.record.exists():
            return []
        lines = [json.loads(line) for line in self.record.read_text("utf-8").splitlines()]
        return [line for line in lines if line["purpose"] == purpose]


@pytest.fixture
async def house(tmp_path: Path, clean_environment: Mapping[str, str]) -> AsyncIterator[House]:
    made = House(tmp_path, clean_environment)
    yield made
    await made.close()


def answer_of(message: WithParts) -> Assistant:
    assert isinstance(message.info, Assistant), message.info
    return message.info


def said(message: WithParts) -> str:
    return text_of(message)


def calls_of(message: WithParts) -> list[ToolPart]:
    return [part for part in message.parts if isinstance(part, ToolPart)]


def results(history: list[WithParts]) -> list[str]:
    """What the model read of every call of a session, in order."""
    return [
        getattr(call.state, "output", None) or getattr(call.state, "error", "")
        for message in history
        for call in calls_of(message)
    ]


def users(history: list[WithParts]) -> list[str]:
    return [text_of(message) for message in history if isinstance(message.info, User)]


def trace(events: list[Event]) -> list[str]:
    """Events as short words, one each, for a snapshot in a test."""
    return [_word(event) for event in events]


TRAILING = ["session.updated", "session.diff", "message user"]
"""What follows the first turn's ``session.idle``: what it did to files."""


def _word(event: Event) -> str:
    given = event.to_plain()["properties"]
    if event.type == "message.updated":
        info = given["info"]
        return " ".join(
            ["message", info["role"], info.get("finish") or (info.get("error") or {}).get("name") or ""]
        ).strip()
    if event.type == "message.part.updated":
        part = given["part"]
        state = part.get("state", {}).get("status") or part.get("reason") or part.get("text")
        return f"part {part['type']}" + ("" if state is None else f" {state}")
    if event.type == "message.part.delta":
        return f"delta {given['delta']}"
    if event.type == "session.status":
        return f"status {given['status']['type']}"
    return event.type


def _is_running(event: Event, tool: str) -> bool:
    part = getattr(event.properties, "part", None)
    return isinstance(part, ToolPart) and part.tool == tool and part.state.__struct_config__.tag == "running"
