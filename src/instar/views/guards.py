"""What guards the runtime: it may be looked at and, where that is sound, tightened; never loosened (issue 9, item 2).

A guard that was tightened stays so until the session is no longer used, also in the sub-agents that it starts.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from instar.live import Live
from instar.plugin import Branch, Value, View, wire
from instar.tuning import tighter
from instar.usage import Ceiling
from instar.views.seen import Seen

WEB: Final = ("webfetch", "websearch", "web_search", "codesearch")
"""Permissions of tools that reach the web, also of plugins that call theirs so."""
EXEC: Final = ("bash",)
"""Permissions of tools that run commands."""


def views(seen: Seen, trusted: Callable[[Path], bool]) -> list[View]:
    """Return the views of what guards."""
    guards = Guards(seen)
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


def _limits(guards: "Guards") -> dict[str, Any]:
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


class Guards:
    """Reads and tightens what guards a session."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def switch(self, permissions: Iterable[str], what: str) -> Value:
        """Return the switch of the tools that need one of `permissions`."""

        async def read(session_id: str) -> bool:
            offered = self.seen.tools(await self.seen.live(session_id))
            return any((tool.permission or name) in permissions for name, tool in offered.items())

        def write(session_id: str, on: bool) -> None:
            if not on:
                self.seen.known(session_id).tuning.switch_off(permissions)

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
                tuning = self.seen.known(session_id).tuning
                tuning.set_ceiling(tighter(tuning.ceiling, Ceiling(**{name: most})))

        return Value(
            doc=f"The most {'tokens' if name == 'tokens' else 'US dollars'}; None is no limit.",
            kind=kind,
            read=read,
            write=write,
            guard="tighten",
            tighter=lambda old, new: old is None or new <= old,
            when="with the next model call",
        )

    def _held(self, live: Live) -> Ceiling:
        return tighter(self.seen.instance.limits.session, live.tuning.ceiling)

    async def level(self, session_id: str) -> str:
        """Return how far the machine lets commands be confined."""
        return (await self.seen.instance.children.level()).name

    async def rules(self, session_id: str) -> list[str]:
        """Return the rules, one line each."""
        live = await self.seen.live(session_id)
        agent = self.seen.agent(live)
        rules = [*(() if agent is None else agent.permission), *(live.session.permission or ())]
        return [f"{rule.permission} {rule.pattern} {rule.action}" for rule in rules]
