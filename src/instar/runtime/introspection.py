"""What the rooms of the core show of themselves, and what of it may be set or called (``docs/self.md``).

Readers return plain data of the session that asks; other sessions are counted at most. A flagship shows its own room;
where it is not in use, its branch says so.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from instar.definitions.agent import UnknownAgent
from instar.message import CompactionPart, User, WithParts
from instar.plugin import Method, Registry, Value, View, wire
from instar.runtime import introspection_parameters as parameters
from instar.runtime.introspection_parameters import Inspected
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.turn import compaction
from instar.turn.context import compose
from instar.turn.turns import Turns

FLAGSHIPS = {
    "evolve": "The evolve workspace",
    "dream": "The heartbeat of an evolve workspace",
    "hooks": "The rules of hooks",
}
"""Branches that a flagship declares where it is in use."""
UNUSED = "unused"
"""Under which name stands what `complete` adds."""
_KEY: wire.Plain = {
    "type": "object",
    "properties": {
        "session_key": {"type": "string", "minLength": 1, "description": "The session's id, or a sub-agent's"}
    },
    "required": ["session_key"],
    "additionalProperties": False,
}
_NOTHING: wire.Plain = {"type": "object", "properties": {}, "additionalProperties": False}


def declare(registry: Registry, instance: Instance, turns: Turns, trusted: Callable[[Path], bool]) -> None:
    """Add the views of the core's rooms. Nothing is read before somebody asks."""
    seen = Inspected(instance)
    top = {**parameters.values(seen), "commands": _commands(seen), "cost": parameters.cost(seen)}
    views = [
        View("parameters", "What a session may set of its turns, and what stands beside that.", top, path=""),
        *_task_views(seen, turns),
        *_work_views(seen),
        *parameters.guard_views(seen, trusted),
        parameters.cost_view(seen),
        _place_view(instance),
    ]
    for view in views:
        registry.add_view(view)


def complete(registry: Registry) -> None:
    """Add a branch that says "not in use" for each flagship that declared none."""
    held = {view.at[0] for view in registry.views.values() if view.at}
    for name, what in FLAGSHIPS.items():
        if name not in held and name not in registry.views:
            told = Value(doc="Whether it is in use here.", read=lambda session_id: False, scope="instance")
            registry.of(UNUSED).add_view(View(name, f"{what}, which is not in use here.", {"active": told}))


def _place_view(instance: Instance) -> View:
    """Return the view of the folder and its project."""

    def told(doc: str, found: Any) -> Value:
        return Value(doc=doc, read=lambda session_id: found, scope="instance")

    values = {
        "directory": told("The folder that the runtime works in.", str(instance.directory)),
        "worktree": told("The project's folder.", str(instance.project.worktree)),
        "project": told("The project's id.", instance.project.id),
        "vcs": told("The version control of the project: git, or nothing.", instance.project.vcs or None),
    }
    return View("workspace", "Where the session works.", values)


def _task_views(seen: Inspected, turns: Turns) -> list[View]:
    """Return the views of sub-agents and tools."""
    tasks = _TaskViews(seen, turns)
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


class _TaskViews:
    """A session's sub-agents and tools. No session reaches those of another."""

    def __init__(self, seen: Inspected, turns: Turns) -> None:
        self._seen = seen
        self._turns = turns

    def _children(self, session_id: str) -> list[SessionState]:
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
        """End the sub-agents of the session that asks; another session's key matches none."""
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


def _work_views(seen: Inspected) -> list[View]:
    """Return the views of the session, its prompt, its summaries and its turn."""
    work = _SessionViews(seen)
    prompt = Method(
        doc="The system prompt as the last request had it, or the next one will.",
        parameters=_NOTHING,
        run=work.prompt,
    )
    return [
        View("context", "What a step sends.", {"build_system_prompt": prompt}),
        View("sessions", "This session, and its own sub-agents'.", _sessions(work)),
        View(
            "consolidator", "How the conversation is summarised when it fills the window.", _summaries(work)
        ),
        View("runner", "The turn that runs.", _turn(work)),
    ]


def _commands(seen: Inspected) -> Value:
    """Return the value of the commands."""

    def read(session_id: str) -> dict[str, str]:
        return {command.name: command.description for command in seen.instance.commands.all()}

    doc = "The commands that a person may call, with what they are for."
    return Value(doc=doc, read=read, scope="instance")


def _sessions(work: "_SessionViews") -> dict[str, Value]:
    return {
        "current": Value(doc="The session that asks.", read=work.session),
        "children": Value(
            doc="The sessions of its sub-agents, by id, also of those that have ended.", read=work.children
        ),
        "count": Value(doc="How many sessions the project has.", read=work.count, scope="instance"),
        "busy": Value(doc="How many sessions a turn runs in here.", read=work.busy, scope="instance"),
    }


