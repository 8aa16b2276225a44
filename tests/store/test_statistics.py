"""Sums of model calls: as if each booked call had been added up by hand, and fast with many."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.api.stats import SpentCacheTokens, SpentSum, SpentTokens
from instar.message import CacheTokens, Tokens
from instar.store import PutUsage, Usage
from instar.store.statistics import BY, Wanted, lines, total, unpriced
from instar.store.store import Store, open_store

DAY = 86_400_000
FIGURES = [
    attrgetter(name)
    for name in (
        *("calls", "cost", "unpriced", "tokens.input", "tokens.output", "tokens.reasoning"),
        *("tokens.cache.read", "tokens.cache.write"),
    )
]


def call(**fields: Any) -> Usage:
    """A booked call with these fields."""
    plain = {
        "session_id": "ses_1",
        "message_id": None,
        "cause": "turn",
        "provider_id": "p",
        "model_id": "m",
        "tokens": Tokens(input=10, output=5, reasoning=1, cache=CacheTokens(read=20, write=3)),
        "cost": 0.5,
        "created": 1_000,
    }
    return Usage(**(plain | fields))


def asked(where: Path | str, booked: list[Usage], *questions: Any) -> list[Any]:
    """Book calls in a new store and return the answers."""

    async def run() -> list[Any]:
        store = await open_store(where, lambda event: None)
        try:
            await store.commit([PutUsage(one) for one in booked])
            return [await store.ask(question) for question in questions]
        finally:
            await store.close()

    return asyncio.run(run())


calls = st.builds(
    call,
    session_id=st.sampled_from(["", "ses_1", "ses_2"]),
    cause=st.sampled_from(["turn", "title"]),
    model_id=st.sampled_from(["m", "n"]),
    agent=st.sampled_from(["", "build"]),
    origin=st.sampled_from(["person", "heartbeat"]),
    source=st.sampled_from(["", "compaction"]),
    cost=st.one_of(st.none(), st.integers(0, 64).map(lambda number: number / 8)),
    created=st.integers(0, 5 * DAY),
    tokens=st.builds(
        Tokens,
        input=st.integers(0, 99),
        output=st.integers(0, 99),
        reasoning=st.integers(0, 99),
        cache=st.builds(CacheTokens, read=st.integers(0, 99), write=st.integers(0, 99)),
    ),
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(booked=st.lists(calls, max_size=12), since=st.integers(0, 5 * DAY))
def test_each_sum_is_that_of_its_calls_and_the_tables_add_up_to_the_whole(
    fresh: Callable[[], Path | str], booked: list[Usage], since: int
) -> None:
    wanted = Wanted(since=since, until=4 * DAY)
    chosen = [one for one in booked if since <= one.created < 4 * DAY]
    (whole, first, last), free, *tables = asked(
        fresh(),
        booked,
        partial(total, wanted),
        partial(unpriced, wanted),
        *(partial(lines, by, wanted) for by in BY),
    )
    cache = SpentCacheTokens(
        read=sum(one.tokens.cache.read for one in chosen),
        write=sum(one.tokens.cache.write for one in chosen),
    )
    tokens = SpentTokens(
        input=sum(one.tokens.input for one in chosen),
        output=sum(one.tokens.output for one in chosen),
        reasoning=sum(one.tokens.reasoning for one in chosen),
        cache=cache,
    )
    sent = tokens.input + cache.read + cache.write
    assert whole == SpentSum(
        calls=len(chosen),
        sessions=len({one.session_id for one in chosen} - {""}),
        tokens=tokens,
        cached=cache.read / sent if sent else None,
        cost=sum(one.cost or 0 for one in chosen),
        unpriced=sum(one.cost is None for one in chosen),
    )
    assert (first, last) == (
        min((one.created for one in chosen), default=0),
        max((one.created for one in chosen), default=0),
    )
    assert free == Counter(f"p/{one.model_id}" for one in chosen if one.cost is None)
    for table in tables:
        for figure in FIGURES:
            assert sum(map(figure, table)) == figure(whole)
        assert len({line.key for line in table}) == len(table)


@pytest.mark.parametrize(
    ("given", "cached"),
    [((0, 0, 0), None), ((0, 10, 0), 1.0), ((30, 60, 10), 0.6), ((5, 0, 5), 0.0)],
)
def test_the_cached_share_is_of_all_that_was_sent(
    where: Path | str, given: tuple[int, int, int], cached: float | None
) -> None:
    whole, read, written = given
    booked = call(
        tokens=Tokens(input=whole, output=1, reasoning=0, cache=CacheTokens(read=read, write=written))
    )
    ((found, *_),) = asked(where, [booked], partial(total, Wanted()))
    assert found.cached == cached


@pytest.mark.slow
def test_sums_of_a_hundred_thousand_calls_are_made_by_the_database(where: Path | str) -> None:
    rows = [
        call(session_id=f"ses_{n % 500}", model_id=f"m{n % 5}", created=n * 100_000, agent="build")
        for n in range(100_000)
    ]

    async def run() -> float:
        store: Store = await open_store(where, lambda event: None)
        try:
            await store.commit([PutUsage(one) for one in rows])
            before = time.process_time()
            for by in BY:
                found = await store.ask(partial(lines, by, Wanted()))
                assert sum(line.calls for line in found) == 100_000
            return time.process_time() - before
        finally:
            await store.close()

    assert asyncio.run(run()) < 4.0, "six tables; one takes 0.1 to 0.3 s"
