"""A plugin in Python as a person writes one, for a real opencode: a tool, a gate, a turn's end and what it noted."""

import asyncio
import os
from pathlib import Path

from instar.plugin import Ask, Tool, ToolResult

_FOLDER = [Path()]
_HOST = [""]
_SCHEMA = {
    "type": "object",
    "properties": {"who": {"type": "string"}, "loud": {"type": "boolean"}},
    "required": ["who"],
}


def _note(text):
    with (_FOLDER[0] / "notes").open("a") as file:
        print(text, file=file)


async def _greet(args, context):
    await context.ask(Ask("greeting", [args["who"]], [args["who"]], {"why": "politeness"}))
    context.metadata(title="thinking", metadata={"mood": "good"})
    session = await context.client.session.get(context.session_id)
    text = f"Hello, {args['who']}! {len(context.messages)} messages, session {session.id}"
    return ToolResult(output=text, title="greeted", metadata={"host": _HOST[0]})


async def _before(given, output):
    if output.args.get("command") == "hang":
        (_FOLDER[0] / "pid").write_text(str(os.getpid()))
        await asyncio.Event().wait()


async def _system(given, output):
    output.system.append(f"The bridge speaks, for a {given.purpose}.")


async def _ended(given, output):
    if given.continued == 0 and any("again" in getattr(part, "text", "") for part in given.parts):
        prompt = {"parts": [{"type": "text", "text": "And once more.", "synthetic": True}]}
        output.follow_ups.append({"source": "bridged", "prompt": prompt})


async def _failed(given, output):
    output.error += " The plugin is sorry."


async def _step(given, output):
    _note(f"step.before {given.session_id} {given.step}")


async def _compacted(given, output):
    _note(f"compaction.after {given.session_id} {given.auto}")


async def _sub_agent(given, output):
    _note(f"subagent.start {given.description} {given.agent}")
    output.context.append("Be exact.")


async def _reports(given, output):
    if given.continued == 0:
        output.prompt = "Are you sure?"


async def _started(given, output):
    _note(f"session.start {given.session_id} {given.source}")


async def bridged(input, options=None):  # noqa: A002 - opencode's name
    """Offer all of it."""
    # What is loaded is the accepted copy: it keeps nothing beside itself.
    _FOLDER[0] = Path(input.directory)
    _HOST[0] = f"{input.host.name} {input.host.version}"
    return {
        "tool": {"py_greet": Tool("Greets somebody.", _SCHEMA, _greet)},
        "tool.execute.before": _before,
        "tool.execute.failure": _failed,
        "experimental.chat.system.transform": _system,
        "step.before": _step,
        "turn.end": _ended,
        "compaction.after": _compacted,
        "subagent.start": _sub_agent,
        "subagent.stop": _reports,
        "session.start": _started,
    }
