"""The tool `self`: its schema, and the answer to a call.

Whatever is wrong with a call is an answer that the model reads. Only a permission that is refused is raised.
"""

import logging
from collections.abc import Sequence
from typing import Final

from instar.plugin import PermissionDenied, Tool, ToolContext, ToolResult, wire
from instar.plugins.self.access import Access
from instar.plugins.self.actions import ACTIONS, SelfCall, bare, permissions
from instar.plugins.self.messages import DESCRIPTION, Refusal, cut

log = logging.getLogger("instar.self")

SCHEMA: Final[wire.Plain] = {
    "type": "object",
    "properties": {
        # No `enum`: the tool itself answers an unknown action, in nanobot's words.
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


class SelfTool:
    """The tool on one instance. `top` are the names at the top of the tree, which its description lists."""

    def __init__(self, access: Access, top: Sequence[str]) -> None:
        self._access = access
        self._description = f"{DESCRIPTION}\n\nAt the top: {', '.join(top)}." if top else DESCRIPTION

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
        """Return the answer to a call, also where it cannot be done. Raises `PermissionDenied`."""
        given = args if isinstance(args, dict) else {}
        action = given.get("action")
        known = ACTIONS.get(action) if isinstance(action, str) else None
        if known is None:
            return _result(action, f"Unknown action: {bare(action)}")
        try:
            return _result(action, await known(SelfCall(self._access, context, given)))
        except PermissionDenied:
            raise
        except Refusal as refusal:
            return _result(action, str(refusal))
        except Exception as error:
            # Without a traceback, which might hold a secret.
            why = self._access.said(error)
            log.error("action failed action=%s session=%s error=%s", action, context.session_id, why)
            return _result(action, cut(f"Error: {why}"))


def _result(action: object, answer: str) -> ToolResult:
    """Return an answer with a title for people: a change's first line, else the action."""
    changes = action in ("modify", "reset", "manage_tool", "restore")
    title = cut(answer.partition("\n")[0], 120) if changes else str(action)[:40]
    return ToolResult(answer, title=title, truncate=False)
