"""What the rooms of the core show of themselves, and what of it may be set or called (``docs/reference/self.md``).

Readers return plain data of the session that asks; other sessions are counted at most. A flagship shows its own room;
where it is not in use, its branch says so.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from instar.definitions.agent import Agent, UnknownAgent
from instar.limits.budget import Ceiling, tighter
from instar.message import Assistant, CompactionPart, User, WithParts, newest_user
from instar.plugin import Branch, Method, Registry, Tool, Value, View, wire
from instar.provider.protocol import Model
from instar.provider.resolve import NoModel, UnknownModel
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.session.subagent import at_work
from instar.store import Share
from instar.turn import compaction
from instar.turn.context import Turn, answering, available, compose
from instar.turn.turns import Turns

FLAGSHIPS: Final = {
    "evolve": "The evolve workspace",
    "dream": "The heartbeat of an evolve workspace",
    "hooks": "The rules of hooks",
}
"""Branches that a flagship declares where it is in use."""
UNUSED: Final = "unused"
"""Under which name stands what `complete` adds."""
NEXT: Final = "with the next step of the running turn"
WINDOW: Final = (4096, 1_000_000)
"""The range of ``context_window_tokens``."""
WEB: Final = ("webfetch", "websearch", "web_search", "codesearch")
"""Permissions of tools that reach the web, also of plugins that call theirs so."""
_KEY: Final[wire.Plain] = {
    "type": "object",
    "properties": {
        "session_key": {"type": "string", "minLength": 1, "description": "The session's id, or a sub-agent's"}
    },
    "required": ["session_key"],
    "additionalProperties": False,
}
_NOTHING: Final[wire.Plain] = {"type": "object", "properties": {}, "additionalProperties": False}


def declare(registry: Registry, instance: Instance, turns: Turns, trusted: Callable[[Path], bool]) -> None:
    """Add the views of the core's rooms. Nothing is read before somebody asks."""
    seen = Inspected(instance)
    top = {
        **_parameters(seen),
        "commands": _here(
            "The commands that a person may call, with their purpose.",
            lambda: {command.name: command.description for command in instance.commands.all()},
        ),
        "cost": seen.value("Cost of this session's answers in US dollars.", lambda live: live.session.cost),
    }
    tools = seen.value(
        "The tools that the next step offers, each with the first line of its description.",
        lambda live: {
            name: next(iter(tool.description.strip().splitlines()), "")
            for name, tool in seen.tools(live).items()
        },
        counted="registered",
        when="changed by the action manage_tool, with the next step",
    )
    prompt = Method(
        doc="The system prompt of the last request; before the first one, that of the next.",
        parameters=_NOTHING,
        run=seen.prompt,
    )
    for view in (
        View("parameters", "What a session may set of its turns, and what stands beside that.", top, path=""),
        View("subagents", "The sub-agents that work for this session.", _subagents(seen, turns)),
        View("tools", "The tools of this session.", {"registered": tools}),
        View("context", "What a step sends to the model.", {"build_system_prompt": prompt}),
        View("sessions", "This session, and its own sub-agents'.", _sessions(seen)),
        View(
            "consolidator", "How the conversation is summarised when it fills the window.", _summaries(seen)
        ),
        View("runner", "The turn that runs.", _turn(seen)),
        *_guards(seen, trusted),
        View("usage", "What was used.", _usage(seen)),
        View("workspace", "Where the session works.", _place(instance)),
    ):
        registry.add_view(view)


def complete(registry: Registry) -> None:
    """Add a branch that says "not in use" for each flagship that declared none."""
    held = {view.at[0] for view in registry.views.values() if view.at}
    for name, what in FLAGSHIPS.items():
        if name not in held and name not in registry.views:
            told = _here("Whether it is in use here.", lambda: False)
            registry.of(UNUSED).add_view(View(name, f"{what}, which is not in use here.", {"active": told}))


def _here(doc: str, read: Callable[[], Any]) -> Value:
    """Return a value of the instance; `read` gives plain data or an awaitable of it."""
    return Value(doc=doc, read=lambda session_id: read(), scope="instance")


