"""What was set in one session over what the settings say: in memory only (seed 001, issue 9 item 5).

Whoever sets something checks it first; a step asks here what holds, each time anew, so that a change holds from the
next step of the running turn on.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from instar.usage import Ceiling, Limits

RetryMode = Literal["standard", "persistent"]
"""How long a provider that fails is tried again: a number of times, or until the turn is ended."""


class Tuning:
    """What was set in one session. None stands for what the settings say."""

    def __init__(self) -> None:
        self.iterations: int | None = None
        self.window: int | None = None
        self.retry_mode: RetryMode | None = None
        self.ceiling = Ceiling()
        self._off: frozenset[str] = frozenset()
        self._model: str | None = None
        self._instead: str | None = None

    def set_iterations(self, most: int | None) -> None:
        """A turn may make this many model calls, from 1."""
        self.iterations = most

    def set_window(self, tokens: int | None) -> None:
        """A conversation is summarised as if the model's window had no more tokens than this."""
        self.window = tokens

    def set_retry_mode(self, mode: RetryMode | None) -> None:
        """Calls that fail are tried again in this way."""
        self.retry_mode = mode

    def set_ceiling(self, ceiling: Ceiling) -> None:
        """No more than this may be used."""
        self.ceiling = ceiling

    def set_model(self, model: str | None, instead: str | None) -> None:
        """`model` answers messages that ask for the model `instead`; None: for what the next one asks for.

        Both are ``provider/model``.
        """
        self._model, self._instead = model, instead

    def model_for(self, asked: str) -> str:
        """Return the model that answers a message which asks for `asked`.

        A message that asks for another one than those before it is a person's choice, made later: what was set
        is forgotten.
        """
        if self._model is None:
            return asked
        if self._instead is None:
            self._instead = asked
        elif self._instead != asked:
            self.set_model(None, None)
        return self._model or asked

    @property
    def model(self) -> str | None:
        """The model that was set."""
        return self._model

    def switch_off(self, permissions: Iterable[str]) -> None:
        """Tools that need one of these permissions are offered no more."""
        self._off |= frozenset(permissions)

    def is_off(self, permission: str) -> bool:
        """Whether tools that need a permission were switched off."""
        return permission in self._off

    def limits(self, limits: Limits) -> Limits:
        """Return the limits that hold in the session, of those that hold everywhere."""
        if self.iterations is None and self.ceiling == Ceiling():
            return limits
        return msgspec.structs.replace(
            limits,
            steps=self.iterations or limits.steps,
            session=tighter(limits.session, self.ceiling),
            own=self.ceiling,
        )


def tighter(one: Ceiling, other: Ceiling) -> Ceiling:
    """Return the ceiling that both hold."""
    tokens = [given for given in (one.tokens, other.tokens) if given is not None]
    cost = [given for given in (one.cost, other.cost) if given is not None]
    return Ceiling(min(tokens, default=None), min(cost, default=None))
