"""The parameters at the top of the tree: iterations, window, model and retries (``docs/self.md``)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from instar.definitions.agent import Agent, UnknownAgent
from instar.limits.budget import (
    Ceiling,
    tighter,
)
from instar.message import Assistant, User
from instar.plugin import Branch, Tool, Value, View, wire
from instar.provider.protocol import Model
from instar.provider.resolve import NoModel, UnknownModel
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.store import Share
from instar.turn import compaction
from instar.turn.context import Turn, answering, available

NEXT: Final = "with the next step of the running turn"
ITERATIONS: Final = (1, 100)
"""The range of ``max_iterations``."""
WINDOW: Final = (4096, 1_000_000)
"""The range of ``context_window_tokens``."""
WEB: Final = ("webfetch", "websearch", "web_search", "codesearch")
"""Permissions of tools that reach the web, also of plugins that call theirs so."""
EXEC: Final = ("bash",)
"""Permissions of tools that run commands."""


class Inspected:
    """The sessions of an instance, for their views."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    async def live(self, session_id: str) -> SessionState:
        """Return the session that asks. Raises `NotFound`."""
        return await self.instance.sessions.open(session_id)

    def known(self, session_id: str) -> SessionState:
        """Return the session that asks, which is open. Raises `ValueError`."""
        live = self.instance.sessions.known(session_id)
        if live is None:
            raise ValueError("the session is not open here")
        return live

    def asked(self, live: SessionState) -> User | None:
        """Return the message that is answered now, or was last."""
        return next((m.info for m in reversed(live.history) if isinstance(m.info, User)), None)

    def agent(self, live: SessionState) -> Agent | None:
        """Return the agent that answers; None for one that is gone."""
        asked = self.asked(live)
        try:
            return self.instance.agents.get(live.session.agent if asked is None else asked.agent)
        except UnknownAgent:
            return None

    def model(self, live: SessionState) -> Model:
        """Return the model that the next step calls. Raises `UnknownModel`, `NoModel`."""
        asked = self.asked(live)
        if asked is not None:
            return answering(self.instance, live, asked)
        return self.instance.models.find(live.overrides.model or self.named(live))

    def named(self, live: SessionState) -> str:
        """Return the model that the session asks for, ``provider/model``. Raises `NoModel`."""
        asked = self.asked(live)
        if asked is not None:
            return f"{asked.model.provider_id}/{asked.model.model_id}"
        chosen = live.session.model
        return self.instance.models.default().ref if chosen is None else f"{chosen.provider_id}/{chosen.id}"

    def turn(self, live: SessionState) -> Turn | None:
        """Return the turn that runs, or ran last; None before the first one. Raises as `model`."""
        asked, agent = self.asked(live), self.agent(live)
        if asked is None or agent is None:
            return None
        return Turn(live, agent, self.model(live), asked, self.step(live))

    def step(self, live: SessionState) -> int:
        """Return how many steps the turn has made, the one that runs included."""
        asked = self.asked(live)
        if asked is None:
            return 0
        answers = (m.info for m in live.history if isinstance(m.info, Assistant))
        return sum(answer.parent_id == asked.id for answer in answers)

    def tools(self, live: SessionState) -> dict[str, Tool]:
        """Return the tools that the next step offers; before the first one all there are. Raises as `model`."""
        turn = self.turn(live)
        if turn is None:
            return {**self.instance.tools, **self.instance.plugins.tools()}
        return available(self.instance, turn)


def values(seen: Inspected) -> dict[str, Value]:
    """Return the parameters by name."""
    made = _ParameterViews(seen)
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