class Inspected:
    """The sessions of an instance, for their views."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    def value(
        self,
        doc: str,
        read: Callable[[SessionState], Any],
        *,
        write: Callable[[SessionState, Any], None] | None = None,
        default: Callable[[SessionState], Any] | None = None,
        **more: Any,
    ) -> Value:
        """Return a value of the session that asks: its functions are given that session. `more` as in `Value`."""
        return Value(
            doc=doc,
            read=self._reader(read),
            write=None if write is None else lambda session_id, value: write(self.known(session_id), value),
            default=None if default is None else self._reader(default),
            **more,
        )

    def _reader(self, read: Callable[[SessionState], Any]) -> Callable[[str], Any]:
        async def found(session_id: str) -> Any:
            given = read(await self.instance.sessions.open(session_id))
            return await given if inspect.isawaitable(given) else given

        return found

    def known(self, session_id: str) -> SessionState:
        """Return the session that asks, which is open. Raises `ValueError`."""
        live = self.instance.sessions.known(session_id)
        if live is None:
            raise ValueError("the session is not open here")
        return live

    def agent(self, live: SessionState) -> Agent | None:
        """Return the agent that answers; None for one that is gone."""
        asked = newest_user(live.history)
        try:
            return self.instance.agents.get(live.session.agent if asked is None else asked.agent)
        except UnknownAgent:
            return None

    def steps(self, live: SessionState) -> int | None:
        """Return how many steps the agent that answers may take."""
        agent = self.agent(live)
        return None if agent is None else agent.steps

    def model(self, live: SessionState) -> Model:
        """Return the model that the next step calls. Raises `UnknownModel`, `NoModel`."""
        asked = newest_user(live.history)
        if asked is not None:
            return answering(self.instance, live, asked)
        return self.instance.models.find(live.overrides.model or self.named(live))

    def named(self, live: SessionState) -> str:
        """Return the model that the session asks for, ``provider/model``. Raises `NoModel`."""
        asked = newest_user(live.history)
        if asked is not None:
            return f"{asked.model.provider_id}/{asked.model.model_id}"
        chosen = live.session.model
        return self.instance.models.default().ref if chosen is None else f"{chosen.provider_id}/{chosen.id}"

    def turn(self, live: SessionState) -> Turn | None:
        """Return the turn that runs, or ran last; None before the first one. Raises as `model`."""
        asked, agent = newest_user(live.history), self.agent(live)
        if asked is None or agent is None:
            return None
        return Turn(live, agent, self.model(live), asked, self.step(live))

    def step(self, live: SessionState) -> int:
        """Return how many steps the turn has made, the one that runs included."""
        asked = newest_user(live.history)
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

    def room(self, live: SessionState) -> int:
        """Return the tokens before a summary. Raises as `model`."""
        return compaction.room(self.instance, live, self.model(live))

    async def prompt(self, session_id: str, args: wire.Plain) -> str:
        """Return the system prompt. Raises `ValueError` where no agent answers in the session."""
        live = await self.instance.sessions.open(session_id)
        if live.system is not None:
            return "\n\n".join(live.system)
        turn = self.turn(live)
        if turn is None:
            raise ValueError("nothing was asked in the session yet")
        return "\n\n".join(await compose(self.instance, turn))


def _parameters(seen: Inspected) -> dict[str, Value]:
    """Return the parameters by name. Setting one to its default removes the override."""
    instance = seen.instance

    def window(live: SessionState) -> int:
        return _known_window(seen, live) or instance.config.context_window_tokens

    def set_retry_mode(live: SessionState, mode: Any) -> None:
        own = instance.config.provider_retry_mode
        live.overrides.retry_mode = None if mode == own else mode

    return {
        "max_iterations": seen.value(
            "The most model calls of one turn; an agent's `steps` and `limits.steps` apply if they are lower.",
            lambda live: _least(live.overrides.iterations or instance.limits.steps, seen.steps(live)),
            kind={"type": "integer", "minimum": 1, "maximum": 100},
            write=lambda live, most: _set_iterations(seen, live, most),
            default=lambda live: _least(instance.limits.steps, seen.steps(live)),
            when=NEXT,
        ),
        "context_window_tokens": seen.value(
            "Tokens of context after which a conversation is summarised; never more than the model's window.",
            lambda live: _least(live.overrides.window or window(live), _known_window(seen, live)),
            kind={"type": "integer", "minimum": WINDOW[0], "maximum": WINDOW[1]},
            write=lambda live, tokens: _set_window(seen, live, tokens, window),
            default=window,
            when=NEXT,
        ),
        "model": seen.value(
            "The model that answers, provider/model; it holds until a message names another one.",
            lambda live: seen.model(live).ref,
            kind={"type": "string", "minLength": 1, "maxLength": 512},
            write=lambda live, name: _set_model(seen, live, name),
            default=lambda live: _found(instance, seen.named(live)),
            when=NEXT,
        ),
        "provider_retry_mode": seen.value(
            "How often a failed model call is retried: `standard` 5 times, `persistent` until the turn ends.",
            lambda live: live.overrides.retry_mode or instance.config.provider_retry_mode,
            kind={"type": "string", "enum": ["standard", "persistent"]},
            write=set_retry_mode,
            default=lambda live: instance.config.provider_retry_mode,
            when="at once, also for a call that is being tried again",
        ),
    }


def _set_iterations(seen: Inspected, live: SessionState, most: int) -> None:
    """Set how many model calls a turn may make. Raises `ValueError` if a limit or the agent allows fewer."""
    limits, steps = seen.instance.limits, seen.steps(live)
    if seen.instance.config.limits.get("steps") is not None and most > limits.steps:
        raise ValueError(f"limits.steps allows {limits.steps}, and it guards")
    # A sub-agent takes over what its caller set before it is asked anything: its own steps hold all the same.
    if steps is not None and most > steps and newest_user(live.history) is not None:
        raise ValueError(f"the agent's own steps allow {steps}")
    live.overrides.iterations = None if most == _least(limits.steps, steps) else most


def _known_window(seen: Inspected, live: SessionState) -> int | None:
    """The model's own window, within the range; None where it is not known."""
    limit = seen.model(live).limit
    own = limit.input or limit.context
    return max(WINDOW[0], min(own, WINDOW[1])) if own else None


