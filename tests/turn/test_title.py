"""Titles: one for a session's first message, beside the turn; never in the way."""

import asyncio

import pytest

from instar.plugin import PromptBody, SessionBody, points
from instar.testing import Machine, RuntimeUnderTest, said
from instar.turn.model_call import LONGEST_TITLE, clean_title

pytest_plugins = ["tests.turn"]

SCRIPT = '== when ""\ntext: {{user}}\n\n== title\ntext: Sorting socks\n'


async def titled(door: RuntimeUnderTest, session: str) -> str:
    """The session's title once nothing runs beside the turns any more."""
    while door.runtime.turns._beside:
        await asyncio.gather(*door.runtime.turns._beside)
    return (await door.client.get(session)).title


async def test_the_first_message_gives_the_session_its_title(house: Machine) -> None:
    house.says(SCRIPT)
    door = await house.open()
    session = await door.session(title=None)
    assert (await door.client.get(session)).title.startswith("New session - ")
    await door.ask(session, "help me sort my socks")
    assert await titled(door, session) == "Sorting socks"
    stored = await door.runtime.instance.store.session(session)
    assert stored is not None
    assert stored.title == "Sorting socks"
    assert [given.info.title for given in door.of("session.updated")][-1] == "Sorting socks"
    (request,) = house.requests("title")
    assert request["tools"] == []
    assert [message["content"] for message in request["messages"]] == ["help me sort my socks"]
    assert request["system"][0].startswith("You are a title generator")
    assert request["params"]["temperature"] == 0.5


@pytest.mark.parametrize(("own", "subject"), [("my socks", "my socks"), ("", "from a hook")])
async def test_what_a_hook_put_beside_the_prompt_is_not_its_subject(
    house: Machine, own: str, subject: str
) -> None:
    house.says(SCRIPT)
    door = await house.open()
    session = await door.session(title=None)
    parts = [{"type": "text", "text": own}, {"type": "text", "text": "from a hook", "synthetic": True}]
    await door.client.prompt(session, PromptBody(parts=[part for part in parts if part["text"]]))
    await titled(door, session)
    (request,) = house.requests("title")
    assert [message["content"] for message in request["messages"]] == [subject]


@pytest.mark.slow
async def test_it_is_made_beside_the_turn(house: Machine) -> None:
    house.says('== when ""\ntext: {{user}}\n\n== title\ndelay: 4s\ntext: Late\n')
    door = await house.open()
    session = await door.session(title=None)
    assert said(await door.ask(session, "hi")) == "hi"
    assert (await door.client.get(session)).title.startswith("New session - ")
    assert await titled(door, session) == "Late"


@pytest.mark.parametrize(
    "case", ["a second message", "a child", "named at birth", "named meanwhile", "no reply"]
)
async def test_nobody_asks_for_a_title_twice_or_against_a_persons_wish(house: Machine, case: str) -> None:
    house.says(SCRIPT)
    door = await house.open()
    session = await door.session(title="Mine" if case == "named at birth" else None)
    if case == "a child":
        session = (await door.client.create(SessionBody(parent_id=session))).id
    if case == "named meanwhile":
        await door.client.update(session, title="Mine")
    if case == "a second message":
        await door.ask(session, "first")
        await titled(door, session)
        await door.client.update(session, title=(await door.client.get(session)).title)
    before, asked = await titled(door, session), len(house.requests("title"))
    if case == "no reply":
        await door.client.prompt(session, PromptBody.text("note", no_reply=True))
    else:
        await door.ask(session, "hello")
    assert await titled(door, session) == before
    assert len(house.requests("title")) == asked


async def test_a_name_that_a_person_gives_while_the_model_thinks_is_kept(house: Machine) -> None:
    house.says('== when ""\ntext: hi\n\n== title\ndelay: 50ms\ntext: Late\n')
    door = await house.open()
    session = await door.session(title=None)
    await door.ask(session, "hello")
    await door.client.update(session, title="Mine")
    assert await titled(door, session) == "Mine"


async def test_a_title_does_not_bring_a_deleted_session_back(house: Machine) -> None:
    house.says('== when ""\ntext: hi\n\n== title\ndelay: 50ms\ntext: Late\n')
    door = await house.open()
    session = await door.session(title=None)
    await door.ask(session, "hello")
    await door.client.delete(session)
    while door.runtime.turns._beside:
        await asyncio.gather(*door.runtime.turns._beside)
    assert await door.client.list() == []


async def test_where_the_title_model_fails_the_title_is_what_was_asked(
    house: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    house.says('== when ""\ntext: {{user}}\n\n== title\nerror: 500 no titles today\n')
    door = await house.open()
    session = await door.session(title=None)
    caplog.set_level("INFO")
    assert said(await door.ask(session, "hi")) == "hi"
    assert await titled(door, session) == "hi"
    assert f"no title session={session}" in caplog.text
    assert door.of("session.error") == []


async def test_the_small_model_makes_it_and_the_title_agents_own_before_that(house: Machine) -> None:
    house.says(SCRIPT)
    house.settings(small_model="scripted/small")
    door = await house.open()
    await door.ask(await door.session(title=None), "hi")
    await door.runtime.close()
    house.settings(
        small_model="scripted/small", agent={"title": {"model": "scripted/own", "prompt": "Name it."}}
    )
    door = await house.open()
    await door.ask(await door.session(title=None), "hi")
    await door.runtime.close()
    assert [request["model"] for request in house.requests("title")] == ["scripted/small", "scripted/own"]
    assert house.requests("title")[1]["system"] == ["Name it."]


async def test_hooks_may_change_the_call_and_are_told_its_purpose(house: Machine) -> None:
    house.says(SCRIPT)
    door = await house.open()
    purposes = []

    async def system(given: points.SystemInput, output: points.SystemOutput) -> None:
        purposes.append(given.purpose)

    async def params(given: points.CallInput, output: points.ParamsOutput) -> None:
        if given.purpose == "title":
            output.temperature = 0.9

    door.plugin({"chat.system.transform": system, "chat.params": params})
    session = await door.session(title=None)
    await door.ask(session, "hi")
    await titled(door, session)
    assert sorted(purposes) == ["title", "turn"]
    assert house.requests("title")[0]["params"]["temperature"] == 0.9


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Sorting socks", "Sorting socks"),
        ('\n\n  "Sorting socks"  \nmore', "Sorting socks"),
        ("<think>hm,\nwhat?</think>\nSorting", "Sorting"),
        ("", ""),
        ("<think>a</think>One <think>two", "One <think>two"),
        ("<think>" * 20_000, "<think>" * 14 + "<…"),
        ("x" * 300, "x" * (LONGEST_TITLE - 1) + "…"),
    ],
)
def test_an_answer_is_cleaned_to_one_line(text: str, title: str) -> None:
    assert clean_title(text) == title
