"""The loop's own decisions: what is unanswered, and who answers it with which model."""

from instar.message import (
    AnswerTime,
    Assistant,
    Created,
    ErrorText,
    MessageAbortedError,
    MessagePath,
    ModelRef,
    Tokens,
    User,
    WithParts,
)
from instar.testing import Machine, answer_of, said
from instar.turn.loop import final_answer, last_user

pytest_plugins = ["tests.turn"]


def user(number: int) -> WithParts:
    model = ModelRef(provider_id="scripted", model_id="x")
    info = User(
        id=f"msg_{number}", session_id="ses_1", time=Created(created=number), agent="build", model=model
    )
    return WithParts(info=info, parts=[])


def answer(number: int, to: int, finish: str | None = "stop", *, error: bool = False) -> WithParts:
    info = Assistant(
        id=f"msg_{number}",
        session_id="ses_1",
        time=AnswerTime(created=number, completed=number if finish or error else None),
        parent_id=f"msg_{to}",
        model_id="x",
        provider_id="scripted",
        mode="build",
        agent="build",
        path=MessagePath(cwd="/", root="/"),
        cost=0.0,
        tokens=Tokens.zero(),
        finish=finish,
        error=MessageAbortedError(data=ErrorText(message="Aborted")) if error else None,
    )
    return WithParts(info=info, parts=[])


def unanswered(*history: WithParts) -> bool:
    asked = last_user(list(history))
    assert asked is not None
    return final_answer(list(history), asked) is None


def test_there_is_nothing_to_do_without_a_message_of_a_person() -> None:
    assert last_user([]) is None
    assert last_user([answer(1, 0)]) is None


def test_a_message_is_unanswered_until_its_own_answer_is_whole_and_waits_for_no_tools() -> None:
    assert unanswered(user(1))
    assert unanswered(user(1), answer(2, 1, None))
    assert unanswered(user(1), answer(2, 1, "tool-calls"))
    assert unanswered(user(1), answer(2, 1, "stop"), user(3))
    assert unanswered(user(1), user(3), answer(4, 1, "stop"))
    assert not unanswered(user(1), answer(2, 1, "tool-calls"), answer(3, 1, "stop"))
    assert not unanswered(user(1), answer(2, 1, "length"))


def test_an_answer_that_failed_settles_its_message() -> None:
    assert not unanswered(user(1), answer(2, 1, None, error=True))


async def test_steps_go_on_until_the_model_asks_for_no_more_tools(house: Machine) -> None:
    turns = '== turn\ntool: bash {"command": "echo x"}\n\n' * 5
    house.says(f"{turns}== turn\ntext: done\n")
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "go")) == "done"
    finishes = [answer_of(message).finish for message in (await door.stored(session))[1:]]
    assert finishes == [*["tool-calls"] * 5, "stop"]
    assert door.types().count("session.idle") == 1


async def test_each_message_is_answered_by_the_agent_and_the_model_that_it_names(house: Machine) -> None:
    house.says('== when ""\ntext: hi\n')
    house.settings(agent={"poet": {"model": "scripted/verse"}})
    door = await house.open()
    session = await door.session()
    for agent in ("build", "poet"):
        await door.ask(session, "hello", agent=agent)
    answers = [answer_of(message) for message in (await door.stored(session))[1::2]]
    # The first one's model is the default; a session then keeps the last one that was used.
    assert [(info.agent, info.model_id) for info in answers] == [("build", "x"), ("poet", "verse")]