def _set_window(
    seen: Inspected, live: SessionState, tokens: int, default: Callable[[SessionState], int]
) -> None:
    """Set the window for summaries. Raises `ValueError` if the model's is smaller."""
    if newest_user(live.history) is None:
        live.overrides.window = tokens
        return
    own = _known_window(seen, live)
    if own is not None and tokens > own:
        raise ValueError(f"{seen.model(live).ref} has a window of {own} tokens")
    live.overrides.window = None if tokens == default(live) else tokens


def _set_model(seen: Inspected, live: SessionState, name: str) -> None:
    """Call this model from the next step on. Raises `ValueError` naming the nearest for one that is not known.

    So for a model that no call would reach, and for one that only a person may choose.
    """
    instance = seen.instance
    found = _found(instance, name.strip())
    provider_id = found.partition("/")[0]
    if provider_id in instance.config.foreign:
        raise ValueError(
            f"{provider_id} is a provider of a project that is not trusted; a person may choose it"
        )
    if provider_id not in {model.provider_id for model in instance.models.list()}:
        raise ValueError(f"{provider_id} cannot be called here: it has no key")
    if newest_user(live.history) is None:
        live.overrides.set_model(found, None)
        return
    named = seen.named(live)
    if found == _found(instance, named):
        live.overrides.set_model(None, None)
    else:
        live.overrides.set_model(found, named)


def _found(instance: Instance, name: str) -> str:
    try:
        return instance.models.find(name).ref
    except (UnknownModel, NoModel) as error:
        raise ValueError(str(error)) from None


def _least(one: int, other: int | None) -> int:
    return one if other is None else min(one, other)


def _subagents(seen: Inspected, turns: Turns) -> dict[str, Value | Method]:
    """A session's sub-agents. No session reaches those of another."""
    instance = seen.instance

    async def count(session_id: str, args: wire.Plain) -> int:
        return len(await at_work(instance, session_id))

    async def running(session_id: str) -> wire.Plain:
        return {
            live.id: {
                "title": live.session.title,
                "agent": live.session.agent,
                "since": live.session.time.created,
                "steps": seen.step(live),
            }
            for live in await at_work(instance, session_id)
        }

    async def cancel(session_id: str, args: wire.Plain) -> int:
        # Another session's key matches none.
        key, found = args["session_key"], await at_work(instance, session_id)
        ending = [turns.abort(live, "Ended by its caller") for live in found if key in (session_id, live.id)]
        return sum(await asyncio.gather(*ending))

    return {
        "_running_tasks": Value(
            doc="The session's sub-agents that run now, by the id of their own session.",
            read=running,
            counted="running",
        ),
        "get_running_count": Method(
            doc="The number of the session's sub-agents that run now.", parameters=_NOTHING, run=count
        ),
        "cancel_by_session": Method(
            doc="End the sub-agents of this session, or the one whose session it is, and return how many ended.",
            parameters=_KEY,
            run=cancel,
            acts=True,
        ),
        "available": _here(
            "The agents that can take tasks, with their purpose.",
            lambda: {agent.name: agent.description for agent in instance.agents.subagents()},
        ),
    }