def _summaries(work: "_SessionViews") -> dict[str, Value]:
    config = work.seen.instance.config
    return {
        "auto": Value(
            doc="Whether it is done without being asked.",
            read=lambda session_id: config.compaction.auto,
            scope="instance",
        ),
        "prune": Value(
            doc="Whether old tool outputs are cleared first.",
            read=lambda session_id: config.compaction.prune,
            scope="instance",
        ),
        "room": Value(
            doc="Tokens that the conversation may fill before it is summarised; set context_window_tokens to move it.",
            read=work.room,
        ),
        "count": Value(doc="Summaries that were asked for in this session.", read=work.summaries),
        "last": Value(
            doc="The last of them: when (ms), and whether it was automatic.", read=work.last_summary
        ),
    }


def _turn(work: "_SessionViews") -> dict[str, Value]:
    return {
        "agent": Value(doc="The agent that answers.", read=work.agent),
        "step": Value(doc="The number of the step that runs, from 1.", read=work.step),
        "status": Value(doc="What the session does: busy, retry or idle.", read=work.status),
        "origin": Value(
            doc="Where the message comes from that is answered: a person, a heartbeat …", read=work.origin
        ),
        "queued": Value(doc="Prompts that wait in the session's queue.", read=work.queued),
        "seconds": Value(
            doc="Seconds that the turn runs, or since a person last spoke in it.", read=work.seconds
        ),
    }


class _SessionViews:
    """Readers of one instance."""

    def __init__(self, seen: Inspected) -> None:
        self.seen = seen

    async def session(self, session_id: str) -> wire.Plain:
        """Return the session's own fields, and how long it is."""
        live = await self.seen.live(session_id)
        session = live.session
        return {
            "id": session.id,
            "title": session.title,
            "agent": session.agent,
            "parent": session.parent_id,
            "directory": session.directory,
            "created": session.time.created,
            "updated": session.time.updated,
            "messages": len(live.history),
        }

    async def children(self, session_id: str) -> dict[str, str]:
        """Return the titles of its sub-agents' sessions."""
        found = await self.seen.instance.store.sessions(parent_id=session_id)
        return {session.id: session.title for session in found}

    async def count(self, session_id: str) -> int:
        """Return how many there are."""
        return len(await self.seen.instance.sessions.list())

    def busy(self, session_id: str) -> int:
        """Return how many work."""
        return len(self.seen.instance.sessions.running())

    async def prompt(self, session_id: str, args: wire.Plain) -> str:
        """Return the system prompt. Raises `ValueError` where no agent answers in the session."""
        live = await self.seen.live(session_id)
        if live.system is not None:
            return "\n\n".join(live.system)
        turn = self.seen.turn(live)
        if turn is None:
            raise ValueError("nothing was asked in the session yet")
        return "\n\n".join(await compose(self.seen.instance, turn))

    async def room(self, session_id: str) -> int:
        """Return the tokens before a summary."""
        live = await self.seen.live(session_id)
        return compaction.room(self.seen.instance, live, self.seen.model(live))

    async def summaries(self, session_id: str) -> int:
        """Return how many were asked for."""
        return len(_asked(await self.seen.live(session_id)))

    async def last_summary(self, session_id: str) -> Any:
        """Return the last one, None where there is none."""
        found = _asked(await self.seen.live(session_id))
        if not found:
            return None
        message, part = found[-1]
        return {"at": message.info.time.created, "auto": part.auto}

    async def agent(self, session_id: str) -> str | None:
        """Return its name; None for one that is gone."""
        live = await self.seen.live(session_id)
        asked = self.seen.asked(live)
        try:
            return self.seen.instance.agents.get(live.session.agent if asked is None else asked.agent).name
        except UnknownAgent:
            return None

    async def step(self, session_id: str) -> int:
        """Return its number."""
        return self.seen.step(await self.seen.live(session_id))

    async def status(self, session_id: str) -> str:
        """Return the kind of the session's status."""
        status = (await self.seen.live(session_id)).status
        return str(wire.to_plain(status)["type"])

    async def origin(self, session_id: str) -> wire.Plain:
        """Return the name, and what made the session go on."""
        origin = (await self.seen.live(session_id)).origin
        return {"name": origin.name, "id": origin.id, "source": origin.source}

    async def queued(self, session_id: str) -> int:
        """Return how many wait."""
        return len(await self.seen.instance.store.follow_ups(session_id))

    async def seconds(self, session_id: str) -> float:
        """Return the time; 0 while no turn runs."""
        live = await self.seen.live(session_id)
        return 0.0 if live.turn is None else round(live.quiet(), 1)


def _asked(live: SessionState) -> list[tuple[WithParts, CompactionPart]]:
    """The messages that ask for a summary."""
    return [
        (message, part)
        for message in live.history
        if isinstance(message.info, User)
        for part in message.parts
        if isinstance(part, CompactionPart)
    ]
