"""The views of evolve: the workspace, and the heartbeat under `dream`, nanobot's name for it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from instar.plugin import Tool, Value, View
from instar.plugins.evolve.engine import EvolveEngine

LAST: Final = 10
"""Beats whose results are shown."""
_ENTRY: Final = ("number", "kind", "at", "end", "why", "tokens", "cost")


def workspace(
    engine: EvolveEngine, tools: Mapping[str, Tool], untold: Callable[[], Any], problems: Any
) -> View:
    """Return the view of the workspace. It is only read: what changes it goes through the gate."""
    return View(
        "evolve",
        "The evolve workspace: its scripts, their tools, and what is wrong with them.",
        {
            "active": _value("Whether it is in use here.", lambda: True),
            "workspace": _value("Its folder.", lambda: str(engine.real.root)),
            "safe": _value(
                "Whether this run is a safe start, with none of the agent's changes.",
                lambda: engine.safe is not None,
            ),
            "epoch": _value("The number of the accepted version.", lambda: engine.storage.ledger.epoch),
            "scripts": _value(
                "Its hook scripts.", lambda: [one.file for one in engine.scripts.registrations]
            ),
            "tools": _value("The tools of its scripts and its own.", lambda: list(tools)),
            "untold": _value("Notices that were not shown yet.", untold),
            "problems": _value("What is wrong now, one sentence for each problem.", problems),
        },
    )


def heartbeat(engine: EvolveEngine) -> View:
    """Return the view of the heartbeat and its last results, which nanobot calls `dream`."""
    book = engine.storage.heartbeat
    return View(
        "dream",
        "The heartbeat: prompts that nobody types, on a timer.",
        {
            "active": _value(
                "Whether the timer is on.", lambda: book.state.every > 0 and book.state.paused is None
            ),
            "every": _value(
                "Milliseconds between two beats; below 1 the timer is off.", lambda: book.state.every
            ),
            "due": _value(
                "When the next beat is due (ms); None while the timer is off.", lambda: book.state.due
            ),
            "last": _value("When the last beat began (ms).", lambda: book.state.last),
            "paused": _value(
                "Why it is paused; empty if it is not.",
                lambda: book.state.paused.why if book.state.paused else "",
            ),
            "results": _value(
                "The results of the last beats, oldest first.",
                lambda: [{name: getattr(one, name) for name in _ENTRY} for one in book.entries(LAST)],
            ),
        },
    )


def _value(doc: str, read: Callable[[], Any]) -> Value:
    return Value(doc=doc, read=lambda session_id: read(), scope="instance")
