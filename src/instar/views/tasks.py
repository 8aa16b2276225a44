"""The sub-agents that run for a session, and its tools (seed 001 "Subagent monitoring", "Dynamic tool management")."""

import asyncio
from typing import Any

from instar.live import Live
from instar.plugin import Method, Value, View, wire
from instar.turns import Turns
from instar.views.seen import Seen

_KEY: wire.Plain = {
    "type": "object",
    "properties": {
        "session_key": {"type": "string", "minLength": 1, "description": "The session's id, or a sub-agent's"}
    },
    "required": ["session_key"],
    "additionalProperties": False,
}
_NOTHING: wire.Plain = {"type": "object", "properties": {}, "additionalProperties": False}


def views(seen: Seen, turns: Turns) -> list[View]:
    """Return the views of sub-agents and tools."""
    tasks = Tasks(seen, turns)
    subagents: dict[str, Value | Method] = {
        "_running_tasks": Value(
            doc="Sub-agents of the session that run now, by the id of their own session.",
            read=tasks.running,
            counted="running",
        ),
        "get_running_count": Method(
            doc="How many sub-agents of the session run now.", parameters=_NOTHING, run=tasks.count
        ),
        "cancel_by_session": Method(
            doc="End the sub-agents of this session, or the one whose session it is, and return how many ended.",
            parameters=_KEY,
            run=tasks.cancel,
            acts=True,
        ),
        "available": Value(
            doc="The agents that tasks may be handed to, with what they are for.",
            read=tasks.agents,
            scope="instance",
        ),
    }
    tools = Value(
        doc="The tools that the next step offers, each with the first line of what it does.",
        read=tasks.tools,
        counted="registered",
        when="changed by the action manage_tool, with the next step",
    )
    return [
        View("subagents", "The sub-agents that work for this session.", subagents),
        View("tools", "The tools of this session.", {"registered": tools}),
    ]


class Tasks:
    """A session's sub-agents and tools. No session reaches those of another."""

    def __init__(self, seen: Seen, turns: Turns) -> None:
        self._seen = seen
        self._turns = turns

    def _children(self, session_id: str) -> list[Live]:
        return [
            live for live in self._seen.instance.sessions.running() if live.session.parent_id == session_id
        ]

    def running(self, session_id: str) -> wire.Plain:
        """Return the sub-agents that run, by id."""
        return {
            live.id: {
                "title": live.session.title,
                "agent": live.session.agent,
                "since": live.session.time.created,
                "steps": self._seen.step(live),
            }
            for live in self._children(session_id)
        }

    def count(self, session_id: str, args: wire.Plain) -> int:
        """Return how many run."""
        return len(self._children(session_id))

    async def cancel(self, session_id: str, args: wire.Plain) -> int:
        """End what runs for the session that asks; a key of another session means none of them."""
        key = args["session_key"]
        found = [live for live in self._children(session_id) if key in (session_id, live.id)]
        ended = await asyncio.gather(*(self._turns.abort(live, "Ended by its caller") for live in found))
        return sum(ended)

    def agents(self, session_id: str) -> dict[str, str]:
        """Return the agents that take tasks."""
        return {agent.name: agent.description for agent in self._seen.instance.agents.subagents()}

    async def tools(self, session_id: str) -> dict[str, Any]:
        """Return the tools by name."""
        found = self._seen.tools(await self._seen.live(session_id))
        return {name: next(iter(tool.description.strip().splitlines()), "") for name, tool in found.items()}
