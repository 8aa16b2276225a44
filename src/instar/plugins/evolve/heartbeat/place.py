"""The session that the heartbeat beats in: found again, made anew, and put away."""

import logging
import time

from instar.plugin import Client, Invalid, NotFound, Origin, SessionBody, message
from instar.plugins.evolve.books import Books
from instar.plugins.evolve.heartbeat.cleanup import CleanupDecision
from instar.plugins.evolve.heartbeat.schedule import Decision
from instar.plugins.evolve.settings import EvolveSettings

log = logging.getLogger("instar.evolve")

_NOTE = "heartbeat"
"""The note in the books that says which session it is, by the directory that instar runs in."""


class HeartbeatSession:
    """The heartbeat's session in `directory`: a session works in one directory, a workspace is used from several."""

    def __init__(self, client: Client, books: Books, directory: str) -> None:
        self._client = client
        self._books = books
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
        self._books.keep(_NOTE, {**self._kept(), self._directory: made.id})
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
        self._books.keep(_NOTE, {key: value for key, value in self._kept().items() if key != self._directory})

    def _kept(self) -> dict[str, object]:
        kept = self._books.note(_NOTE)
        return kept if isinstance(kept, dict) else {}
