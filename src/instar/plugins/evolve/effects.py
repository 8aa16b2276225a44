"""Effects: what a hook's answer asks for beside its text.

Each answer is handed in once, under a `key` that tells it from every other: the id of the message or call it is about.
Observers fail open: an effect that fails is logged, and the hook's answer stands.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from instar.plugin import Client, NotFound, Origin, event, message
from instar.plugins.evolve import actions, modified, protocol, script
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.notices import HookNotice, Notices

log = logging.getLogger("instar.evolve")

KEYS = ("modified", "notify", "actions")
"""The keys of an answer that have effects."""

TOLD: Final = 100
"""Sessions that a notice is queued for: those that were used last."""

HOPS: Final = 1
"""Notices on end: a script may say one while it words another, and none while it words that."""


class HookEffects:
    """Carries out what answers ask for. `doors` carries out actions, `notices` holds what sessions are to be told."""

    def __init__(self, engine: EvolveEngine, client: Client, notices: Notices, doors: actions.Doors) -> None:
        self._engine = engine
        self._client = client
        self._notices = notices
        self._doors = doors
        self._filled: Callable[[], None] = _nobody

    def listen(self, filled: Callable[[], None]) -> None:
        """Call `filled` when there is something new to tell."""
        self._filled = filled

    async def carry_out(
        self,
        hook: str,
        session_id: str,
        answer: protocol.Answer,
        *,
        key: str,
        source: str = "*",
        origin: Origin | None = None,
        hops: int = 0,
    ) -> None:
        """Carry out what `hook` answered with in a session. `source` is the script; ``*`` where several were merged.

        `origin` is whose the answer is: that of the session's turn where none is given. `hops` as in `HookNotice`.
        """
        asked = {name: answer[name] for name in KEYS if answer.get(name)}
        if not asked:
            return
        for name, value in asked.items():
            log.info(
                "script=%s hook=%s session=%s key=%s %s=%s",
                source,
                hook,
                session_id,
                key,
                name,
                script.show(value),
            )
        try:
            asking = actions.ActionRequest(hook, session_id, key, origin or await self._origin(session_id))
            if "modified" in asked:
                await self._modified(asking, asked["modified"])
            if "notify" in asked:
                await self._notify(asking, asked["notify"], hops)
            if "actions" in asked:
                await self._act(asking, answer)
        except Exception:
            log.exception("hook=%s session=%s effects=failed", hook, session_id)

    async def _origin(self, session_id: str) -> Origin:
        try:
            return await self._client.session.origin(session_id)
        except NotFound:
            return Origin()

    async def _modified(self, asking: actions.ActionRequest, names: Any) -> None:
        found = modified.read(self._engine.real.root, names)
        for problem in found.problems:
            log.warning(
                "hook=%s session=%s modified=refused reason=%r", asking.hook, asking.session_id, problem
            )
        if found.files:
            await self._engine.recording.named(asking.session_id, asking.key, found.files)

    async def _notify(self, asking: actions.ActionRequest, said: Any, hops: int) -> None:
        if hops > HOPS:
            await self._stopped(
                asking, "notices", f"a notice led to {HOPS} more on end: this one is not told"
            )
            return
        notices = [
            HookNotice(one, asking.origin, hops) for one in (said if isinstance(said, list) else [said])
        ]
        to = [session.id for session in await self._client.session.list() if _is_live(session)]
        receivers = [session_id for session_id in to[:TOLD] if session_id != asking.session_id]
        self._notices.notify(f"{asking.session_id} {asking.hook} {asking.key}", notices, receivers)
        self._filled()

    async def _act(self, asking: actions.ActionRequest, answer: protocol.Answer) -> None:
        done = await actions.carry_out(answer, asking, self._doors)
        if done.refused:
            await self._stopped(asking, "actions", done.refused)

    async def _stopped(self, asking: actions.ActionRequest, limit: str, why: str) -> None:
        """Say that a chain has come to its end, where a person sees it."""
        log.warning(
            "limit reached session=%s hook=%s limit=%s: %s", asking.session_id, asking.hook, limit, why
        )
        happened = event.LimitReached(
            session_id=asking.session_id, limit=limit, cause=f"evolve.{asking.hook}", message=why, ends=False
        )
        await self._client.publish(event.make(happened))


def _is_live(session: message.Session) -> bool:
    """Whether a session is told notices: it was prompted before, is nobody's sub-agent and was not put away."""
    return session.parent_id is None and not session.time.archived and session.model is not None


def _nobody() -> None:
    """Nobody listens yet."""
