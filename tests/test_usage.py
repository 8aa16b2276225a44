import pytest

from instar.message import CacheTokens, Tokens
from instar.provider.protocol import ModelCost
from instar.store import Usage
from instar.usage import Ceiling, Limits, LimitsError, Situation, Spent, check, cost, is_priced, spent, total

TOKENS = Tokens(input=1000, output=100, reasoning=50, cache=CacheTokens(read=4000, write=200))


def booked(price=0.5, created=0, tokens=TOKENS):
    return Usage(
        session_id="s",
        message_id=None,
        cause="turn",
        provider_id="p",
        model_id="m",
        tokens=tokens,
        cost=price,
        created=created,
    )


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


def test_booked_calls_are_summed_from_a_time_on():
    found = spent([booked(created=1), booked(created=5), booked(None, created=6)], since=5)
    assert found == Spent(tokens=10700, cost=0.5, unpriced=1)


def test_limits_are_read_from_the_configuration():
    block = {"steps": 7, "session": {"tokens": 1000, "cost": 1.5}, "day": {"cost": 20}}
    assert Limits.of(block) == Limits(7, Ceiling(1000, 1.5), Ceiling(None, 20))
    assert Limits.of({}, max_iterations=12) == Limits(12)
    assert Limits.of({}).steps == 40


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"steps": 0}, "limits.steps must be a number above 0"),
        ({"steps": True}, "limits.steps"),
        ({"session": {"cost": "1"}}, "limits.session.cost"),
        ({"session": {"cost": float("nan")}}, "limits.session.cost"),
        ({"session": 5}, "limits.session must be an object"),
        ({"sesion": {}}, "limits.sesion is no limit; there are steps, session, day"),
        ({"day": {"token": 1}}, "limits.day.token is no limit"),
    ],
)
def test_a_limit_that_is_none_is_refused(block, said):
    with pytest.raises(LimitsError) as caught:
        Limits.of(block)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "situation", "limit"),
    [
        (Limits(), Situation(step=40), None),
        (Limits(), Situation(step=41), "limits.steps"),
        (Limits(session=Ceiling(tokens=100)), Situation(session=Spent(99)), None),
        (Limits(session=Ceiling(tokens=100)), Situation(session=Spent(100)), "limits.session.tokens"),
        (Limits(session=Ceiling(cost=1)), Situation(session=Spent(9, 0.99)), None),
        (Limits(session=Ceiling(cost=1)), Situation(session=Spent(9, 1.0)), "limits.session.cost"),
        (Limits(day=Ceiling(tokens=5)), Situation(day=Spent(5)), "limits.day.tokens"),
        (Limits(day=Ceiling(cost=5)), Situation(day=Spent(5, 6)), "limits.day.cost"),
        (Limits(day=Ceiling(cost=5)), Situation(priced=False), "limits.day.cost"),
        (Limits(session=Ceiling(cost=5)), Situation(session=Spent(1, 1, 1)), "limits.session.cost"),
        (Limits(session=Ceiling(tokens=5)), Situation(priced=False), None),
    ],
)
def test_a_limit_that_is_reached_forbids_the_next_call(limits, situation, limit):
    reached = check(limits, situation)
    assert (reached.limit if reached else None) == limit
    if reached:
        assert reached.cause == "turn"
        assert reached.limit.rpartition(".")[0] in reached.message


def test_what_is_reached_says_whose_work_it_was():
    reached = check(Limits(steps=1), Situation(step=2, cause="explore"))
    assert reached is not None
    assert reached.cause == "explore"