class _ParameterViews:
    """Reads and sets a session's parameters. Setting one to its default removes the override."""

    def __init__(self, seen: Inspected) -> None:
        self._seen = seen

    @property
    def _instance(self) -> Instance:
        return self._seen.instance

    async def iterations(self, session_id: str) -> int:
        """Return how many model calls a turn may make now."""
        live = await self._seen.live(session_id)
        return _least(live.overrides.iterations or self._instance.limits.steps, self._steps(live))

    async def default_iterations(self, session_id: str) -> int:
        """Return how many it may make by default."""
        return _least(self._instance.limits.steps, self._steps(await self._seen.live(session_id)))

    def set_iterations(self, session_id: str, most: int) -> None:
        """Set how many model calls a turn may make. Raises `ValueError` if a limit or the agent allows fewer."""
        live = self._seen.known(session_id)
        held = self._instance.config.limits.get("steps")
        if held is not None and most > self._instance.limits.steps:
            raise ValueError(f"limits.steps allows {self._instance.limits.steps}, and it guards")
        steps = self._steps(live)
        # A sub-agent takes over what its caller set before it is asked anything: its own steps hold all the same.
        if steps is not None and most > steps and self._seen.asked(live) is not None:
            raise ValueError(f"the agent's own steps allow {steps}")
        live.overrides.iterations = None if most == _least(self._instance.limits.steps, steps) else most

    def _steps(self, live: SessionState) -> int | None:
        agent = self._seen.agent(live)
        return None if agent is None else agent.steps

    async def window(self, session_id: str) -> int:
        """Return the window by which the conversation is summarised now."""
        live = await self._seen.live(session_id)
        return _least(live.overrides.window or self._own_window(live), self._known_window(live))

    async def default_window(self, session_id: str) -> int:
        """Return the model's own window, or the configured one where that is not known."""
        return self._own_window(await self._seen.live(session_id))

    def set_window(self, session_id: str, tokens: int) -> None:
        """Set the window for summaries. Raises `ValueError` if the model's is smaller."""
        live = self._seen.known(session_id)
        if self._seen.asked(live) is None:
            live.overrides.window = tokens
            return
        own = self._known_window(live)
        if own is not None and tokens > own:
            raise ValueError(f"{self._seen.model(live).ref} has a window of {own} tokens")
        live.overrides.window = None if tokens == self._own_window(live) else tokens

    def _known_window(self, live: SessionState) -> int | None:
        """The model's own window, within the range; None where it is not known."""
        limit = self._seen.model(live).limit
        own = limit.input or limit.context
        return max(WINDOW[0], min(own, WINDOW[1])) if own else None

    def _own_window(self, live: SessionState) -> int:
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
            live.overrides.set_model(found, None)
            return
        named = self._seen.named(live)
        if found == self._found(named):
            live.overrides.set_model(None, None)
        else:
            live.overrides.set_model(found, named)

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
        """Return how long a failing provider is retried."""
        live = await self._seen.live(session_id)
        return live.overrides.retry_mode or self._instance.config.provider_retry_mode

    def set_retry_mode(self, session_id: str, mode: Any) -> None:
        """Set how failing providers are retried."""
        own = self._instance.config.provider_retry_mode
        self._seen.known(session_id).overrides.retry_mode = None if mode == own else mode


def _least(one: int, other: int | None) -> int:
    return one if other is None else min(one, other)


def guard_views(seen: Inspected, trusted: Callable[[Path], bool]) -> list[View]:
    """Return the views of what guards."""
    guards = _GuardViews(seen)
    children = seen.instance.children
    sandbox = {
        "level": Value(doc="How far commands are confined here.", read=guards.level, scope="instance"),
        "at_most": Value(
            doc="The best level that the settings ask for.",
            read=lambda session_id: children.at_most,
            scope="instance",
        ),
    }
    return [
        View("web_config", "The tools that reach the web.", {"enable": guards.switch(WEB, "the web")}),
        View(
            "exec_config",
            "The tools that run commands.",
            {"enable": guards.switch(EXEC, "commands"), "sandbox": Branch("How they are confined.", sandbox)},
        ),
        View("limits", "What may be used.", _limits(guards)),
        View(
            "permission",
            "What the tools may do.",
            {
                "rules": Value(
                    doc="The rules that hold for the session's agent, the last that fits decides.",
                    read=guards.rules,
                )
            },
        ),
        View(
            "trust",
            "Whose code may run.",
            {
                "project": Value(
                    doc="Whether the person trusts this project's own plugins, hooks and settings.",
                    read=lambda session_id: trusted(seen.instance.directory),
                    scope="instance",
                )
            },
        ),
    ]


