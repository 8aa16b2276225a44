"""What model calls used, summed by the database: for `instar stats`, fast with many calls.

Every number comes from `instar_usage`, which keeps what deleted sessions spent.
"""

# ruff: noqa: S608 - the texts are our own

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.api.stats import EvolutionSum, SpentCacheTokens, SpentLine, SpentSum, SpentTokens
from instar.store.database import SqlConnection


class Wanted(msgspec.Struct, frozen=True):
    """Which calls are meant: from `since` to before `until` (ms), of a session and its sub-agents, of a project.

    `project` is a project's id; `folder` takes in the sessions at and below it besides.
    """

    since: int = 0
    until: int | None = None
    session: str = ""
    project: str = ""
    folder: str = ""


class Step(msgspec.Struct, frozen=True):
    """A tool call of a session, to find the step that made it; `message` is that step's, "" where it is not known."""

    session: str
    call: str
    message: str = ""


_KEYS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "day": ("", "NULL"),
        "session": ("u.session_id", "max(s.title)"),
        "agent": ("u.agent", "NULL"),
        "model": ("u.provider_id || '/' || u.model_id", "NULL"),
        "cause": ("u.cause", "NULL"),
        "origin": ("u.origin || CASE WHEN u.source = '' THEN '' ELSE ' > ' || u.source END", "NULL"),
    }
)
BY: Final = tuple(_KEYS)
"""What calls can be summed by. `cause` is what a call was for, `origin` who set it off and what made it go on."""

KINDS: Final = ("input", "output", "reasoning", "cache_read", "cache_write")
"""The kinds of tokens."""
FIGURES: Final = ("calls", "cost", "unpriced", *KINDS)
"""What `metered` sums; `unpriced` counts the calls without a known price, which are not in the `cost`."""

_TOKENS: Final = (
    "tokens_input",
    "tokens_output",
    "tokens_reasoning",
    "tokens_cache_read",
    "tokens_cache_write",
)
_SUMS: Final = f"""count(*), count(DISTINCT nullif(u.session_id, '')),
  {", ".join(f"coalesce(sum(u.{column}), 0)" for column in _TOKENS)}, coalesce(sum(u.cost), 0.0),
  count(*) - count(u.cost)"""
_FROM: Final = """FROM instar_usage u LEFT JOIN session s ON s.id = u.session_id
WHERE u.time_created >= :since AND (CAST(:until AS bigint) IS NULL OR u.time_created < :until)
  AND (:session = '' OR u.session_id = :session OR u.root_id = :session)
  AND (:project = '' AND :folder = '' OR s.project_id = :project AND :project <> ''
    OR :folder <> '' AND (s.directory = :folder OR substr(s.directory, 1, length(:folder) + 1) = :folder || '/'))"""


def metered(after: int, connection: SqlConnection) -> tuple[int, list[tuple[str, str, dict[str, float]]]]:
    """Return the sums of the calls that were booked after a place in the book, by model and origin, and its end.

    The first call asks for those after 0. Calls are only ever added, so each place is summed once. A sum is given by
    the names of its `FIGURES`; an origin is one of person, heartbeat, action, plugin …
    """
    (end,) = connection.execute("SELECT coalesce(max(position), 0) FROM instar_usage").fetchone()
    statement = f"""SELECT provider_id || '/' || model_id, origin, count(*), coalesce(sum(cost), 0.0),
  count(*) - count(cost), {", ".join(f"coalesce(sum({column}), 0)" for column in _TOKENS)}
FROM instar_usage WHERE position > ? AND position <= ? GROUP BY provider_id, model_id, origin ORDER BY 3 DESC"""
    rows = connection.execute(statement, (after, end)).fetchall()
    return end, [
        (model, origin, dict(zip(FIGURES, map(float, figures), strict=True)))
        for model, origin, *figures in rows
    ]


def total(wanted: Wanted, connection: SqlConnection) -> tuple[SpentSum, int, int]:
    """Return the sum of all calls that are wanted, and the times (ms) of the first and the last one, 0 without any."""
    statement = f"SELECT {_SUMS}, coalesce(min(u.time_created), 0), coalesce(max(u.time_created), 0) {_FROM}"
    row = connection.execute(statement, msgspec.structs.asdict(wanted)).fetchone()
    return SpentSum(**_spent(row)), row[-2], row[-1]


