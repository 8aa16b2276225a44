"""What model calls cost, and the limits that stop them. Pure: counts in, decisions out.

``limits`` in the configuration (design section 5; our own key)::

    "limits": {"steps": 40, "session": {"tokens": 2000000, "cost": 5.0}, "day": {"cost": 20.0}}

``steps`` are model calls in a turn (default: ``max_iterations``), ``tokens`` all tokens in and out, ``cost``
US dollars, ``day`` the last 24 hours. What is left out has no limit.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from instar.message import Tokens
from instar.provider.protocol import ModelCost
from instar.store import Usage

DAY: Final = 24 * 60 * 60 * 1000
"""Milliseconds that the limits of a day look back."""


class LimitsError(ValueError):
    """A limit that is no number above zero; the text names its path in the configuration."""


class Ceiling(msgspec.Struct, frozen=True):
    """The most tokens and US dollars that something may use; None is no limit."""

    tokens: int | None = None
    cost: float | None = None


class Limits(msgspec.Struct, frozen=True):
    """The limits of one turn (`steps`), of a session and of the last 24 hours."""

    steps: int = 40
    session: Ceiling = Ceiling()
    day: Ceiling = Ceiling()

    @classmethod
    def of(cls, block: Mapping[str, Any], max_iterations: int = 40) -> "Limits":
        """Read the configuration's ``limits``. Raises `LimitsError` at the first value that is none."""
        _only(block, ("steps", "session", "day"), "limits")
        steps = _number(block.get("steps"), "limits.steps")
        return cls(
            steps=max_iterations if steps is None else int(steps),
            session=_ceiling(block.get("session"), "limits.session"),
            day=_ceiling(block.get("day"), "limits.day"),
        )


class Spent(msgspec.Struct, frozen=True):
    """What was used: all tokens, US dollars, and how many calls had no known price."""

    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def __add__(self, usage: Usage) -> "Spent":
        """Return the sum with one more booked call."""
        price = usage.cost
        return Spent(
            self.tokens + total(usage.tokens), self.cost + (price or 0.0), self.unpriced + (price is None)
        )


class Situation(msgspec.Struct, frozen=True):
    """Where a turn stands before a model call: this would be step number `step` (from 1).

    `cause` says whose work it is (``turn``, ``title``, an agent's name …); `priced`, whether the price of
    the model about to be called is known.
    """

    step: int = 1
    session: Spent = Spent()
    day: Spent = Spent()
    cause: str = "turn"
    priced: bool = True


class Reached(msgspec.Struct, frozen=True):
    """A limit that forbids the next call: its path in the configuration, whose work it was, and why."""

    limit: str
    cause: str
    message: str


def check(limits: Limits, situation: Situation) -> Reached | None:
    """Return the first limit that forbids another model call, or None.

    Law: a call is refused once what was used has reached a limit, so that at most one call goes over. A
    limit on cost cannot be held where a price is unknown: the call is refused (gates fail closed).
    """
    if situation.step > limits.steps:
        message = (
            f"this turn has made {limits.steps} model calls, as many as max_iterations or limits.steps allows"
        )
        return Reached("limits.steps", situation.cause, message)
    for name, ceiling, spent in (
        ("session", limits.session, situation.session),
        ("day", limits.day, situation.day),
    ):
        reached = _over(f"limits.{name}", ceiling, spent, situation)
        if reached is not None:
            return reached
    return None


def cost(tokens: Tokens, prices: ModelCost) -> float | None:
    """Return what a call cost in US dollars; None when a price that it needs is unknown.

    Reasoning is billed as output. Cached input without a price of its own is billed as input.
    """
    cached = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    bill = (
        (tokens.input, prices.input),
        (tokens.output + tokens.reasoning, prices.output),
        (tokens.cache.read, cached),
        (tokens.cache.write, written),
    )
    amount = 0.0
    for count, price in bill:
        if count and price is None:
            return None
        amount += count * (price or 0.0)
    return amount / 1_000_000


def is_priced(prices: ModelCost) -> bool:
    """Whether the cost of any call can be told."""
    return prices.input is not None and prices.output is not None


def total(tokens: Tokens) -> int:
    """Return all tokens of a call, cached ones and reasoning included."""
    return tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write


def spent(usages: Iterable[Usage], since: int = 0) -> Spent:
    """Return the sum of booked calls from `since` (milliseconds since the epoch) on."""
    found = Spent()
    for usage in usages:
        if usage.created >= since:
            found = found + usage
    return found


def _over(path: str, ceiling: Ceiling, spent: Spent, situation: Situation) -> Reached | None:
    if ceiling.tokens is not None and spent.tokens >= ceiling.tokens:
        message = f"{spent.tokens:,} tokens were used, {path}.tokens allows {ceiling.tokens:,}"
        return Reached(f"{path}.tokens", situation.cause, message)
    if ceiling.cost is None:
        return None
    if spent.cost >= ceiling.cost:
        message = f"{spent.cost:.2f} US dollars were spent, {path}.cost allows {ceiling.cost:.2f}"
        return Reached(f"{path}.cost", situation.cause, message)
    if spent.unpriced or not situation.priced:
        message = (
            f"{path}.cost cannot be held, since a model's price is unknown: set provider.ID.models.NAME.cost, "
            "or limit tokens instead"
        )
        return Reached(f"{path}.cost", situation.cause, message)
    return None


def _ceiling(block: Any, path: str) -> Ceiling:
    if block is None:
        return Ceiling()
    if not isinstance(block, Mapping):
        raise LimitsError(f'{path} must be an object such as {{"tokens": 100000, "cost": 1.5}}')
    _only(block, ("tokens", "cost"), path)
    tokens = _number(block.get("tokens"), f"{path}.tokens")
    return Ceiling(None if tokens is None else int(tokens), _number(block.get("cost"), f"{path}.cost"))


def _only(block: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
    """A limit that is misspelt would be no limit: refuse it."""
    for key in block:
        if key not in known:
            raise LimitsError(f"{path}.{key} is no limit; there are {', '.join(known)}")


def _number(value: Any, path: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise LimitsError(f"{path} must be a number above 0; it is {value!r}")
    return value
