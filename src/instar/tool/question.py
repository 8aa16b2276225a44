"""The `question` tool: asks the person, with answers to choose from."""

from typing import Final

import msgspec

from instar.api.session import Invalid
from instar.event import AskedBy, Question
from instar.plugin.tool import PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, parameters
from instar.wire import Plain

PARAMETERS: Final[Plain] = parameters(
    {
        "questions": {
            "type": "array",
            "description": "The questions, asked together",
            "items": parameters(
                {
                    "question": "The whole question",
                    "header": "A label of a few words",
                    "options": {
                        "type": "array",
                        "description": "The answers to choose from",
                        "items": parameters(
                            {
                                "label": "The answer in one to five words",
                                "description": "What choosing it means",
                            }
                        ),
                    },
                },
                {"multiple": {"type": "boolean", "description": "Whether several may be chosen"}},
            ),
        }
    }
)


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Ask and wait. Raises `ToolFailure` when nobody can answer, `PermissionDenied` when nobody would."""
    questions = msgspec.convert(args["questions"], list[Question], strict=True)
    caller = AskedBy(message_id=ctx.message_id, call_id=ctx.call_id)
    try:
        answers = await ctx.client.question.ask(ctx.session_id, questions, caller)
    except Invalid as error:
        raise ToolFailure(f"The question was not asked: {error}.") from None
    if answers is None:
        raise PermissionDenied("The user dismissed this question.", stop=True)
    lines = [
        f"{question.question} {', '.join(labels) or '(no answer)'}"
        for question, labels in zip(questions, answers, strict=True)
    ]
    count = len(questions)
    title = f"Asked {count} question{'' if count == 1 else 's'}"
    return ToolResult("\n".join(["The person answered:", *lines]), title, {"answers": answers})


TOOL: Final = Tool(description("question"), PARAMETERS, execute)
