"""The `todowrite` and `todoread` tools: the session's list of things to do."""

from collections.abc import Sequence
from typing import Final

from instar import wire
from instar.event import Todo
from instar.plugin.tool import Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, parameters
from instar.wire import Plain

MOST: Final = 200
"""Entries of one list."""

WRITE: Final[Plain] = parameters(
    {
        "todos": {
            "type": "array",
            "description": "The whole list, in order; it replaces the one there was",
            "items": parameters(
                {
                    "content": "What is to be done, in a few words",
                    "status": "pending, in_progress, completed or cancelled",
                    "priority": "high, medium or low",
                }
            ),
        }
    }
)
READ: Final[Plain] = parameters({})


async def write(args: Plain, ctx: ToolContext) -> ToolResult:
    """Replace the list. Raises `ToolFailure` when it is too long."""
    if len(args["todos"]) > MOST:
        raise ToolFailure(f"A list holds at most {MOST} entries, not {len(args['todos'])}.")
    keys = ("content", "status", "priority")
    todos = [Todo(**{key: entry[key] for key in keys}) for entry in args["todos"]]
    await ctx.client.session.put_todos(ctx.session_id, todos)
    return _shown(todos)


async def read(args: Plain, ctx: ToolContext) -> ToolResult:
    """Return the list."""
    return _shown(await ctx.client.session.todos(ctx.session_id))


def _shown(todos: Sequence[Todo]) -> ToolResult:
    plain = [wire.to_plain(todo) for todo in todos]
    left = sum(todo.status not in ("completed", "cancelled") for todo in todos)
    text = wire.encode(plain).decode()
    return ToolResult(text, f"{left} todo{'' if left == 1 else 's'}", {"todos": plain})


TODOWRITE: Final = Tool(description("todowrite"), WRITE, write)
TODOREAD: Final = Tool(description("todoread"), READ, read, idempotent=True)
