import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from instar.api.stats import Sum
from instar.limits.budget import (
    DAY,
    CallLimits,
    CallOwner,
    CallSituation,
    Ceiling,
    HeldCeiling,
    LimitsError,
    add,
    bounds,
    check,
    cost,
    is_priced,
    most,
    must_wait,
    tighter,
    total,
)
from instar.message import CacheTokens, Origin, Tokens
from instar.provider.protocol import Model, ModelCost, ModelLimit
from instar.store import Share

TOKENS = Tokens(input=1000, output=100, reasoning=50, cache=CacheTokens(read=4000, write=200))


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        (ModelCost(input=2, output=8, cache_read=0.5, cache_write=3), 0.0058),
        (ModelCost(input=2, output=8), 0.0116),
        (ModelCost(input=0, output=0), 0.0),
        (ModelCost(), None),
        (ModelCost(input=2), None),
        (ModelCost(output=8), None),
    ],
)
def test_a_call_costs_what_its_tokens_cost(prices, expected):
    found = cost(TOKENS, prices)
    assert found == (pytest.approx(expected) if expected is not None else None)
    assert is_priced(prices) is (expected is not None)


def test_an_unknown_price_that_is_not_needed_does_no_harm():
    assert (
        cost(Tokens(input=10, output=0, reasoning=0, cache=CacheTokens(read=0, write=0)), ModelCost(input=1))
        == 1e-5
    )


def test_all_tokens_count():
    assert total(TOKENS) == 5350


def test_limits_are_read_from_the_configuration():
    block = {
        "steps": 7,
        "session": {"tokens": 1000, "cost": 1.5},
        "day": {"cost": 20},
        "heartbeat": {"tokens": 9},
        "cause": {"title": {"cost": 1}, "evolve.idle": {"tokens": 2}},
        "turn": {"minutes": 0.5},
        "calls": 12,
        "failures": 2,
    }
    assert CallLimits.of(block) == CallLimits(
        steps=7,
        session=Ceiling(1000, 1.5),
        day=Ceiling(None, 20),
        heartbeat=Ceiling(9),
        cause={"title": Ceiling(None, 1), "evolve.idle": Ceiling(2)},
        minutes=0.5,
        calls=12,
        failures=2,
    )
    assert CallLimits.of({}, max_iterations=12) == CallLimits(12)
    assert (CallLimits.of({}).steps, CallLimits.of({}).calls, CallLimits.of({}).failures) == (40, 1000, 3)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"steps": 0}, "limits.steps must be a number above 0"),
        ({"steps": True}, "limits.steps"),
        ({"session": {"cost": "1"}}, "limits.session.cost"),
        ({"session": {"cost": float("nan")}}, "limits.session.cost"),
        ({"session": 5}, "limits.session must be an object"),
        ({"sesion": {}}, "limits.sesion is no limit; there are steps, session, day, heartbeat"),
        ({"day": {"token": 1}}, "limits.day.token is no limit"),
        ({"heartbeat": 5}, "limits.heartbeat must be an object"),
        ({"cause": {"title": 5}}, "limits.cause.title must be an object"),
        ({"cause": []}, "limits.cause must be an object"),
        ({"turn": {"seconds": 5}}, "limits.turn.seconds is no limit; there are minutes"),
        ({"turn": {"minutes": 0}}, "limits.turn.minutes must be a number above 0"),
        ({"calls": -1}, "limits.calls must be a number above 0"),
        ({"failures": "3"}, "limits.failures must be a number above 0"),
    ],
)
def test_a_limit_that_is_none_is_refused(block, said):
    with pytest.raises(LimitsError) as caught:
        CallLimits.of(block)
    assert said in str(caught.value)


def bound(**ceiling):
    return HeldCeiling("limits.session", Ceiling(**ceiling), Share("session", "ses_1"))


@pytest.mark.parametrize(
    ("limits", "situation", "limit"),
    [
        (CallLimits(), CallSituation(step=40), None),
        (CallLimits(), CallSituation(step=41), "limits.steps"),
        (CallLimits(calls=3), CallSituation(calls=2), None),
        (CallLimits(calls=3), CallSituation(calls=3), "limits.calls"),
        (CallLimits(), CallSituation(bounds=[bound(tokens=100)], used=[Sum(1, 99)]), None),
        (
            CallLimits(),
            CallSituation(bounds=[bound(tokens=100)], used=[Sum(1, 100)]),
            "limits.session.tokens",
        ),
        (CallLimits(), CallSituation(bounds=[bound(cost=1)], used=[Sum(1, 9, 0.99)]), None),
        (CallLimits(), CallSituation(bounds=[bound(cost=1)], used=[Sum(1, 9, 1.0)]), "limits.session.cost"),
        (
            CallLimits(),
            CallSituation(bounds=[bound(cost=5)], used=[Sum()], priced=False),
            "limits.session.cost",
        ),
        (CallLimits(), CallSituation(bounds=[bound(cost=5)], used=[Sum(1, 1, 1, 1)]), "limits.session.cost"),
        (CallLimits(), CallSituation(bounds=[bound(tokens=5)], used=[Sum()], priced=False), None),
    ],
)
def test_a_limit_that_is_reached_forbids_the_next_call(limits, situation, limit):
    reached = check(limits, situation)
    assert (reached.limit if reached else None) == limit
    if reached:
        assert reached.cause == "turn"
        assert reached.limit.rpartition(".")[0] in reached.message
        assert "raise" in reached.advice


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (Ceiling(), "or raise limits.session.tokens"),
        (Ceiling(cost=0.5), "or raise limits.session.tokens"),
        (Ceiling(tokens=100), "this one set limits.session.tokens for itself"),
    ],
)
def test_a_limit_that_the_session_set_for_itself_is_not_to_be_raised_in_the_settings(own, said):
    limits = CallLimits(session=Ceiling(tokens=100), own=own)
    found = bounds(limits, CallOwner("turn", root_id="ses_1"), DAY)
    reached = check(limits, CallSituation(bounds=found, used=[Sum(1, 100)]))
    assert reached is not None
    assert said in reached.advice
    assert reached.advice.startswith("Begin a new session")


