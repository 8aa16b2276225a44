"""Calls one hook on all scripts for a session, recovers from failures, and carries out the actions of the answers.

When a script fails its own `recover` is asked, else ``prompts/recover.md`` speaks. A failure of `recover` itself is not
recovered.
"""

import logging
from collections.abc import Awaitable, Callable

from instar.plugin import Client, NotFound, Origin, PromptBody, ids, message, wire
from instar.plugins.evolve import protocol, script
from instar.plugins.evolve.effects import HookEffects
from instar.plugins.evolve.scripts import HookAnswer, Scripts

log = logging.getLogger("instar.evolve")

SOURCE = "evolve.recover"
"""The source of the follow-ups that recovery queues."""

Queue = Callable[[str], Awaitable[bool]]
"""Takes what recovery wants said to a session; whether it will be."""


class Dispatch:
    """Calls hooks on the scripts of one workspace, and keeps the emergency prompts of sessions in which one failed."""

    def __init__(self, scripts: Scripts, client: Client, effects: HookEffects) -> None:
        self._scripts = scripts
        self._client = client
        self._effects = effects
        self._system: dict[str, dict[str, list[str]]] = {}
        self._said: dict[str, dict[tuple[str, str], str]] = {}

    async def ask(
        self, hook: str, session_id: str, agent: str | None, fields: wire.Plain, *, key: str
    ) -> HookAnswer:
        """Call a hook on every script, recover from failures, and carry out the actions; `key` as in `HookEffects`."""
        outcome = await self._scripts.call_all(hook, fields)
        await self.settle(hook, session_id, agent, outcome, key=key)
        return outcome

    async def settle(
        self,
        hook: str,
        session_id: str,
        agent: str | None,
        outcome: HookAnswer,
        *,
        key: str,
        recover_by: Queue | None = None,
        origin: Origin | None = None,
    ) -> None:
        """Recover from each failure, and carry out the actions. `recover_by` gets the recovery messages.

        `origin` is whose the answers are: that of the session's turn where none is given.
        """
        queued = [await self.failed(session_id, agent, failure, recover_by) for failure in outcome.failures]
        if not outcome.failures:
            self.succeeded(session_id, hook)
        elif hook == "idle" and not any(queued):
            # No step follows that could use the emergency prompt.
            self.take_system(session_id, [])
        await self._effects.carry_out(hook, session_id, outcome.answer, key=key, origin=origin)

    async def history(self, session_id: str) -> list[wire.Plain]:
        """Return a session's messages for scripts, none for a deleted session."""
        try:
            messages = await self._client.session.messages(session_id)
        except NotFound:
            return []
        return [_told(found) for found in messages if not _is_begun(found.info)]

    def take_system(self, session_id: str, managed: list[str]) -> list[str]:
        """Return this step's system prompt: `managed`, the session's own, unless something failed; that counts once.

        A script's emergency prompt stands before what scripts said for the session, alone where no other one runs.
        """
        kept = self._system.pop(session_id, {})
        others = [entry for entry in self._scripts.runnable() if entry.name not in kept]
        texts = [text for texts in kept.values() for text in texts]
        return list(dict.fromkeys(texts + (managed if others else []))) if texts else managed

    async def failed(
        self,
        session_id: str,
        agent: str | None,
        failure: script.ScriptFailure,
        queue: Queue | None = None,
    ) -> bool:
        """Recover from one failed call: keep the system prompt for the step, queue the user message.

        A hook that only observes is not recovered: its failure is in the log.
        A script that fails at every step queues its message once, until the same hook of it succeeds, and
        the same text once for all its hooks.
        `queue` takes the message in place of the session's own queue. Returns whether a message was queued.
        """
        if failure.hook in protocol.OBSERVATIONAL:
            return False
        answer = await self._recover(failure)
        key = ids.new("evt")
        await self._effects.carry_out("recover", session_id, answer, key=key, source=failure.script)
        system = protocol.texts(answer, "system") or self._scripts.prompts.default("recover")
        if system:
            self._system.setdefault(session_id, {})[failure.script] = system
        user = protocol.text(answer, "user") or self._scripts.prompts.text("recover")
        failure.recovered = bool(system or user)
        said = self._said.setdefault(session_id, {})
        mark = (failure.script, failure.hook)
        known = mark in said or any(text == user and file == mark[0] for (file, _), text in said.items())
        if not user or known:
            return False
        said[mark] = user
        if queue is not None:
            return await queue(user)
        return await self._queue(session_id, PromptBody.text(user, synthetic=True, agent=agent))

    def succeeded(self, session_id: str, hook: str) -> None:
        """Forget that `hook` failed in this session: no script fails at it any more."""
        said = self._said.get(session_id, {})
        for mark in [mark for mark in said if mark[1] == hook]:
            del said[mark]

    def forget(self, session_id: str) -> None:
        """Drop what is kept of a session."""
        self._system.pop(session_id, None)
        self._said.pop(session_id, None)

    async def _recover(self, failure: script.ScriptFailure) -> protocol.Answer:
        entry = self._scripts.find(failure.script)
        if (failure.hook, failure.kind) == ("discover", "timeout"):
            return {}  # it would most likely hang again, for as long as hook_timeout
        if entry is None or entry not in self._scripts.answers("recover"):
            return {}
        try:
            return await self._scripts.call(
                entry, "recover", {"error": str(failure), "failed_hook": failure.hook}
            )
        except (script.ScriptFailure, script.UnknownHook):
            return {}

    async def _queue(self, session_id: str, body: PromptBody) -> bool:
        try:
            await self._client.session.follow_up(session_id, body, SOURCE)
        except NotFound:
            log.warning("session=%s hook=recover problem=%r", session_id, "the session is gone")
            return False
        return True


def _is_begun(info: message.Message) -> bool:
    """Whether a message is the answer that this very step is about to write."""
    return isinstance(info, message.Assistant) and info.time.completed is None


def _told(found: message.WithParts) -> wire.Plain:
    """Return a message as scripts are given it: role, agent and parts."""
    parts = [message.part_to_plain(part) for part in found.parts]
    return {
        "role": "user" if isinstance(found.info, message.User) else "assistant",
        "agent": found.info.agent,
        "parts": parts,
    }


def answer_text(parts: list[message.Part]) -> str:
    """Return the text of an answer."""
    return "\n".join(part.text for part in parts if isinstance(part, message.TextPart) and not part.ignored)
