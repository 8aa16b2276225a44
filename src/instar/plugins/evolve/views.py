"""The views of evolve: the workspace, and the heartbeat under `dream`, nanobot's name for it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from instar.plugin import Tool, Value, View
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.heartbeat.schedule import BeatEntry

LAST: Final = 10
"""Beats whose results are shown."""


def workspace(
    engine: EvolveEngine, tools: Mapping[str, Tool], untold: Callable[[], Any], problems: Any
) -> View:
    """Return the view of the workspace. It is only read: what changes it goes through the gate."""

    def told(doc: str, read: Callable[[], Any]) -> Value:
        return Value(doc=doc, read=lambda session_id: read(), scope="instance")

    return View(
        "evolve",
        "The evolve workspace: its scripts, their tools, and what is wrong with them.",
        {
            "active": told("Whether it is in use here.", lambda: True),
            "workspace": told("Its folder.", lambda: str(engine.real.root)),
            "safe": told(
                "Whether this run goes by the last version a person stood behind.",
                lambda: engine.safe is not None,
            ),
            "epoch": told("The number of the version that is in force.", lambda: engine.books.ledger.epoch),
            "scripts": told("Its hook scripts.", lambda: [one.file for one in engine.scripts.registrations]),
            "tools": told("The tools that it gives.", lambda: list(tools)),
            "untold": told("Notices that nobody was told of yet.", untold),
            "problems": told("What is wrong now, a sentence each.", problems),
        },
    )


def heartbeat(engine: EvolveEngine) -> View:
    """Return the view of the heartbeat and its last results, which nanobot calls `dream`."""
    book = engine.books.heartbeat

    def told(doc: str, read: Callable[[], Any]) -> Value:
        return Value(doc=doc, read=lambda session_id: read(), scope="instance")

    return View(
        "dream",
        "The heartbeat: prompts that nobody types, on a timer.",
        {
            "active": told(
                "Whether the timer is on.", lambda: book.state.every > 0 and book.state.paused is None
            ),
            "every": told(
                "Milliseconds between two beats; below 1 the timer is off.", lambda: book.state.every
            ),
            "due": told(
                "When the next beat is due (ms); None while the timer is off.", lambda: book.state.due
            ),
            "last": told("When the last beat began (ms).", lambda: book.state.last),
            "paused": told(
                "Why it is paused; empty when it is not.",
                lambda: book.state.paused.why if book.state.paused else "",
            ),
            "results": told(
                "What became of the last beats, oldest first.",
                lambda: [_entry(one) for one in book.entries(LAST)],
            ),
        },
    )


def _entry(entry: BeatEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "kind": entry.kind,
        "at": entry.at,
        "end": entry.end,
        "why": entry.why,
        "tokens": entry.tokens,
        "cost": entry.cost,
    }
