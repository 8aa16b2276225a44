"""What the session is, what it is sent, how it is summarised, and what runs it."""

from typing import Any, Final

from instar import compaction
from instar.agent import UnknownAgent
from instar.context import compose
from instar.live import Live
from instar.message import CompactionPart, User, WithParts
from instar.plugin import Method, Value, View, wire
from instar.views.seen import Seen

_NOTHING: Final[wire.Plain] = {"type": "object", "properties": {}, "additionalProperties": False}


def views(seen: Seen) -> list[View]:
    """Return the views of the session, its prompt, its summaries and its turn."""
    work = Work(seen)
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


def commands(seen: Seen) -> Value:
    """Return the value of the commands."""

    def read(session_id: str) -> dict[str, str]:
        return {command.name: command.description for command in seen.instance.commands.all()}

    doc = "The commands that a person may call, with what they are for."
    return Value(doc=doc, read=read, scope="instance")


def _sessions(work: "Work") -> dict[str, Value]:
    return {
        "current": Value(doc="The session that asks.", read=work.session),
        "children": Value(
            doc="The sessions of its sub-agents, by id, also of those that have ended.", read=work.children
        ),
        "count": Value(doc="How many sessions the project has.", read=work.count, scope="instance"),
        "busy": Value(doc="How many sessions a turn runs in here.", read=work.busy, scope="instance"),
    }


def _summaries(work: "Work") -> dict[str, Value]:
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


def _turn(work: "Work") -> dict[str, Value]:
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


class Work:
    """Readers of one instance."""

    def __init__(self, seen: Seen) -> None:
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
        return len(await self.seen.instance.sessions.queued(session_id))

    async def seconds(self, session_id: str) -> float:
        """Return the time; 0 while no turn runs."""
        live = await self.seen.live(session_id)
        return 0.0 if live.turn is None else round(live.quiet(), 1)


def _asked(live: Live) -> list[tuple[WithParts, CompactionPart]]:
    """The messages that ask for a summary."""
    return [
        (message, part)
        for message in live.history
        if isinstance(message.info, User)
        for part in message.parts
        if isinstance(part, CompactionPart)
    ]