def _sessions(seen: Inspected) -> dict[str, Value]:
    instance = seen.instance

    def current(live: SessionState) -> wire.Plain:
        session = live.session
        return {
            "id": session.id,
            "title": session.title,
            "agent": session.agent,
            "parent": session.parent_id,
            "directory": session.directory,
            "created": session.time.created,
            "updated": session.time.updated,
            "messages": len(live.history),
        }

    async def children(live: SessionState) -> dict[str, str]:
        found = await instance.store.sessions(parent_id=live.id)
        return {session.id: session.title for session in found}

    async def count() -> int:
        return len(await instance.sessions.list())

    return {
        "current": seen.value("The session that asks.", current),
        "children": seen.value("The sessions of its sub-agents by id, ended ones included.", children),
        "count": _here("The number of the project's sessions.", count),
        "busy": _here(
            "The number of sessions with a running turn here.", lambda: len(instance.sessions.running())
        ),
    }


def _summaries(seen: Inspected) -> dict[str, Value]:
    instance = seen.instance

    def last(live: SessionState) -> wire.Plain | None:
        return next(
            (
                {"at": message.info.time.created, "auto": part.auto}
                for message, part in reversed(_asked(live))
            ),
            None,
        )

    return {
        "auto": _here("Whether it happens automatically.", lambda: instance.config.compaction.auto),
        "prune": _here(
            "Whether old tool outputs are cleared first.", lambda: instance.config.compaction.prune
        ),
        "room": seen.value(
            "Tokens that the conversation may fill before it is summarised; context_window_tokens changes it.",
            seen.room,
        ),
        "count": seen.value("The number of summaries in this session.", lambda live: len(_asked(live))),
        "last": seen.value("The last of them: when (ms), and whether it was automatic.", last),
    }


def _asked(live: SessionState) -> list[tuple[WithParts, CompactionPart]]:
    return [
        (message, part)
        for message in live.history
        for part in message.parts
        if isinstance(message.info, User) and isinstance(part, CompactionPart)
    ]


def _turn(seen: Inspected) -> dict[str, Value]:
    async def queued(live: SessionState) -> int:
        return len(await seen.instance.store.follow_ups(live.id))

    return {
        "agent": seen.value(
            "The agent that answers.",
            lambda live: None if (agent := seen.agent(live)) is None else agent.name,
        ),
        "step": seen.value("The number of the step that runs, from 1.", seen.step),
        "status": seen.value(
            "What the session does: busy, retry or idle.",
            lambda live: str(wire.to_plain(live.status)["type"]),
        ),
        "origin": seen.value(
            "The source of the message that is being answered: a person, a heartbeat …",
            lambda live: {"name": live.origin.name, "id": live.origin.id, "source": live.origin.source},
        ),
        "queued": seen.value("Prompts that wait in the session's queue.", queued),
        "seconds": seen.value(
            "Seconds since the turn began, or since a person last spoke in it.",
            lambda live: 0.0 if live.turn is None else round(live.quiet(), 1),
        ),
    }


def _guards(seen: Inspected, trusted: Callable[[Path], bool]) -> list[View]:
    instance = seen.instance

    async def level() -> str:
        return (await instance.children.level()).name

    def rules(live: SessionState) -> list[str]:
        agent = seen.agent(live)
        found = [*(() if agent is None else agent.permission), *(live.session.permission or ())]
        return [f"{rule.permission} {rule.pattern} {rule.action}" for rule in found]

    sandbox = {
        "level": _here("How far commands are confined here.", level),
        "at_most": _here("The highest level that the settings allow.", lambda: instance.children.at_most),
    }
    held = seen.value("The rules for the session's agent; the last one that matches decides.", rules)
    trust = _here(
        "Whether the person trusts this project's own plugins, hooks and settings.",
        lambda: trusted(instance.directory),
    )
    return [
        View("web_config", "The tools that reach the web.", {"enable": _switch(seen, WEB, "the web")}),
        View(
            "exec_config",
            "The tools that run commands.",
            {
                "enable": _switch(seen, ("bash",), "commands"),
                "sandbox": Branch("How commands are confined.", sandbox),
            },
        ),
        View("limits", "What may be used.", _limits(seen)),
        View("permission", "What the tools may do.", {"rules": held}),
        View("trust", "Whose code may run.", {"project": trust}),
    ]


