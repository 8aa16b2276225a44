"""The parameters at the top of the tree: iterations, window, model and retries (seed 001, issue 9 item 5)."""

from typing import Any, Final

from instar.instance import Instance
from instar.live import Live
from instar.plugin import Value
from instar.provider.assemble import UnknownModel
from instar.provider.resolve import NoModel
from instar.views.seen import Seen

NEXT: Final = "with the next step of the running turn"
ITERATIONS: Final = (1, 100)
"""The range of ``max_iterations`` (seed 001)."""
WINDOW: Final = (4096, 1_000_000)
"""The range of ``context_window_tokens`` (seed 001)."""


def values(seen: Seen) -> dict[str, Value]:
    """Return the parameters by name."""
    made = Parameters(seen)
    return {
        "max_iterations": Value(
            doc="Model calls of one turn at most; an agent's `steps` and `limits.steps` hold where they are lower.",
            kind={"type": "integer", "minimum": ITERATIONS[0], "maximum": ITERATIONS[1]},
            read=made.iterations,
            write=made.set_iterations,
            default=made.default_iterations,
            when=NEXT,
        ),
        "context_window_tokens": Value(
            doc="The window, in tokens, by which a conversation is summarised; never more than the model's own.",
            kind={"type": "integer", "minimum": WINDOW[0], "maximum": WINDOW[1]},
            read=made.window,
            write=made.set_window,
            default=made.default_window,
            when=NEXT,
        ),
        "model": Value(
            doc="The model that answers, provider/model, until a message asks for another one.",
            kind={"type": "string", "minLength": 1, "maxLength": 512},
            read=made.model,
            write=made.set_model,
            default=made.default_model,
            when=NEXT,
        ),
        "provider_retry_mode": Value(
            doc="How long a provider that fails is tried again: `standard` 5 times, `persistent` until the turn ends.",
            kind={"type": "string", "enum": ["standard", "persistent"]},
            read=made.retry_mode,
            write=made.set_retry_mode,
            default=lambda session_id: seen.instance.config.provider_retry_mode,
            when="at once, also for a call that is being tried again",
        ),
    }


class Parameters:
    """Reads what holds in a session, and sets it. What is set to its default is as if it was never set."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    @property
    def _instance(self) -> Instance:
        return self._seen.instance

    async def iterations(self, session_id: str) -> int:
        """Return how many model calls a turn may make now."""
        live = await self._seen.live(session_id)
        return _least(live.tuning.iterations or self._instance.limits.steps, self._steps(live))

    async def default_iterations(self, session_id: str) -> int:
        """Return how many it may make where nothing is set."""
        return _least(self._instance.limits.steps, self._steps(await self._seen.live(session_id)))

    def set_iterations(self, session_id: str, most: int) -> None:
        """Let turns make this many. Raises `ValueError` where a limit or the agent allows fewer."""
        live = self._seen.known(session_id)
        held = self._instance.config.limits.get("steps")
        if held is not None and most > self._instance.limits.steps:
            raise ValueError(f"limits.steps allows {self._instance.limits.steps}, and it guards")
        steps = self._steps(live)
        # A sub-agent takes over what its caller set before it is asked anything: its own steps hold all the same.
        if steps is not None and most > steps and self._seen.asked(live) is not None:
            raise ValueError(f"the agent's own steps allow {steps}")
        live.tuning.set_iterations(None if most == _least(self._instance.limits.steps, steps) else most)

    def _steps(self, live: Live) -> int | None:
        agent = self._seen.agent(live)
        return None if agent is None else agent.steps

    async def window(self, session_id: str) -> int:
        """Return the window by which the conversation is summarised now."""
        live = await self._seen.live(session_id)
        return _least(live.tuning.window or self._own_window(live), self._known_window(live))

    async def default_window(self, session_id: str) -> int:
        """Return the model's own window, or the configured one where that is not known."""
        return self._own_window(await self._seen.live(session_id))

    def set_window(self, session_id: str, tokens: int) -> None:
        """Summarise by this window. Raises `ValueError` where the model has less."""
        live = self._seen.known(session_id)
        if self._seen.asked(live) is None:
            live.tuning.set_window(tokens)
            return
        own = self._known_window(live)
        if own is not None and tokens > own:
            raise ValueError(f"{self._seen.model(live).ref} has a window of {own} tokens")
        live.tuning.set_window(None if tokens == self._own_window(live) else tokens)

    def _known_window(self, live: Live) -> int | None:
        """The model's own window, within the range; None where it is not known."""
        limit = self._seen.model(live).limit
        own = limit.input or limit.context
        return max(WINDOW[0], min(own, WINDOW[1])) if own else None

    def _own_window(self, live: Live) -> int:
        return self._known_window(live) or self._instance.config.context_window_tokens

    async def model(self, session_id: str) -> str:
        """Return the model that the next step calls."""
        return self._seen.model(await self._seen.live(session_id)).ref

    async def default_model(self, session_id: str) -> str:
        """Return the model that the session's last message asks for."""
        return self._found(self._seen.named(await self._seen.live(session_id)))

    def set_model(self, session_id: str, name: str) -> None:
        """Call this model from the next step on. Raises `ValueError` naming the nearest for one that is not known."""
        live = self._seen.known(session_id)
        found = self._found(name.strip())
        self._check(found)
        if self._seen.asked(live) is None:
            live.tuning.set_model(found, None)
            return
        named = self._seen.named(live)
        if found == self._found(named):
            live.tuning.set_model(None, None)
        else:
            live.tuning.set_model(found, named)

    def _check(self, name: str) -> None:
        """Raise `ValueError` for a model that no call would reach, or that only a person may choose."""
        provider_id = name.partition("/")[0]
        if provider_id in self._instance.config.foreign:
            raise ValueError(
                f"{provider_id} is a provider of a project that is not trusted; a person may choose it"
            )
        if provider_id not in {model.provider_id for model in self._instance.models.list()}:
            raise ValueError(f"{provider_id} cannot be called here: it has no key")

    def _found(self, name: str) -> str:
        try:
            return self._instance.models.find(name).ref
        except (UnknownModel, NoModel) as error:
            raise ValueError(str(error)) from None

    async def retry_mode(self, session_id: str) -> str:
        """Return how long a provider that fails is tried again."""
        live = await self._seen.live(session_id)
        return live.tuning.retry_mode or self._instance.config.provider_retry_mode

    def set_retry_mode(self, session_id: str, mode: Any) -> None:
        """Try again in this way."""
        own = self._instance.config.provider_retry_mode
        self._seen.known(session_id).tuning.set_retry_mode(None if mode == own else mode)


def _least(one: int, other: int | None) -> int:
    return one if other is None else min(one, other)
