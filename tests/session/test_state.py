"""The state of an open session: what one room says happened, another room can rely on."""

import asyncio

from instar.limits.budget import CallLimits, Ceiling
from instar.message import (
    AnswerTime,
    Assistant,
    Created,
    MessagePath,
    ModelRef,
    Session,
    SessionTime,
    Tokens,
    User,
    WithParts,
)
from instar.session.state import Overrides, SessionState, now
from instar.store import Lease


def live(*history: WithParts, fence: int | None = None) -> SessionState:
    row = Session(
        id="ses_1",
        slug="a-b",
        project_id="p",
        directory="/",
        title="t",
        version="1",
        time=SessionTime(created=1, updated=1),
    )
    return SessionState(row, list(history), fence)


def asked(created: int) -> WithParts:
    info = User(
        id=f"msg_u{created}",
        session_id="ses_1",
        time=Created(created=created),
        agent="build",
        model=ModelRef(provider_id="p", model_id="m"),
    )
    return WithParts(info=info, parts=[])


def answer(created: int, completed: int | None) -> WithParts:
    info = Assistant(
        id=f"msg_a{created}",
        session_id="ses_1",
        time=AnswerTime(created=created, completed=completed),
        parent_id="msg_u1",
        model_id="m",
        provider_id="p",
        mode="build",
        agent="build",
        path=MessagePath(cwd="/", root="/"),
        cost=0.0,
        tokens=Tokens.zero(),
    )
    return WithParts(info=info, parts=[])


def test_what_was_added_is_looked_at_once() -> None:
    session = live()
    assert not session.take_wanted()
    session.wanted = True
    session.wanted = True
    assert session.take_wanted()
    assert not session.take_wanted()


async def test_each_turn_has_an_abort_of_its_own_and_only_the_first_stop_is_one() -> None:
    session = live()
    session.begin(asyncio.sleep(0))
    first, turn = session.abort, session.turn
    assert turn is not None
    session.wanted = True
    assert session.stop()
    assert not session.stop()
    assert first.is_set()
    assert not session.wanted, "what was asked before the abort ends with it"
    await turn
    session.turn = None
    session.begin(asyncio.sleep(0))
    assert not session.abort.is_set()
    assert session.turn is not turn
    await asyncio.wait([session.turn])  # type: ignore[list-item]


async def test_a_cancelled_turn_takes_what_ran_beside_it_along_and_leaves_the_next_one() -> None:
    session = live()
    session.begin(asyncio.sleep(60))
    turn = session.turn
    beside = asyncio.create_task(asyncio.sleep(60))
    assert turn is not None
    session.beside = beside
    session.turn = None
    session.begin(asyncio.sleep(0))
    session.cancel(turn)
    await asyncio.wait([turn, beside, session.turn])  # type: ignore[list-item]
    assert turn.cancelled()
    assert beside.cancelled()
    assert session.turn is not None
    assert not session.turn.cancelled()


def test_the_lease_is_given_back_by_the_last_hand() -> None:
    session = live()
    lease = Lease("ses_1", "me", 3, now())
    for _ in range(2):
        session.hold()
        session.keep(lease)
    assert session.let_go() is None
    assert session.held
    assert session.let_go() == lease
    assert not session.held
    assert session.let_go() is None


def test_another_fence_means_that_somebody_else_was_here_and_is_caught_up_with_once() -> None:
    session = live(fence=3)
    session.keep(Lease("ses_1", "me", 3, now()))
    assert not session.catch_up()
    session.keep(Lease("ses_1", "me", 5, now()))
    assert session.catch_up()
    assert not session.catch_up()


def test_an_answer_is_settled_once_and_follow_ups_are_counted_by_source_until_a_person_speaks() -> None:
    session = live()
    assert session.settle("msg_1")
    assert not session.settle("msg_1")
    assert session.settle("msg_2")
    for source in ("evolve", "evolve", "compaction"):
        session.count_follow_up(source)
    assert (session.continued("evolve"), session.continued("other"), session.continued()) == (2, 0, 3)
    session.reset_counts()
    assert session.continued() == 0


def test_times_tell_which_messages_came_while_an_answer_was_written() -> None:
    """Also where all of it happens in one millisecond, or the clock was set back."""
    far = now() + 1_000_000
    session = live(asked(far), answer(far + 1, None), asked(far + 2))
    assert session.end_time(far + 1) == far + 3
    session = live(asked(far), answer(far + 1, far + 9))
    assert session.next_time() == far + 9
    assert live(asked(far), answer(far + 1, None)).next_time() == far + 2


def test_where_nothing_is_set_everything_is_as_it_was() -> None:
    overrides, limits = Overrides(), CallLimits(session=Ceiling(5, 1.0))
    assert overrides.limits(limits) is limits
    assert overrides.model_for("a/b") == "a/b"
    assert not overrides.off


def test_limits_are_those_of_the_settings_with_what_was_set() -> None:
    overrides = Overrides()
    overrides.iterations = 80
    overrides.ceiling = Ceiling(tokens=7)
    found = overrides.limits(CallLimits(session=Ceiling(5, 1.0), day=Ceiling(9)))
    assert found == CallLimits(steps=80, session=Ceiling(5, 1.0), day=Ceiling(9), own=Ceiling(tokens=7))


def test_a_model_holds_for_what_asks_as_the_messages_before_did() -> None:
    overrides = Overrides()
    overrides.set_model("local/n", None)
    assert [overrides.model_for(one) for one in ("a/b", "a/b", "a/c", "a/b")] == [
        "local/n",
        "local/n",
        "a/c",
        "a/b",
    ]
