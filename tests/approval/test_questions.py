"""Questions of the model to a person, asked through the `question` tool and answered by a door or a client."""

import asyncio
import json
from typing import Any

import pytest
from tests.waiting import SOON

from instar.approval.questions import Questioner, relayed
from instar.event import Option, Question, QuestionAsked
from instar.plugin import Invalid, NotFound
from instar.testing import Machine, RuntimeUnderTest, results

pytest_plugins = ["tests.turn"]

COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
}
SCRIPT = f"""
    == turn
    tool: question {json.dumps({"questions": [COLOUR, {**COLOUR, "question": "More?", "multiple": True}]})}

    == turn
    text: thanks
"""


async def opened(house: Machine, questioner: Questioner | None) -> RuntimeUnderTest:
    house.says(SCRIPT)
    return await house.open(questioner=questioner)


async def test_a_door_answers_and_the_model_reads_it(house: Machine) -> None:
    async def person(asked: QuestionAsked) -> list[list[str]]:
        assert [question.header for question in asked.questions] == ["Colour", "Colour"]
        return [["red"], ["blue", "a third one"]]

    door = await opened(house, person)
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session)) == [
        "The person answered:\nWhich colour? red\nMore? blue, a third one"
    ]
    (asked,), (replied,) = door.of("question.asked"), door.of("question.replied")
    assert (asked.session_id, asked.tool.call_id, asked.id[:4]) == (session, "call_t1_1", "que_")
    assert (replied.request_id, replied.answers) == (asked.id, [["red"], ["blue", "a third one"]])


async def test_a_client_answers_what_waits(house: Machine) -> None:
    door = await opened(house, relayed)
    session = await door.session()
    await door.start(session, "go")
    event = await door.until(lambda event: event.type == "question.asked")
    (waiting,) = await door.runtime.question.list()
    assert waiting.id == event.properties.id  # type: ignore[attr-defined]
    for answers, said in (([["red"]], "2 questions were asked"), ([["red", "blue"], []], "takes one answer")):
        with pytest.raises(Invalid, match=said):
            await door.runtime.question.reply(waiting.id, answers)
    await door.runtime.question.reply(waiting.id, [["red"], []])
    await door.idle(session)
    assert results(await door.stored(session)) == [
        "The person answered:\nWhich colour? red\nMore? (no answer)"
    ]
    with pytest.raises(NotFound):
        await door.runtime.question.reply(waiting.id, [["red"], []])
    assert await door.runtime.question.list() == []


@pytest.mark.parametrize(("goes_on", "requests"), [(False, 1), (True, 2)])
async def test_a_dismissed_question_ends_the_turn_unless_a_setting_lets_it_go_on(
    house: Machine, goes_on: bool, requests: int
) -> None:
    house.settings(experimental={"continue_loop_on_deny": goes_on})
    door = await opened(house, relayed)
    session = await door.session()
    await door.start(session, "go")
    event = await door.until(lambda event: event.type == "question.asked")
    await door.runtime.question.reject(event.properties.id)  # type: ignore[attr-defined]
    await door.idle(session)
    assert results(await door.stored(session)) == ["The user dismissed this question."]
    assert len(door.of("question.rejected")) == 1
    assert len(house.requests()) == requests


async def test_an_abort_withdraws_the_question(house: Machine) -> None:
    door = await opened(house, relayed)
    session = await door.session()
    await door.start(session, "go")
    await door.until(lambda event: event.type == "question.asked")
    await asyncio.wait_for(door.client.abort(session), SOON)
    assert len(door.of("question.rejected")) == 1
    assert await door.runtime.question.list() == []


@pytest.mark.slow
async def test_where_nobody_could_answer_the_model_has_no_such_tool(house: Machine) -> None:
    door = await opened(house, None)
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session))[0].startswith(
        "Model tried to call unavailable tool 'question'"
    )
    with pytest.raises(Invalid, match="nobody is here"):
        await door.runtime.question.ask(session, [Question(question="q", header="h", options=[])])
    assert door.of("question.asked") == []


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ([], "there is no question"),
        ([Question(question=" ", header="h", options=[])], "has no text"),
        ([Question(question="q", header="h", options=[Option(label="a", description="")] * 2)], "same label"),
    ],
)
async def test_an_unsound_question_is_not_asked(house: Machine, questions: Any, said: str) -> None:
    door = await opened(house, relayed)
    with pytest.raises(Invalid, match=said):
        await door.runtime.question.ask("ses_x", questions)
