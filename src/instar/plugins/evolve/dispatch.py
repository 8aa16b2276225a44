"""Calls one hook on all scripts for a session, recovers from failures, and carries out the actions of the answers."""

from instar.plugin import Client, NotFound, Origin, wire
from instar.plugins.evolve import conversation
from instar.plugins.evolve.effects import HookEffects
from instar.plugins.evolve.recovery import Queue, Recovery
from instar.plugins.evolve.scripts import HookAnswer, Scripts


class Dispatch:
    """Calls hooks on the scripts of one workspace."""

    def __init__(self, scripts: Scripts, recovery: Recovery, effects: HookEffects, client: Client) -> None:
        self._scripts = scripts
        self._recovery = recovery
        self._effects = effects
        self._client = client

    async def ask(
        self, hook: str, session_id: str, agent: str | None, fields: wire.Plain, *, key: str
    ) -> HookAnswer:
        """Call a hook on every script, and recover from each failure; `key` as in `HookEffects`."""
        outcome = await self.call(hook, fields)
        await self.settle(hook, session_id, agent, outcome, key=key)
        return outcome

    async def call(self, hook: str, fields: wire.Plain) -> HookAnswer:
        """Call a hook on every script; `settle` handles the result."""
        return await self._scripts.call_all(hook, fields)

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
        queued = [
            await self._recovery.failed(session_id, agent, failure, recover_by)
            for failure in outcome.failures
        ]
        if not outcome.failures:
            self._recovery.succeeded(session_id, hook)
        elif hook == "idle" and not any(queued):
            # No step follows that could use the emergency prompt.
            self._recovery.take_system(session_id, [])
        await self._effects.carry_out(hook, session_id, outcome.answer, key=key, origin=origin)

    async def observe(self, hook: str, session_id: str, fields: wire.Plain, *, key: str) -> None:
        """Call an observing hook on every script. A failure is logged, and `recover` is not called."""
        outcome = await self._scripts.call_all(hook, fields)
        await self._effects.carry_out(hook, session_id, outcome.answer, key=key)

    async def history(self, session_id: str) -> list[wire.Plain]:
        """Return a session's messages for scripts, none for a deleted session."""
        try:
            messages = await self._client.session.messages(session_id)
        except NotFound:
            return []
        return [conversation.said(found) for found in messages if not conversation.is_begun(found.info)]
