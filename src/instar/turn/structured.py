"""Structured output: a prompt with ``format: {"type": "json_schema"}`` is answered by an object of that schema.

The model gives it by calling a tool whose parameters are the schema, and is asked to call one (opencode
1.18's `StructuredOutput`). An answer that misses is tried again `retryCount` times, once by default;
then the answer carries a `StructuredOutputError`.
"""

from typing import Final

import msgspec

from instar.message import (
    Assistant,
    StructuredData,
    StructuredOutputError,
    ToolCompleted,
    ToolPart,
    User,
    WithParts,
)
from instar.plugin import Invalid, Tool, ToolContext, ToolResult
from instar.provider.protocol import Finish
from instar.tool.call import problems
from instar.wire import Plain

NAME: Final = "StructuredOutput"
SYSTEM: Final = (
    f"This message wants its answer as data. When you know it, call the tool {NAME} once, with the whole answer "
    "as its arguments; that call is your final answer, and nothing else that you write is read."
)
AGAIN: Final = f"Your answer was not given as data. Call the tool {NAME} with it now."
_RETRIES: Final = 1
_DONE: Final = "The answer was taken."


def check(wanted: Plain | None) -> None:
    """Raise `Invalid` for a prompt's `format` that is neither text nor a schema of an object."""
    if wanted is None or wanted == {"type": "text"}:
        return
    kind = wanted.get("type")
    if kind != "json_schema":
        raise Invalid(f"format.type may be text or json_schema, not {kind!r}")
    schema = wanted.get("schema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise Invalid('format.schema must be a JSON Schema of an object: {"type": "object", "properties": …}')
    retries = wanted.get("retryCount", _RETRIES)
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise Invalid(f"format.retryCount must be a whole number from 0 on, not {retries!r}")
    # A schema that breaks the check would fail every answer: found out before anything is saved.
    try:
        problems({}, schema)
    except Exception as error:
        raise Invalid(f"format.schema cannot be checked against: {type(error).__name__}: {error}") from error


def is_wanted(asked: User) -> bool:
    """Whether a message wants its answer as data."""
    return (asked.format or {}).get("type") == "json_schema"


def tool(asked: User) -> Tool:
    """Return the tool by which the answer to `asked` is given. It needs nobody's permission."""
    schema = (asked.format or {}).get("schema") or {}
    parameters = {name: value for name, value in schema.items() if name != "$schema"}
    return Tool(
        description="Gives your final answer, as data of the form that was asked for.",
        parameters={"type": "object", **parameters},
        execute=_taken,
        permissions=lambda _args, _context: [],
        repeatable=True,
    )


def is_missing(asked: User, info: Assistant) -> bool:
    """Whether an answer ended without the data that its message wants, so that it does not settle it."""
    return (
        is_wanted(asked)
        and info.structured is None
        and info.error is None
        and not info.summary
        and info.finish not in (None, "tool-calls")
    )


def take(asked: User, history: list[WithParts], holder: WithParts, finish: Finish) -> Finish:
    """Note in an answer the data that it gave, or that the last try missed; return how its step ended."""
    answer = holder.info
    assert isinstance(answer, Assistant)
    if not is_wanted(asked):
        return finish
    for part in _calls(holder):
        if isinstance(part.state, ToolCompleted):
            answer.structured = part.state.input
            return msgspec.structs.replace(finish, reason="stop")
    retries = int((asked.format or {}).get("retryCount", _RETRIES))
    missed = [m for m in history if m is not holder and _has_missed(asked, m)]
    if (_calls(holder) or finish.reason != "tool-calls") and len(missed) >= retries:
        text = f"The model did not answer in the form that was asked for: {_why(holder)}"
        answer.error = StructuredOutputError(data=StructuredData(message=text, retries=len(missed)))
    return finish


async def _taken(args: Plain, context: ToolContext) -> ToolResult:
    return ToolResult(output=_DONE, title=NAME)


def _calls(holder: WithParts) -> list[ToolPart]:
    return [part for part in holder.parts if isinstance(part, ToolPart) and part.tool == NAME]


def _has_missed(asked: User, message: WithParts) -> bool:
    info = message.info
    if not isinstance(info, Assistant) or info.parent_id != asked.id or info.error is not None:
        return False
    return is_missing(asked, info) or bool(_calls(message))


def _why(holder: WithParts) -> str:
    errors = [getattr(part.state, "error", "") for part in _calls(holder)]
    return errors[-1] if errors else f"it ended without calling {NAME}"
