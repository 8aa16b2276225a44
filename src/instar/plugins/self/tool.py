"""The tool `self`: its schema, what is asked before a call, and its actions (seed 001).

Whatever is wrong with a call is an answer that the model reads; only a permission that is not given is raised.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from instar.plugin import Ask, PermissionDenied, Tool, ToolContext, ToolResult, wire
from instar.plugins.self import blocked, calling, changing, looking, path, profile, words
from instar.plugins.self.access import Access, Caller
from instar.plugins.self.refusal import Refusal

log = logging.getLogger("instar.self")

ACTIONS: Final = (
    *("inspect", "modify", "call", "list_tools", "manage_tool"),
    *("snapshot", "restore", "list_snapshots", "reset"),
)
"""What the tool does (seed 001)."""
DESCRIPTION: Final = """\
Look at your own runtime and tune it. Everything is in memory only and for this session.

- inspect: without a key the parameters; with a dot-path as key (max_iterations, tools) what stands there.
- modify: set key to value; a new key keeps a value of your own.
- reset: give key its default again, or forget a value of your own.
- call: call a method by its dot-path, with args.
- list_tools: the tools that you have now.
- manage_tool: manage_action unregister takes the tool called name away, register gives it back.
- snapshot, restore, list_snapshots: keep the parameters and your own values under a name, and set them all again."""
SCHEMA: Final[wire.Plain] = {
    "type": "object",
    "properties": {
        # No `enum`: an action that is none gets the seed's answer.
        "action": {"type": "string", "description": f"One of {', '.join(ACTIONS)}."},
        "key": {"type": "string", "description": "A dot-path (inspect, modify, reset)."},
        "value": {"description": "The new value, any JSON (modify)."},
        "method": {"type": "string", "description": "The dot-path of a method (call)."},
        "args": {"type": "object", "description": "The method's arguments by name (call)."},
        "name": {"type": "string", "description": "A tool (manage_tool) or a snapshot (snapshot, restore)."},
        "persist": {
            "type": "boolean",
            "description": "Keep it in the evolve workspace too, for instar run --profile (snapshot).",
        },
        "manage_action": {"type": "string", "description": "register or unregister (manage_tool)."},
    },
    "required": ["action"],
    "additionalProperties": False,
}

Action = Callable[[Caller, wire.Plain, ToolContext], Awaitable[str]]


class SelfTool:
    """The tool on one instance. `top` are the names at the top of the tree, which its description tells."""

    def __init__(self, access: Access, top: Sequence[str]) -> None:
        self._access = access
        self._description = f"{DESCRIPTION}\n\nAt the top: {', '.join(top)}." if top else DESCRIPTION
        self._actions: Mapping[str, Action] = {
            "inspect": self._inspect,
            "modify": self._modify,
            "reset": self._reset,
            "call": self._call,
            "list_tools": self._list_tools,
            "manage_tool": self._manage_tool,
            "snapshot": self._snapshot,
            "restore": self._restore,
            "list_snapshots": self._list_snapshots,
        }

    def tool(self) -> Tool:
        """Return the tool as the model is offered it."""
        return Tool(
            description=self._description,
            parameters=SCHEMA,
            execute=self.execute,
            permissions=permissions,
            repeatable=True,
        )

    async def execute(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        """Do what a call asks for. What cannot be done is said. Raises `PermissionDenied`."""
        given = args if isinstance(args, dict) else {}
        action = given.get("action")
        caller = Caller(context.session_id, context.call_id)
        try:
            known = self._actions.get(action) if isinstance(action, str) else None
            said = words.unknown_action(action) if known is None else await known(caller, given, context)
        except Refusal as refusal:
            said = str(refusal)
        except PermissionDenied:
            raise
        except Exception as error:
            # Without a traceback, which might hold what nobody may see.
            why = self._access.said(error)
            log.error(
                "action failed action=%s session=%s error=%s", str(action)[:40], context.session_id, why
            )
            said = words.cut(words.error(why))
        return ToolResult(said, title=_title(given, said), truncate=False)

    async def _inspect(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        return await looking.inspect(self._access, caller, args.get("key"))

    async def _modify(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        if "value" not in args:
            path.parse("key", args.get("key"))
            return words.error("'value' is required to modify a key")
        async with self._access.states.of(caller.session_id).changing:
            return await changing.modify(self._access, caller, args.get("key"), args["value"])

    async def _reset(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        async with self._access.states.of(caller.session_id).changing:
            return await changing.reset(self._access, caller, args.get("key"))

    async def _call(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        return await calling.call(self._access, caller, args.get("method"), args.get("args"))

    async def _list_tools(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        return looking.tools(self._access, caller, await context.tools(), DESCRIPTION)

    async def _manage_tool(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        offered = await context.tools()
        name = args.get("name")
        if isinstance(name, str) and (own := changing.registered(name, offered)) != name:
            # Which tool an alias means is known only here: a rule about its name holds for this call too.
            for ask in permissions({**args, "name": own}, context):
                await context.ask(ask)
        return await changing.manage_tool(self._access, caller, name, args.get("manage_action"), offered)

    async def _snapshot(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        return await profile.snapshot(self._access, caller, args.get("name"), args.get("persist"))

    async def _restore(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        async with self._access.states.of(caller.session_id).changing:
            return await changing.restore(self._access, caller, args.get("name"))

    async def _list_snapshots(self, caller: Caller, args: wire.Plain, context: ToolContext) -> str:
        return words.snapshots(self._access.states.of(caller.session_id).snapshots.names)


def permissions(args: wire.Plain, context: ToolContext) -> list[Ask]:
    """Return what a call needs: the permission ``self`` for its action and what it is about, as ``modify model``."""
    action = args.get("action")
    if action not in ACTIONS:
        return [Ask(blocked.ITSELF, ["unknown"], [], {})]
    if action == "snapshot" and args.get("persist"):
        # It writes a file: a rule of its own may ask about it.
        return [Ask(blocked.ITSELF, [_PERSIST], [_PERSIST], {"action": action})]
    about = args.get("method" if action == "call" else "name" if action == "manage_tool" else "key")
    sound = isinstance(about, str) and 0 < len(about) <= path.LONGEST and path.is_plain(about)
    pattern = f"{action} {about}" if sound and action not in _WHOLE else str(action)
    # A name with a wildcard in it would allow others for always.
    always = [] if any(one in pattern for one in "*?") else [pattern]
    # What persist does can be called too: a rule about it holds for both.
    more = [_PERSIST] if action == "call" and about == ".".join(profile.KEEP) else []
    return [Ask(blocked.ITSELF, [pattern, *more], [*always, *more], {"action": action})]


_PERSIST: Final = "snapshot persist"
_WHOLE: Final = ("list_tools", "snapshot", "restore", "list_snapshots")
"""Actions that are about nothing in particular."""


def _title(args: wire.Plain, said: str) -> str:
    """One line for people: what was asked, and what a change came to."""
    first = said.partition("\n")[0]
    action: Any = args.get("action")
    return (
        words.cut(first, 120) if action in ("modify", "reset", "manage_tool", "restore") else str(action)[:40]
    )