def _limits(guards: "_GuardViews") -> dict[str, Any]:
    limits = guards.seen.instance

    def told(doc: str, read: Callable[[], Any]) -> Value:
        return Value(doc=doc, read=lambda session_id: read(), scope="instance")

    session = {
        "tokens": guards.ceiling("tokens", {"type": "integer", "minimum": 1}),
        "cost": guards.ceiling("cost", {"type": "number", "minimum": 0.000001}),
    }
    return {
        "session": Branch("What the session and its sub-agents may use in all.", session),
        "steps": told("Model calls of a turn where max_iterations is not set.", lambda: limits.limits.steps),
        "calls": told("Model calls in a row without a person.", lambda: limits.limits.calls),
        "failures": told(
            "Failures in a row after which what nobody asked for waits.", lambda: limits.limits.failures
        ),
        "minutes": told("Minutes of a turn; None is no limit.", lambda: limits.limits.minutes),
        "day": told("What 24 hours may use.", lambda: wire.to_plain(limits.limits.day)),
        "heartbeat": told("What one heartbeat may use.", lambda: wire.to_plain(limits.limits.heartbeat)),
        "cause": told("What a cause may use in 24 hours.", lambda: wire.to_plain(dict(limits.limits.cause))),
    }


class _GuardViews:
    """Reads and tightens what guards a session."""

    def __init__(self, seen: Inspected) -> None:
        self.seen = seen

    def switch(self, permissions: Iterable[str], what: str) -> Value:
        """Return the switch of the tools that need one of `permissions`."""

        async def read(session_id: str) -> bool:
            offered = self.seen.tools(await self.seen.live(session_id))
            return any((tool.permission or name) in permissions for name, tool in offered.items())

        def write(session_id: str, on: bool) -> None:
            if not on:
                self.seen.known(session_id).overrides.off.update(permissions)

        return Value(
            doc=f"Whether tools for {what} are offered. Once it is off, it stays off.",
            kind={"type": "boolean"},
            read=read,
            write=write,
            guard="tighten",
            tighter=lambda old, new: old is True or new is False,
            when="with the next step of the running turn",
        )

    def ceiling(self, name: str, kind: wire.Plain) -> Value:
        """Return a ceiling of the session."""

        async def read(session_id: str) -> Any:
            return getattr(self._held(await self.seen.live(session_id)), name)

        def write(session_id: str, most: Any) -> None:
            if most is not None:
                overrides = self.seen.known(session_id).overrides
                overrides.ceiling = tighter(overrides.ceiling, Ceiling(**{name: most}))

        return Value(
            doc=f"The most {'tokens' if name == 'tokens' else 'US dollars'}; None is no limit.",
            kind=kind,
            read=read,
            write=write,
            guard="tighten",
            tighter=lambda old, new: old is None or new <= old,
            when="with the next model call",
        )

    def _held(self, live: SessionState) -> Ceiling:
        return tighter(self.seen.instance.limits.session, live.overrides.ceiling)

    async def level(self, session_id: str) -> str:
        """Return the level of confinement on this machine."""
        return (await self.seen.instance.children.level()).name

    async def rules(self, session_id: str) -> list[str]:
        """Return the rules, one line each."""
        live = await self.seen.live(session_id)
        agent = self.seen.agent(live)
        rules = [*(() if agent is None else agent.permission), *(live.session.permission or ())]
        return [f"{rule.permission} {rule.pattern} {rule.action}" for rule in rules]


def cost_view(seen: Inspected) -> View:
    """Return the view of tokens."""
    spending = _CostViews(seen)
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


def cost(seen: Inspected) -> Value:
    """Return the value of the cost."""
    return Value(doc="US dollars of this session's answers.", read=_CostViews(seen).cost)


class _CostViews:
    """Readers of one instance."""

    def __init__(self, seen: Inspected) -> None:
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
        root = await self._seen.instance.sessions.root_of(live)
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
