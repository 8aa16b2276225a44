"""What a session apart spends: booked as its caller's with a cause of its own, held by the same limits, and counted."""

import msgspec

from instar.budget import Asked, Budget, Permit
from instar.instance import Instance
from instar.live import now
from instar.plugin import Aside
from instar.store import Usage
from instar.usage import Reached, bounds, total


class Spending(Budget):
    """The instance's budget, for the calls of one session apart.

    `steps` calls were answered so far, with all their `tokens` and a `cost` that is None once a price was unknown.
    `reached` is the limit that ended it, if one did.
    """

    def __init__(self, instance: Instance, aside: Aside, asked_id: str) -> None:
        """`asked_id` is the message of the caller's that its turn answers."""
        super().__init__(instance.store, instance.paths.database)
        self._aside = aside
        self._asked_id = asked_id
        self.steps = 0
        self.tokens = 0
        self.cost: float | None = 0.0
        self.reached_limit: Reached | None = None

    async def ask(self, asked: Asked) -> Permit | Reached:
        """Return the right to make a call, or the limit that forbids it (`Budget.ask`)."""
        given = self._full() or await super().ask(self._as_callers(asked))
        if isinstance(given, Reached):
            self.reached_limit = given
        return given

    async def reached(self, asked: Asked) -> Reached | None:
        """Return the limit that forbids a call as things stand, or None."""
        found = self._full() or await super().reached(self._as_callers(asked))
        self.reached_limit = self.reached_limit or found
        return found

    async def settle(self, usage: Usage | None, asked: Asked) -> None:
        """Book a call that has ended; its message is nobody's but the session's own."""
        if usage is not None:
            self.steps += 1
            self.tokens += total(usage.tokens)
            self.cost = None if usage.cost is None or self.cost is None else self.cost + usage.cost
            usage = msgspec.structs.replace(usage, message_id=None)
        await super().settle(usage, asked)

    def _full(self) -> Reached | None:
        if self.steps < self._aside.steps:
            return None
        return Reached(
            "max_turns", self._aside.cause, f"it made {self.steps} model calls, as many as it may", ""
        )

    def _as_callers(self, asked: Asked) -> Asked:
        cause = self._aside.cause
        whose = msgspec.structs.replace(asked.whose, cause=cause)
        usage = msgspec.structs.replace(
            asked.usage,
            session_id=self._aside.session_id,
            cause=cause,
            agent=cause,
            turn_id=self._asked_id,
        )
        situation = msgspec.structs.replace(
            asked.situation, cause=cause, bounds=bounds(asked.limits, whose, now())
        )
        return msgspec.structs.replace(asked, whose=whose, usage=usage, situation=situation)
