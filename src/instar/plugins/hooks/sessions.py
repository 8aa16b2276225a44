"""What the plugin remembers of each session while it is used: who speaks, what is to be told, what is to end."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from instar.plugin import Client, NotFound
from instar.plugins.hooks.outcome import Decision


class Called(msgspec.Struct):
    """A tool call that was let through: what it was given, what was decided of it, and since when it runs."""

    tool: str
    args: Mapping[str, Any]
    decision: Decision
    since: float


class Session:
    """One session. `ending` is why its turn is to end, empty: it is not."""

    def __init__(self, session_id: str, agent_id: str) -> None:
        self.id = session_id
        self.agent_id = agent_id
        self.agent = ""
        self.transcript = ""
        self.ending = ""
        self.refused = ""
        self.pending: list[str] = []
        self.stops = 0
        self.in_task = False
        self._calls: dict[str, Called] = {}
        self._expected: list[str] = []

    def begin(self) -> None:
        """A prompt comes: what was left of an aborted turn is forgotten."""
        self.ending = ""
        self._calls.clear()

    def end(self, reason: str) -> None:
        """The turn is to end before the model is called again."""
        self.ending = self.ending or reason or "A hook ended the turn."

    def call(self, call_id: str, tool: str, args: Mapping[str, Any], decision: Decision) -> None:
        """A call was let through."""
        self._calls[call_id] = Called(tool, args, decision, time.monotonic())

    def called(self, call_id: str, tool: str) -> Called | None:
        """Return the call that asks for a permission: itself, or one that its tool made, of which ids begin with it.

        Of several of the same tool the most severely judged one, since it cannot be told which of them asks.
        """
        found = [
            one
            for key, one in self._calls.items()
            if one.tool == tool and (key == call_id or key.startswith(f"{call_id}."))
        ]
        asked = next((one for one in found if one.decision.action == "ask"), None)
        return (
            asked
            or next((one for one in found if one.decision.action != "allow"), None)
            or next(iter(found), None)
        )

    def ended(self, call_id: str) -> Called | None:
        """A call is over. Return it if it was let through."""
        return self._calls.pop(call_id, None)

    def expect(self, text: str) -> None:
        """A prompt with this text comes from us, or from a caller that was judged: it is no person's."""
        self._expected.append(text)

    def is_expected(self, texts: Iterable[str]) -> bool:
        """Whether a prompt of these texts was expected; once. Other plugins may have added some to it."""
        found = next((text for text in texts if text in self._expected), None)
        if found is not None:
            self._expected.remove(found)
        return found is not None


class Sessions:
    """The sessions that this instance uses, by id."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, Session] = {}

    async def of(self, session_id: str) -> Session:
        """Return a session; of one whose row is gone nothing is known."""
        found = self._known.get(session_id)
        if found is None:
            try:
                row = await self._client.session.get(session_id)
                agent_id = session_id if row.parent_id else ""
            except NotFound:
                agent_id = ""
            found = self._known.setdefault(session_id, Session(session_id, agent_id))
        return found

    def forget(self, session_id: str) -> None:
        """A session is no longer used."""
        self._known.pop(session_id, None)
