"""The session that the heartbeat beats in: found again, made anew, and put away; and what it is sent."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from instar.plugin import Client, Invalid, NotFound, Origin, SessionBody, event, message, wire
from instar.plugins.evolve import protocol
from instar.plugins.evolve.heartbeat.schedule import CleanupDecision, Decision
from instar.plugins.evolve.protocol import Answer
from instar.plugins.evolve.settings import EvolveSettings
from instar.plugins.evolve.storage import Storage

PREFIX: Final = "[heartbeat]"
DEFAULT: Final = (
    "This is a heartbeat: nobody is waiting for an answer. Do what your instructions say about it."
)
"""The user's text where no script gave one."""


LONGEST: Final = 100_000
"""Characters of a beat's user text, and of its system prompt, that are sent at most: as of an action's message."""


class Words(msgspec.Struct, frozen=True):
    """What is sent: `system` is kept as the session's prompt (empty: the session's own stays), `user` is synthetic."""

    system: list[str]
    user: str

    @property
    def problem(self) -> str:
        """Why this is not sent; "" when it may be."""
        sizes = {"user": len(self.user), "system": sum(map(len, self.system))}
        return "; ".join(
            f"what the `heartbeat` hooks or prompts/heartbeat.md give as {name} has {size} characters, {LONGEST} at "
            "most are sent: make it shorter"
            for name, size in sizes.items()
            if size > LONGEST
        )


def compose(answer: Answer, default: Sequence[str]) -> Words | None:
    """Return what a beat sends, from the merged answer of the `heartbeat` hooks; None: there is nothing to send.

    `default` is the system prompt that ``prompts/heartbeat.md`` makes (`Prompts.default`), empty without one.
    """
    system = protocol.texts(answer, "system") or list(default)
    user = protocol.text(answer, "user").strip()
    if not user and not system:
        return None
    user = user or DEFAULT
    return Words(system, user if user.startswith(PREFIX) else f"{PREFIX} {user}")


def open_sessions(
    sessions: Iterable[message.Session], doing: Mapping[str, event.SessionStatus], own: str = ""
) -> list[wire.Plain]:
    """Return the hook's input `sessions`: those that a person may talk to, in the order given.

    Left out are archived ones, those of sub-agents, and `own`, the heartbeat's. `doing` is what each session that is
    not idle does. Each has `id`, `title`, `agent` (where known), `busy` and `updated` (ms).
    """
    return [
        {"id": one.id, "title": one.title}
        | ({"agent": one.agent} if one.agent else {})
        | {"busy": one.id in doing, "updated": one.time.updated}
        for one in sessions
        if one.id != own and one.parent_id is None and not one.time.archived
    ]


def busy(doing: Iterable[str], titles: Mapping[str, str], own: str = "", *, others: bool = True) -> str:
    """Return why a beat is skipped while sessions work; "" when it may run.

    `doing` are the sessions that are not idle, `titles` the titles that are known. The heartbeat's `own` session counts
    always, the others while the setting ``heartbeat_skip_active`` says so (`others`).
    """
    at_work = set(doing)
    if own in at_work:
        return f"the heartbeat's own session {own} is busy"
    names = sorted(at_work) if others else []
    if not names:
        return ""
    first = f"{names[0]} ({titles[names[0]]})" if titles.get(names[0]) else names[0]
    return f"session {first}" + (f" and {len(names) - 1} more are busy" if len(names) > 1 else " is busy")


log = logging.getLogger("instar.evolve")

NOTE: Final = "heartbeat"
"""The note in the storage that says which session it is, by the directory that instar runs in."""


class HeartbeatSession:
    """The heartbeat's session in `directory`: a session works in one directory, a workspace is used from several."""

    def __init__(self, client: Client, storage: Storage, directory: str) -> None:
        self._client = client
        self._storage = storage
        self._directory = directory

    @property
    def id(self) -> str:
        """The session's id as it was last; "" where there is none."""
        kept = self._kept().get(self._directory)
        return kept if isinstance(kept, str) else ""

    async def find(self) -> message.Session | None:
        """Return the session; None where there is none, or it was deleted or put away."""
        if not self.id:
            return None
        try:
            found = await self._client.session.get(self.id)
        except NotFound:
            return None
        return None if found.time.archived or found.directory != self._directory else found

    async def make(self, settings: EvolveSettings) -> message.Session:
        """Make a new session and keep in mind that it is this one. Raises `Invalid` and `OSError`."""
        body = SessionBody(title=settings.heartbeat_title, agent=settings.heartbeat_agent)
        made = await self._client.session.create(body)
        self._storage.keep(NOTE, {**self._kept(), self._directory: made.id})
        return made

    async def clean(self, session_id: str, verdict: CleanupDecision, origin: Origin) -> Decision:
        """Do what was decided about the session, and return what was done: ``none`` where it could not be.

        `origin` is whose the call for a summary is.

        What failed is decided on again after the next beat.
        """
        try:
            match verdict.decision:
                case "new":
                    self._leave()
                case "archive":
                    self._leave()
                    await self._client.session.update(session_id, archived=time.time_ns() // 1_000_000)
                case "compact":
                    await self._client.session.summarize(session_id, origin=origin)
                    await self._check_summary(session_id)
                case _:
                    return verdict.decision
        except (Invalid, NotFound, OSError) as error:
            log.warning("heartbeat=%s session=%s failed=%r", verdict.decision, session_id, str(error))
            return "none"
        log.info("heartbeat=%s session=%s why=%r", verdict.decision, session_id, verdict.why)
        return verdict.decision

    async def _check_summary(self, session_id: str) -> None:
        """Raise `Invalid` where the session was not summarised."""
        for found in reversed(await self._client.session.messages(session_id)):
            info = found.info
            if isinstance(info, message.Assistant) and info.summary:
                if info.error is None:
                    return
                break
        raise Invalid("the session could not be summarised")

    def _leave(self) -> None:
        self._storage.keep(
            NOTE, {key: value for key, value in self._kept().items() if key != self._directory}
        )

    def _kept(self) -> dict[str, object]:
        kept = self._storage.note(NOTE)
        return kept if isinstance(kept, dict) else {}
