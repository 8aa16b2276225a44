"""What the session used: tokens and cost (seed 001 "Debugging": token usage)."""

from typing import Any

from instar import compaction
from instar.account import root_of
from instar.message import Assistant
from instar.plugin import Value, View, wire
from instar.store import Share
from instar.views.seen import Seen


def view(seen: Seen) -> View:
    """Return the view of tokens."""
    spending = Spending(seen)
    usage = {
        "session": Value(doc="Tokens of this session's answers.", read=spending.session),
        "last": Value(doc="Tokens of its last answer that is whole.", read=spending.last),
        "tree": Value(
            doc="Model calls, tokens and US dollars of the session's tree, sub-agents, titles and summaries included.",
            read=spending.tree,
        ),
        "window": Value(
            doc="The share of the model's room that the last call took, from 0 to 1.", read=spending.share
        ),
    }
    return View("usage", "What was used.", usage)


def cost(seen: Seen) -> Value:
    """Return the value of the cost."""
    return Value(doc="US dollars of this session's answers.", read=Spending(seen).cost)


class Spending:
    """Readers of one instance."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def session(self, session_id: str) -> wire.Plain:
        """Return the session's sums."""
        return dict(wire.to_plain((await self._seen.live(session_id)).session.tokens))

    async def cost(self, session_id: str) -> float:
        """Return the session's cost."""
        return (await self._seen.live(session_id)).session.cost

    async def last(self, session_id: str) -> Any:
        """Return the last answer's tokens; None before the first."""
        answer = await self._last(session_id)
        return None if answer is None else dict(wire.to_plain(answer.tokens))

    async def tree(self, session_id: str) -> wire.Plain:
        """Return what was booked."""
        live = await self._seen.live(session_id)
        root = await root_of(self._seen.instance, live)
        (found,) = await self._seen.instance.store.sums([Share("session", root)])
        return {"calls": found.calls, "tokens": found.tokens, "cost": found.cost}

    async def share(self, session_id: str) -> float:
        """Return how full the window was."""
        answer = await self._last(session_id)
        if answer is None:
            return 0.0
        live, tokens = await self._seen.live(session_id), answer.tokens
        used = tokens.total or tokens.input + tokens.output + tokens.cache.read + tokens.cache.write
        return round(used / compaction.room(self._seen.instance, live, self._seen.model(live)), 3)

    async def _last(self, session_id: str) -> Assistant | None:
        history = (await self._seen.live(session_id)).history
        answers = (m.info for m in reversed(history) if isinstance(m.info, Assistant) and m.info.finish)
        return next(answers, None)