def test_what_is_reached_says_whose_work_it_was():
    reached = check(CallLimits(steps=1), CallSituation(step=2, cause="explore"))
    assert reached is not None
    assert reached.cause == "explore"


BEAT = Origin("heartbeat", "12", source="evolve.idle")


def test_a_call_is_held_by_the_limits_of_all_that_it_belongs_to():
    limits = CallLimits(
        session=Ceiling(1),
        day=Ceiling(cost=2),
        heartbeat=Ceiling(3),
        cause={"heartbeat": Ceiling(4), "evolve.idle": Ceiling(5), "turn": Ceiling(6), "title": Ceiling(7)},
    )
    now = 5 * DAY
    found = {one.path: one.share for one in bounds(limits, CallOwner("turn", BEAT, "ses_1"), now)}
    assert found == {
        "limits.session": Share("session", "ses_1"),
        "limits.day": Share("day", "", now - DAY),
        "limits.heartbeat": Share("origin", "heartbeat:12"),
        "limits.cause.heartbeat": Share("cause", "heartbeat", now - DAY),
        "limits.cause.evolve.idle": Share("cause", "evolve.idle", now - DAY),
        "limits.cause.turn": Share("cause", "turn", now - DAY),
    }
    person = bounds(limits, CallOwner("title", Origin(), ""), now)
    assert [one.path for one in person] == ["limits.day", "limits.cause.title"]


def test_a_call_adds_to_the_sums_that_its_limits_ask_for():
    whose = CallOwner("turn", BEAT, "ses_1")
    added = {(one.scope, one.key) for one in whose.shares}
    limits = CallLimits(session=Ceiling(1), day=Ceiling(1), heartbeat=Ceiling(1), cause={"turn": Ceiling(1)})
    assert {(one.share.scope, one.share.key) for one in bounds(limits, whose, DAY * 9)} <= added


@pytest.mark.parametrize(
    ("ceiling", "used", "under_way", "waits"),
    [
        (Ceiling(100), Sum(), Sum(), False),
        (Ceiling(100), Sum(1, 99), Sum(), False),
        (Ceiling(100), Sum(1, 50), Sum(1, 49), False),
        (Ceiling(100), Sum(1, 50), Sum(1, 50), True),
        (Ceiling(cost=1), Sum(1, 50, 0.5), Sum(1, 50, 0.4), False),
        (Ceiling(cost=1), Sum(1, 50, 0.5), Sum(1, 50, 0.5), True),
        (Ceiling(cost=1), Sum(1, 50, 0.5), Sum(1, 50, 0.0, 1), True),
        (Ceiling(), Sum(), Sum(9, 10**9, 10**9, 9), False),
    ],
)
def test_a_call_waits_for_those_that_may_reach_a_limit(ceiling, used, under_way, waits):
    assert must_wait(ceiling, used, under_way) is waits


@pytest.mark.slow
@given(
    limit=st.integers(1, 2000),
    calls=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    order=st.randoms(use_true_random=False),
)
def test_however_calls_overlap_at_most_one_goes_over(limit, calls, order):
    """Each call uses at most 300, which is what is reserved for it; they end in any order."""
    ceiling, most_ = Ceiling(limit), Sum(1, 300)
    used, under_way, running, waiting = Sum(), Sum(), [], list(calls)
    begun = []
    while waiting or running:
        free = waiting and used.tokens < limit and not must_wait(ceiling, used, under_way)
        if free and (not running or order.random() < 0.7):
            begun.append(waiting.pop())
            running.append(begun[-1])
            under_way = add(under_way, most_)
        elif running:
            ended = running.pop(order.randrange(len(running)))
            used, under_way = add(used, Sum(1, ended)), add(under_way, most_, -1)
        else:
            break
    assert used.tokens - max(begun, default=0) < limit


def test_the_most_that_a_call_can_come_to_fills_its_window_at_its_dearest_price():
    model = Model(
        provider_id="p",
        id="m",
        name="m",
        protocol="openai",
        url="",
        api_key=None,
        headers={},
        limit=ModelLimit(context=1000, output=100),
        cost=ModelCost(input=1, output=10, cache_read=0.1, cache_write=2),
    )
    assert most(model, 5) == Sum(1, 1100, pytest.approx(0.003))
    unknown = structs.replace(model, limit=ModelLimit(), cost=ModelCost())
    assert most(unknown, 5) == Sum(1, 5, 0.0, 1)


@pytest.mark.parametrize(
    ("one", "other", "held"),
    [
        (Ceiling(), Ceiling(), Ceiling()),
        (Ceiling(5), Ceiling(), Ceiling(5)),
        (Ceiling(), Ceiling(cost=0.5), Ceiling(cost=0.5)),
        (Ceiling(5, 0.5), Ceiling(4, 0.6), Ceiling(4, 0.5)),
    ],
)
def test_of_two_ceilings_the_lower_one_holds(one: Ceiling, other: Ceiling, held: Ceiling) -> None:
    assert tighter(one, other) == tighter(other, one) == held