def lines(by: str, wanted: Wanted, connection: SqlConnection) -> list[SpentLine]:
    """Return the sums by one of `BY`: days in order, all else dearest first, then by tokens."""
    key, label = _KEYS[by]
    key = key or connection.day("u.time_created")
    order = (
        "1" if by == "day" else "coalesce(sum(u.cost), 0) DESC, sum(u.tokens_input + u.tokens_output) DESC, 1"
    )
    statement = f"SELECT {key}, {label}, {_SUMS} {_FROM} GROUP BY 1 ORDER BY {order}"
    found = connection.execute(statement, msgspec.structs.asdict(wanted)).fetchall()
    return [SpentLine(key=row[0], title=row[1] or msgspec.UNSET, **_spent(row[2:])) for row in found]


def unpriced(wanted: Wanted, connection: SqlConnection) -> dict[str, int]:
    """Return how many calls of which models had no known price."""
    statement = (
        f"SELECT {_KEYS['model'][0]}, count(*) {_FROM} AND u.cost IS NULL GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return dict(connection.execute(statement, msgspec.structs.asdict(wanted)).fetchall())


def tools(wanted: Wanted, connection: SqlConnection) -> dict[str, int]:
    """Return how often which tool was called, most often first; reads every part that is wanted."""
    tool, kind = connection.field("p.data", "tool"), connection.field("p.data", "type")
    statement = f"""SELECT {tool}, count(*) FROM part p JOIN session s ON s.id = p.session_id
WHERE {kind} = 'tool' AND p.time_created >= :since AND (CAST(:until AS bigint) IS NULL OR p.time_created < :until)
  AND (:session = '' OR s.id = :session OR s.parent_id = :session)
  AND (:project = '' AND :folder = '' OR s.project_id = :project AND :project <> ''
    OR :folder <> '' AND (s.directory = :folder OR substr(s.directory, 1, length(:folder) + 1) = :folder || '/'))
GROUP BY 1 ORDER BY 2 DESC, 1"""
    return dict(connection.execute(statement, msgspec.structs.asdict(wanted)).fetchall())


def of_steps(kind: str, steps: Collection[Step], wanted: Wanted, connection: SqlConnection) -> EvolutionSum:
    """Return what the steps that made these tool calls used, each once, and how many of the calls are unknown.

    A call whose message is not named is unknown when that, or its session, was deleted.
    """
    found = {
        (row[0], row[1]): row[2]
        for row in _calls({step.session for step in steps if not step.message}, connection)
    }
    known = [step.message or found.get((step.session, step.call)) for step in steps]
    ids = json.dumps(sorted({message for message in known if message is not None}))
    statement = f"SELECT {_SUMS} {_FROM} AND u.message_id IN ({connection.listed(':ids')})"
    row = connection.execute(statement, {**msgspec.structs.asdict(wanted), "ids": ids}).fetchone()
    return EvolutionSum(kind=kind, unknown=known.count(None), **_spent(row))


def _calls(sessions: Collection[str], connection: SqlConnection) -> list[tuple[str, str, str]]:
    """Each tool call of sessions: its session, its id and its message."""
    call, kind = connection.field("data", "callID"), connection.field("data", "type")
    statement = f"""SELECT session_id, {call}, message_id FROM part
WHERE session_id IN ({connection.listed("?")}) AND {kind} = 'tool'"""
    found: list[tuple[str, str, str]] = connection.execute(
        statement, (json.dumps(sorted(sessions)),)
    ).fetchall()
    return found


def _spent(row: Sequence[Any]) -> dict[str, Any]:
    """The fields of a `SpentSum`."""
    # PostgreSQL's sum of whole numbers is a decimal one.
    calls, sessions, given, said, thought, read, written = map(int, row[:7])
    whole = given + read + written
    return {
        "calls": calls,
        "sessions": sessions,
        "tokens": SpentTokens(given, said, thought, SpentCacheTokens(read, written)),
        "cached": read / whole if whole else None,
        "cost": row[7],
        "unpriced": row[8],
    }


def sessions(text: str, connection: SqlConnection) -> list[str]:
    """Return the ids of the sessions that `text` may mean: an id, the beginning of one, or a slug.

    Deleted sessions count while calls of theirs are booked.
    """
    statement = """SELECT id FROM session WHERE substr(id, 1, length(:text)) = :text OR slug = :text
UNION SELECT session_id FROM instar_usage WHERE substr(session_id, 1, length(:text)) = :text ORDER BY 1"""
    found = [row[0] for row in connection.execute(statement, {"text": text}).fetchall()]
    return [text] if text in found else found
