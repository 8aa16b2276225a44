"""A room that shows itself to the tool, with secrets planted where nobody may see them, and a caller of the tool."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from instar.plugin import Ask, Branch, Method, Registry, Tool, ToolResult, Value, View
from instar.plugins.self.access import Access, TreeChange
from instar.plugins.self.state import SelfSession, SelfSessions
from instar.plugins.self.tool import self_tool
from instar.plugins.self.tree import SelfTree
from instar.wire.secret import Secret

PLANTED = "sk-PLANTED-0123456789"
"""A secret that the room knows by its value."""
HELD = "sk-HELD-9876543210"
"""A secret that stands in a `Secret`."""
NAMED = "hunter2-by-its-name"
"""A secret that only its key gives away."""
SECRETS = (PLANTED, HELD, NAMED)
DEFAULTS: Mapping[str, Any] = {
    "max_iterations": 40,
    "context_window_tokens": 65536,
    "model": "anthropic/claude-sonnet-4-20250514",
    "provider_retry_mode": "standard",
    "options": {"a": [1, {"b": 2}], "api_key": NAMED},
}


class Room:
    """Values of each session, sub-agents, and a guard."""

    def __init__(self) -> None:
        self.set: dict[str, dict[str, Any]] = {}
        self.defaults = dict(DEFAULTS)
        self.running = {"a1b2c3": {"session": "weixin:user123"}, "d4e5f6": {"session": "weixin:user123"}}
        self.web = True
        self.refused = ""
        self.cancelled: list[str] = []

    def value(self, session: str, name: str) -> Any:
        return self.set.get(session, {}).get(name, self.defaults[name])

    def put(self, session: str, name: str, value: Any) -> None:
        if name == self.refused:
            raise ValueError(f"no {name} with {PLANTED}")
        self.set.setdefault(session, {})[name] = value

    def parameter(self, name: str, **kind: Any) -> Value:
        return Value(
            doc=f"The {name}.",
            kind=kind,
            read=lambda session: self.value(session, name),
            write=lambda session, value: self.put(session, name, value),
            default=lambda session: self.defaults[name],
        )

    def tighten(self, session: str, value: Any) -> None:
        self.web = value

    def count(self, session: str, args: Mapping[str, Any]) -> int:
        return len(self.running) - 2 if session == "idle" else len(self.running)

    async def cancel(self, session: str, args: Mapping[str, Any]) -> int:
        self.cancelled.append(args["session_key"])
        await asyncio.sleep(0)
        return 2

    def views(self) -> list[View]:
        modes = {"type": "string", "enum": ["standard", "persistent"]}
        top = {name: self.parameter(name) for name in ("max_iterations", "context_window_tokens", "model")}
        top["provider_retry_mode"] = self.parameter("provider_retry_mode", **modes)
        top["options"] = self.parameter("options", type="object")
        return [
            View("parameters", "What may be set.", top, path=""),
            View("subagents", "The sub-agents.", self.subagents()),
            View("context", "What is sent.", {"build_system_prompt": prompt()}),
            View("web_config", "The web.", {"enable": self.guard(), "search": search()}),
            View("odd", "What rooms get wrong.", odd()),
        ]

    def guard(self) -> Value:
        return Value(
            doc="Whether the web may be used.",
            kind={"type": "boolean"},
            read=lambda session: self.web,
            write=self.tighten,
            default=lambda session: True,
            scope="instance",
            guard="tighten",
            tighter=lambda old, new: old or not new,
        )

    def subagents(self) -> dict[str, Any]:
        key = {
            "type": "object",
            "properties": {"session_key": {"type": "string"}},
            "required": ["session_key"],
        }
        return {
            "_running_tasks": Value(
                doc="Those that run.", read=lambda session: self.running, counted="running"
            ),
            "get_running_count": Method(doc="How many run.", run=self.count),
            "cancel_by_session": Method(doc="Ends them.", parameters=key, run=self.cancel, acts=True),
        }

    def declare(self, registry: Registry) -> None:
        # It stands in for the rooms of the core, which hold the same paths.
        registry.views.clear()
        for view in self.views():
            registry.add_view(view)


def prompt() -> Method:
    return Method(doc="The system prompt.", run=lambda session, args: f"You are 'helpful'.\nKey: {PLANTED}")


def search() -> Branch:
    key = Value(doc="The key.", read=lambda session: Secret(HELD))
    named = Value(doc="Another.", read=lambda session: {"password": NAMED, "list": [Secret(HELD), PLANTED]})
    return Branch(
        "Where it looks.", {"api_key": key, "more": named, "provider": Value(doc="Who.", read=lambda s: "x")}
    )


class Talkative:
    """An object that would tell everything."""

    secret = PLANTED

    def __repr__(self) -> str:
        return PLANTED


async def hang(session: str, args: Any = None) -> None:
    await asyncio.Event().wait()


async def stubborn(session: str, args: Any) -> None:
    """Swallows the first cancelling; the second one, of the loop that ends, ends it."""
    for _ in range(2):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


def fail(session: str, args: Any = None) -> None:
    raise RuntimeError(f"it broke with {PLANTED}")


def refuse(session: str, args: Any) -> None:
    raise ValueError("there is no such session")


async def cancelled(session: str, args: Any) -> None:
    raise asyncio.CancelledError


def odd() -> dict[str, Any]:
    return {
        "object": Value(doc="No data.", read=lambda session: Talkative()),
        "fails": Value(doc="Fails.", read=fail),
        "nested": Value(doc="Cyclic.", read=lambda session: cyclic()),
        "list": Value(doc="Long.", read=lambda session: list(range(50))),
        "map": Value(doc="Long.", read=lambda session: {f"k{one}": one for one in range(50)}),
        "keys": Value(doc="Secrets as keys.", read=lambda session: {PLANTED: {f"by {PLANTED}": 1}}),
        "fails_too": Method(doc="Fails.", run=fail),
        "refuses": Method(doc="Refuses.", run=refuse),
        "hangs": Method(doc="Hangs.", run=hang, timeout=0.05),
        "stubborn": Method(doc="Will not end.", run=stubborn, timeout=0.05),
        "cancelled": Method(doc="Cancels itself.", run=cancelled),
        "huge": Method(doc="A megabyte.", run=lambda session, args: "x" * 1_000_000),
        "leaks": Method(doc="An object.", run=lambda session, args: Talkative()),
        "nothing": Method(doc="Nothing.", run=lambda session, args: None),
        "thread": Method(doc="Slow.", run=lambda session, args: "from a thread", blocking=True),
        "writes": Method(doc="Writes.", run=lambda session, args: 1, acts=True, writes=True),
        "echo": Method(
            doc="Says it again.",
            parameters={"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}},
            run=lambda session, args: args,
        ),
    }


def cyclic() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


class Asked:
    """What the tool is given when it runs, as much of it as it may use."""

    def __init__(self, session_id: str, tools: Mapping[str, Tool]) -> None:
        self.session_id, self.call_id = session_id, "call_1"
        self._tools = tools

    async def tools(self) -> Mapping[str, Tool]:
        return self._tools

    async def ask(self, ask: Ask) -> None:
        """Everything is allowed."""


class House:
    """The tool over a room, for one line a call."""

    def __init__(self, room: Room | None = None) -> None:
        self.room = room or Room()
        self.sessions = SelfSessions(SelfSession)
        self.told: list[TreeChange] = []
        self.views = self.room.views()
        one = Tool("Search the web.\nMore.", {}, self._never, aliases=("websearch",))
        self.tools = {"read_file": Tool("Read a file " * 20, {}, self._never), "web_search": one}
        self.access = Access(self.tree, self.sessions, lambda: [Secret(PLANTED)], self._tell)
        self.tool = self_tool(self.access, ["model"])

    def tree(self) -> SelfTree:
        return SelfTree(self.views)

    async def _tell(self, change: TreeChange) -> None:
        self.told.append(change)

    async def _never(self, args: Any, context: Any) -> str:
        raise AssertionError("no tool of these is called")

    async def says(self, session: str = "s", /, **args: Any) -> str:
        """What the tool answers."""
        context: Any = Asked(session, self.tools)
        result = await self.tool.execute(args, context)
        assert isinstance(result, ToolResult)
        return result.output


def nothing() -> SimpleNamespace:
    """An object without meaning."""
    return SimpleNamespace(secret=PLANTED)
