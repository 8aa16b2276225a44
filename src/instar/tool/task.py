"""The `task` tool: hands work to a sub-agent in a session of its own."""

from collections.abc import Sequence
from typing import Final

from instar.api.session import Invalid, NotFound
from instar.message import Session, SubtaskPart
from instar.plugin.client import Done, Task
from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, parameters
from instar.wire import Plain

PARAMETERS: Final[Plain] = parameters(
    {
        "description": "The task in three to five words",
        "prompt": "All that the sub-agent needs to know and do",
        "subagent_type": "The sub-agent's name, as the list has it",
    },
    {
        "task_id": "An earlier task's id, to go on with it: the sub-agent remembers what it did",
        "command": "The command that this task comes from, if any",
        "background": {
            "type": "boolean",
            "description": "Do not wait for it: you go on, and its answer comes in a message of its own",
        },
    },
)


def tool(subagents: Sequence[tuple[str, str]]) -> Tool:
    """Return the tool for these sub-agents (name, description); their list is part of its description."""
    described = description("task")
    listed = "\n".join(f"- {name}: {' '.join(about.split())}" for name, about in subagents)
    return Tool(f"{described}\n\nThe sub-agents:\n{listed}", PARAMETERS, execute, permissions)


def permissions(args: Plain, ctx: ToolContext) -> Sequence[Ask]:
    """Return what the task needs: `task` on the sub-agent's name."""
    name = args["subagent_type"]
    return [Ask("task", [name], [name], {"description": args["description"], "subagent_type": name})]


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Run the sub-agent. Raises `ToolFailure` for an unknown agent or task."""
    command = _by_command(ctx)
    task = Task(
        session_id=ctx.session_id,
        message_id=ctx.message_id,
        caller=ctx.agent,
        agent=args["subagent_type"],
        description=args["description"],
        prompt=args["prompt"],
        task_id=args.get("task_id"),
        by_person=command is not None,
        model=command.model if command else None,
        background=bool(args.get("background")),
    )

    shown: Plain = {"parentSessionId": ctx.session_id}

    def started(session: Session) -> None:
        shown["sessionId"] = session.id
        if session.model is not None:
            shown["model"] = {"modelID": session.model.id, "providerID": session.model.provider_id}
        ctx.metadata(title=args["description"], metadata=dict(shown))

    try:
        done = await ctx.client.session.task(task, started)
    except (Invalid, NotFound) as error:
        raise ToolFailure(f"The task was not begun: {error}.") from None
    return ToolResult(text(done), args["description"], {**shown, "sessionId": done.session_id})


def text(done: Done) -> str:
    """Return what the model reads of a sub-agent's end, or that it works."""
    state = "running" if done.running else "completed" if done.error is None else "error"
    lines = [f'<task id="{done.session_id}" state="{state}">']
    if done.error is not None:
        lines += ["<task_error>", done.error, "</task_error>"]
    return "\n".join([*lines, "<task_result>", done.text, "</task_result>", "</task>"])


def _by_command(ctx: ToolContext) -> SubtaskPart | None:
    """The part of a person's prompt that this call carries out, if it is one."""
    for message in reversed(ctx.messages):
        for part in message.parts:
            if isinstance(part, SubtaskPart) and part.call_id == ctx.call_id:
                return part
    return None
