"""Booked calls and their running sums: what adds to what, from when on, how fast, and for old databases."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from instar.api.stats import Sum
from instar.message import CacheTokens, Origin, Tokens
from instar.store import (
    DropSession,
    FollowUp,
    PutFollowUp,
    PutMessage,
    PutOrigin,
    PutUsage,
    Share,
    Usage,
)
from instar.store.sqlite import migrations, prepare
from instar.store.store import open_store

HOUR = 3_600_000
TOKENS = Tokens(input=10, output=5, reasoning=3, cache=CacheTokens(read=2, write=1))


OLD = """
INSERT INTO instar_usage (session_id, cause, provider_id, model_id, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, cost, time_created)
VALUES (?, ?, 'p', 'm', 10, 5, 3, 2, 1, ?, ?)
"""
"""A booked call as it was before migration 3."""


def booked(created=0, cost=0.5, **fields):
    known = {"session_id": "ses_2", "message_id": None, "cause": "turn", "root_id": "ses_1"}
    return PutUsage(
        Usage(provider_id="p", model_id="m", tokens=TOKENS, cost=cost, created=created, **{**known, **fields})
    )


BEAT = {"origin": "heartbeat", "origin_id": "12", "source": "evolve.idle"}


async def test_a_call_adds_to_the_sums_of_all_that_it_belongs_to(store) -> None:
    await store.commit([booked(**BEAT), booked(cost=None, cause="title"), booked(session_id="", root_id="")])
    keys = [
        ("session", "ses_1"),
        ("session", "ses_2"),
        ("origin", "heartbeat:12"),
        ("day", ""),
        ("cause", "heartbeat"),
        ("cause", "evolve.idle"),
        ("cause", "turn"),
        ("cause", "person"),
        ("cause", "title"),
        ("cause", "nobody"),
    ]
    found = dict(zip(keys, await store.sums([Share(*key) for key in keys]), strict=True))
    assert {key: (one.calls, one.tokens, one.unpriced) for key, one in found.items()} == {
        ("session", "ses_1"): (2, 42, 1),
        ("session", "ses_2"): (0, 0, 0),
        ("origin", "heartbeat:12"): (1, 21, 0),
        ("day", ""): (3, 63, 1),
        ("cause", "heartbeat"): (1, 21, 0),
        ("cause", "evolve.idle"): (1, 21, 0),
        ("cause", "turn"): (2, 42, 0),
        ("cause", "person"): (2, 42, 1),
        ("cause", "title"): (1, 21, 1),
        ("cause", "nobody"): (0, 0, 0),
    }
    assert found["day", ""].cost == pytest.approx(1.0)


async def test_a_day_is_counted_from_a_full_hour_on(store) -> None:
    await store.commit([booked(created=hour * HOUR + 1) for hour in range(10)])
    (found,) = await store.sums([Share("day", "", 7 * HOUR + HOUR - 1)])
    assert found == Sum(3, 63, 1.5, 0)


async def test_whose_a_call_is_is_kept(store) -> None:
    given = booked(**BEAT, agent="build", turn_id="msg_1")
    await store.commit([given])
    assert await store.usage() == [given.usage]


async def test_what_was_spent_stays_spent_when_the_session_is_deleted(store, make) -> None:
    session = make.session()
    await store.commit([booked(root_id=session.id), DropSession(session.id)])
    (found,) = await store.sums([Share("session", session.id)])
    assert found.calls == 1


@pytest.mark.slow
async def test_sums_are_fast_with_100000_booked_calls(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    prepare(path, "NORMAL", migrations()[:2]).close()
    with closing(sqlite3.connect(path)) as old, old:
        old.executemany(
            OLD, (("ses_1", ("turn", "task")[n % 2], 0.5, n * HOUR // 600) for n in range(100_000))
        )
    store = await open_store(path, lambda event: None)
    shares = [Share("session", "ses_1"), Share("day", "", 142 * HOUR), Share("cause", "turn", 142 * HOUR)]
    best = 1.0
    for _ in range(5):
        began = time.perf_counter()
        found = await store.sums(shares)
        best = min(best, time.perf_counter() - began)
    await store.close()
    assert [one.calls for one in found] == [100_000, 14_800, 7_400]
    assert best < 0.005


async def test_where_a_message_comes_from_is_kept_with_it_and_goes_with_it(store, make, talk) -> None:
    saved, other = talk
    one = make.user(saved.id)
    origin = Origin("heartbeat", "12", "evolve.idle", 2)
    await store.commit([PutMessage(one), PutOrigin(one.id, saved.id, origin)])
    assert await store.origins(saved.id) == {one.id: origin}, f"{other.id} is a person's"
    await store.commit([DropSession(saved.id)])
    assert await store.origins(saved.id) == {}


async def test_a_follow_up_keeps_its_origin(store, talk) -> None:
    saved, _ = talk
    origin = Origin("action", "7", depth=1)
    waiting = [FollowUp("fup_1", saved.id, "x", {}, 1, origin), FollowUp("fup_2", saved.id, "person", {}, 2)]
    await store.commit([PutFollowUp(one) for one in waiting])
    assert await store.follow_ups(saved.id) == waiting


async def test_calls_of_an_old_database_count_and_are_a_persons(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    prepare(path, "NORMAL", migrations()[:2]).close()
    with closing(sqlite3.connect(path)) as old, old:
        old.execute(
            "INSERT INTO project (id, worktree, time_created, time_updated, sandboxes) VALUES ('g', '/', 1, 1, '')"
        )
        for name, parent in (("ses_1", None), ("ses_2", "ses_1"), ("ses_3", "ses_2")):
            old.execute(
                "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, time_created,"
                " time_updated) VALUES (?, 'g', ?, '', '/', '', '', 1, 1)",
                (name, parent),
            )
        for session, cause, created, cost in (
            ("ses_1", "turn", HOUR, 0.5),
            ("ses_3", "task", 2 * HOUR, None),
            ("ses_gone", "turn", 2 * HOUR, 0.25),
            ("", "judge", 2 * HOUR, 0.25),
        ):
            old.execute(OLD, (session, cause, cost, created))
    store = await open_store(path, lambda event: None)
    try:
        asked = {
            "session ses_1": Share("session", "ses_1"),
            "session ses_3": Share("session", "ses_3"),
            "session ses_gone": Share("session", "ses_gone"),
            "day": Share("day"),
            "later": Share("day", "", 2 * HOUR),
            "turn": Share("cause", "turn"),
            "person": Share("cause", "person"),
        }
        found = dict(zip(asked, await store.sums(list(asked.values())), strict=True))
        assert {name: (one.calls, one.tokens, one.unpriced) for name, one in found.items()} == {
            "session ses_1": (2, 42, 1),
            "session ses_3": (0, 0, 0),
            "session ses_gone": (1, 21, 0),
            "day": (4, 84, 1),
            "later": (3, 63, 1),
            "turn": (2, 42, 0),
            "person": (4, 84, 1),
        }
        assert {(one.origin, one.source) for one in await store.usage()} == {("person", "")}
        assert {one.root_id for one in await store.usage()} == {"ses_1", "ses_gone", ""}
    finally:
        await store.close()
