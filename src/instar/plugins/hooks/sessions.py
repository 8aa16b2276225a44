"""What the plugin holds for each session: its agent, its transcript, contexts for the next prompt, allowed calls."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from instar.plugin import Client, NotFound
from instar.plugins.hooks.outcome import HookDecision


class AllowedCall(msgspec.Struct):
    """A tool call that was allowed: its arguments, the decision, and when it started."""

    tool: str
    args: Mapping[str, Any]
    decision: HookDecision
    since: float


class HookSession:
    """One session. `ending` is why its turn must end, "" if it need not."""

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
        self._calls: dict[str, AllowedCall] = {}
        self._expected: list[str] = []

    def begin(self) -> None:
        """Forget what an aborted turn left behind."""
        self.ending = ""
        self._calls.clear()

    def end_by(self, decision: HookDecision) -> None:
        """End the turn before the next model call if a decision stops it."""
        if decision.stop:
            why = decision.stop_reason or decision.text or "A hook ended the turn."
            self.ending = self.ending or why

    def call(self, call_id: str, tool: str, args: Mapping[str, Any], decision: HookDecision) -> None:
        """Remember an allowed call."""
        self._calls[call_id] = AllowedCall(tool, args, decision, time.monotonic())

    def called(self, call_id: str, tool: str) -> AllowedCall | None:
        """Return the call that asks for a permission: itself, or one that its tool made, of which ids begin with it.

        Of several of the same tool the most severely judged one, since it cannot be told which of them asks.
        """
        found = [
            one
            for key, one in self._calls.items()
            if one.tool == tool and (key == call_id or key.startswith(f"{call_id}."))
        ]
        rank = {"ask": 0, "allow": 2}
        return min(found, key=lambda one: rank.get(one.decision.action, 1), default=None)

    def ended(self, call_id: str) -> AllowedCall | None:
        """Forget a call that is over. Return it if it was allowed."""
        return self._calls.pop(call_id, None)

    def expect(self, text: str) -> None:
        """Expect a prompt with this text that no person wrote."""
        self._expected.append(text)

    def is_expected(self, texts: Iterable[str]) -> bool:
        """Return whether one of a prompt's texts was expected, and stop expecting it."""
        found = next((text for text in texts if text in self._expected), None)
        if found is not None:
            self._expected.remove(found)
        return found is not None


class HookSessions:
    """The sessions that this instance uses, by id."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, HookSession] = {}

    async def of(self, session_id: str) -> HookSession:
        """Return a session, also one that is no longer stored."""
        found = self._known.get(session_id)
        if found is None:
            try:
                row = await self._client.session.get(session_id)
                agent_id = session_id if row.parent_id else ""
            except NotFound:
                agent_id = ""
            found = self._known.setdefault(session_id, HookSession(session_id, agent_id))
        return found

    def forget(self, session_id: str) -> None:
        """Forget a session that is no longer used."""
        self._known.pop(session_id, None)