def _limits(seen: Inspected) -> dict[str, Any]:
    instance = seen.instance
    session = {
        "tokens": _ceiling(seen, "tokens", {"type": "integer", "minimum": 1}),
        "cost": _ceiling(seen, "cost", {"type": "number", "minimum": 0.000001}),
    }

    def told(name: str) -> Value:
        return _here(_LIMITS[name], lambda: wire.to_plain(getattr(instance.limits, name)))

    whole = Branch("What the session and its sub-agents may use together.", session)
    return {"session": whole, **{name: told(name) for name in _LIMITS}}


_LIMITS: Final = {
    "steps": "Model calls of a turn if max_iterations is not set.",
    "calls": "Model calls in a row without a person.",
    "failures": "Failures in a row after which automatic prompts wait.",
    "minutes": "Minutes of a turn; None means no limit.",
    "day": "What 24 hours may use.",
    "heartbeat": "What one heartbeat may use.",
    "cause": "What a cause may use in 24 hours.",
}


def _switch(seen: Inspected, permissions: Iterable[str], what: str) -> Value:
    """Return the switch of the tools that need one of `permissions`."""

    def write(live: SessionState, on: bool) -> None:
        if not on:
            live.overrides.off.update(permissions)

    return seen.value(
        f"Whether tools for {what} are offered. Once it is off, it stays off.",
        lambda live: any((tool.permission or name) in permissions for name, tool in seen.tools(live).items()),
        kind={"type": "boolean"},
        write=write,
        guard="tighten",
        tighter=lambda old, new: old is True or new is False,
        when=NEXT,
    )


def _ceiling(seen: Inspected, name: str, kind: wire.Plain) -> Value:
    def write(live: SessionState, most: Any) -> None:
        if most is not None:
            live.overrides.ceiling = tighter(live.overrides.ceiling, Ceiling(**{name: most}))

    return seen.value(
        f"The most {'tokens' if name == 'tokens' else 'US dollars'}; None means no limit.",
        lambda live: getattr(tighter(seen.instance.limits.session, live.overrides.ceiling), name),
        kind=kind,
        write=write,
        guard="tighten",
        tighter=lambda old, new: old is None or new <= old,
        when="with the next model call",
    )


def _usage(seen: Inspected) -> dict[str, Value]:
    async def tree(live: SessionState) -> wire.Plain:
        root = await seen.instance.sessions.root_of(live)
        (found,) = await seen.instance.store.sums([Share("session", root)])
        return {"calls": found.calls, "tokens": found.tokens, "cost": found.cost}

    def share(live: SessionState) -> float:
        answer = _last_whole(live)
        return 0.0 if answer is None else round(compaction.used(answer.tokens) / seen.room(live), 3)

    return {
        "session": seen.value(
            "Tokens of this session's answers.", lambda live: wire.to_plain(live.session.tokens)
        ),
        "last": seen.value(
            "Tokens of its last complete answer.",
            lambda live: None if (answer := _last_whole(live)) is None else wire.to_plain(answer.tokens),
        ),
        "tree": seen.value(
            "Model calls, tokens and US dollars of the session's tree, sub-agents, titles and summaries included.",
            tree,
        ),
        "window": seen.value("The share of the model's window that the last call used, from 0 to 1.", share),
    }


def _last_whole(live: SessionState) -> Assistant | None:
    answers = (m.info for m in reversed(live.history) if isinstance(m.info, Assistant) and m.info.finish)
    return next(answers, None)


def _place(instance: Instance) -> dict[str, Value]:
    project = instance.project
    return {
        "directory": _here("The folder that the runtime works in.", lambda: str(instance.directory)),
        "worktree": _here("The project's folder.", lambda: str(project.worktree)),
        "project": _here("The project's id.", lambda: project.id),
        "vcs": _here("The project's version control: git, or None.", lambda: project.vcs or None),
    }
