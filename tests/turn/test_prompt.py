"""From a prompt's body to a saved message, or to a refusal that saves nothing."""

import base64
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from instar.message import FilePart, ModelRef, SessionModel, TextPart
from instar.plugin import Invalid, PromptBody, SessionBody, points
from instar.testing import Machine, RuntimeUnderTest, answer_of, said
from instar.turn.prompt import LARGEST_FILE, LONGEST_TEXT
from instar.wire import ids

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: heard\n'


@pytest.fixture
async def door(house: Machine) -> RuntimeUnderTest:
    house.says(ECHO)
    return await house.open()


async def send(door: RuntimeUnderTest, session: str, *parts: dict[str, Any], **fields: Any) -> Any:
    return await door.client.prompt(session, PromptBody(parts=list(parts), **fields))


def file(url: str, mime: str = "text/plain") -> dict[str, Any]:
    return {"type": "file", "mime": mime, "url": url, "filename": url.rpartition("/")[2]}


async def refused(door: RuntimeUnderTest, *parts: dict[str, Any], why: str, **fields: Any) -> None:
    """Such a prompt is refused for that reason, and nothing of it is kept."""
    session = await door.session()
    door.heard.clear()
    with pytest.raises(Invalid, match=why):
        await send(door, session, *parts, **fields)
    assert await door.stored(session) == []
    assert (await door.live(session)).history == []
    assert door.heard == []
    assert answer_of(await door.ask(session, "hi")).error is None


def sent(house: Machine) -> str:
    return str(house.requests()[-1]["messages"][-1]["content"])


# -- files -------------------------------------------------------------------------------------------


async def test_a_text_files_content_reaches_the_model(house: Machine, door: RuntimeUnderTest) -> None:
    (house.folder / "a b.txt").write_text("hello\nthere\n")
    session = await door.session()
    await send(door, session, {"type": "text", "text": "look"}, file("file:a%20b.txt"))
    assert sent(house) == f'look\n\n<file path="{house.folder}/a b.txt">\nhello\nthere\n\n</file>'
    kinds = [type(part) for part in (await door.stored(session))[0].parts]
    assert kinds == [TextPart, FilePart, TextPart]


async def test_a_source_file_is_sent_once_whatever_its_type(house: Machine, door: RuntimeUnderTest) -> None:
    (house.folder / "a.json").write_text('{"a": 1}')
    await send(door, await door.session(), file(f"file://{house.folder}/a.json", "application/json"))
    assert sent(house) == f'<file path="{house.folder}/a.json">\n{{"a": 1}}\n</file>'


async def test_a_folder_is_its_entries(house: Machine, door: RuntimeUnderTest) -> None:
    (house.folder / "src/inner").mkdir(parents=True)
    (house.folder / "src/a.py").touch()
    await send(door, await door.session(), file("file:src", "inode/directory"))
    assert sent(house) == f'<file path="{house.folder}/src">\na.py\ninner/\n</file>'


async def test_an_image_travels_with_the_message_as_it_was(house: Machine, door: RuntimeUnderTest) -> None:
    data = b"\x89PNG\r\n\x1a\n\0\0"
    (house.folder / "dot.png").write_bytes(data)
    session = await door.session()
    await send(door, session, file("file:dot.png", "image/png"))
    (house.folder / "dot.png").unlink()
    (part,) = (await door.stored(session))[0].parts
    assert isinstance(part, FilePart)
    assert part.url == f"data:image/png;base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("query", "place", "text"),
    [
        ("start=2&end=3", "2-3", "two\nthree\n"),
        ("start=3", "3-", "three\nfour\n"),
        ("start=4&end=99", "4-99", "four\n"),
        ("start=9", "9-", ""),
    ],
)
async def test_a_files_url_may_name_the_lines_that_are_meant(
    house: Machine, door: RuntimeUnderTest, query: str, place: str, text: str
) -> None:
    (house.folder / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    session = await door.session()
    await send(door, session, file(f"file:a.txt?{query}"))
    assert sent(house) == f'<file path="{house.folder}/a.txt" lines="{place}">\n{text}\n</file>'


@pytest.mark.parametrize("query", ["start=0", "start=3&end=2", "start=x", "start=1&end=y"])
async def test_lines_that_cannot_be_are_refused(house: Machine, door: RuntimeUnderTest, query: str) -> None:
    (house.folder / "a.txt").write_text("one\n")
    await refused(door, file(f"file:a.txt?{query}"), why="names no lines; write .start=3&end=5")


async def test_a_text_that_comes_as_data_is_shown_as_text(house: Machine, door: RuntimeUnderTest) -> None:
    session = await door.session()
    given = base64.b64encode("größer".encode()).decode()
    await send(door, session, file(f"data:text/plain;base64,{given}") | {"filename": "a.txt"})
    assert sent(house) == '<file name="a.txt">\ngrößer\n</file>'


async def test_a_long_text_is_cut_and_the_model_is_told(house: Machine, door: RuntimeUnderTest) -> None:
    (house.folder / "long.txt").write_text("é" * LONGEST_TEXT)
    await send(door, await door.session(), file("file:long.txt"))
    assert f"(The first {LONGEST_TEXT} of {2 * LONGEST_TEXT} bytes; read the file for the rest.)" in sent(
        house
    )
    assert "\N{REPLACEMENT CHARACTER}" not in sent(house)


async def test_a_file_that_is_not_there_or_too_large_or_no_file_is_refused(
    house: Machine, door: RuntimeUnderTest
) -> None:
    await refused(door, file("file:gone.txt"), why=r"gone\.txt cannot be attached: No such file or directory")
    with (house.folder / "big.bin").open("wb") as big:
        big.truncate(LARGEST_FILE + 1)
    await refused(
        door, file("file:big.bin"), why=r"big\.bin is larger than 5 MiB; name it in the text instead"
    )
    os.mkfifo(house.folder / "pipe")
    await refused(door, file("file:pipe"), why="pipe cannot be attached: it is neither a file nor a folder")


# -- bodies that cannot be carried out ---------------------------------------------------------------

WRONG: list[tuple[list[dict[str, Any]], dict[str, Any], str]] = [
    ([], {}, "at least one part"),
    ([{"type": "hologram"}], {}, "a prompt cannot hold a part of type 'hologram'; it may be text, file"),
    ([{"type": "compaction", "auto": True}], {}, "a prompt cannot hold a part of type 'compaction'"),
    ([{"type": "text"}], {}, r"malformed: .*`text`"),
    ([{"text": "no type"}], {}, "of type None"),
    ([{"type": "text", "text": "hi"}], {"agent": "biuld"}, "no agent 'biuld'; there are: build"),
    (
        [{"type": "text", "text": "hi"}],
        {"model": ModelRef(provider_id="nobody", model_id="x")},
        "unknown provider 'nobody'",
    ),
    ([{"type": "text", "text": "hi"}], {"message_id": "x1"}, "a message's id begins with msg, not 'x1'"),
]


@pytest.mark.parametrize(("parts", "fields", "why"), WRONG, ids=lambda value: str(value)[:30])
async def test_a_prompt_that_cannot_be_carried_out_is_refused_and_nothing_is_saved(
    door: RuntimeUnderTest, parts: list[dict[str, Any]], fields: dict[str, Any], why: str
) -> None:
    await refused(door, *parts, why=why, **fields)


async def test_a_prompt_cannot_write_over_an_earlier_message(door: RuntimeUnderTest) -> None:
    session = await door.session()
    text = {"type": "text", "text": "hi"}
    await send(door, session, text, message_id="msg_mine")
    before = await door.stored(session)
    assert before[0].info.id == "msg_mine"
    with pytest.raises(Invalid, match="has a message msg_mine already"):
        await send(door, session, text, message_id="msg_mine")
    assert await door.stored(session) == before


async def test_messages_keep_their_order_whatever_ids_a_client_gives_them(
    house: Machine, door: RuntimeUnderTest
) -> None:
    session = await door.session()
    for name in ("z", "y", "x", "w"):
        await send(door, session, {"type": "text", "text": name}, message_id=f"msg_{name}")
    await door.runtime.close()
    again = await house.open()
    history = await again.client.messages(session)
    assert [message.info.id for message in history[::2]] == ["msg_z", "msg_y", "msg_x", "msg_w"]
    assert [said(message) for message in history[1::2]] == ["heard"] * 4


# -- chat.message ------------------------------------------------------------------------------------


async def test_a_hook_that_refuses_a_prompt_leaves_nothing_behind(door: RuntimeUnderTest) -> None:
    async def gate(given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        if getattr(output.parts[0], "text", "") == "bad":
            raise ValueError("we do not talk about that")

    door.plugin({"chat.message": gate}, "polite")
    await refused(
        door, {"type": "text", "text": "bad"}, why="the plugin polite refused the prompt: we do not"
    )


async def test_a_hook_changes_the_message_before_it_is_saved(house: Machine, door: RuntimeUnderTest) -> None:
    async def hook(given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        assert given.agent is None
        output.parts[0].text += "!"
        output.parts.append({"type": "text", "text": "and this", "synthetic": True})
        output.message.system = "Be brief."

    door.plugin({"chat.message": hook})
    session = await door.session()
    await door.ask(session, "hi")
    user = (await door.stored(session))[0]
    assert said(user) == "hi!\nand this"
    assert house.requests()[0]["system"][-1] == "Be brief."


@pytest.mark.parametrize(
    "left", [5, {"type": "text"}, TextPart(id="p", session_id="s", message_id="m", text=5)]
)  # type: ignore[arg-type]
async def test_a_message_that_a_hook_broke_is_refused_and_not_saved(
    door: RuntimeUnderTest, left: Any
) -> None:
    async def hook(given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        if len(output.parts) == 1 and getattr(output.parts[0], "text", "") == "break it":
            output.parts.append(left)

    door.plugin({"chat.message": hook})
    await refused(door, {"type": "text", "text": "break it"}, why="malformed|cannot be (saved|used)")


def _moved(output: Any) -> None:
    output.message.session_id = "ses_other"


def _renamed(output: Any) -> None:
    output.message.id = "msg_other"


def _emptied(output: Any) -> None:
    output.parts.clear()


def _unlisted(output: Any) -> None:
    output.parts = None


def _misnamed(output: Any) -> None:
    output.parts[0].id = "first"


def _given_to_nobody(output: Any) -> None:
    output.message.agent = "nobody"


def _sent_nowhere(output: Any) -> None:
    output.message.model.provider_id = "nowhere"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_moved, "its id and session cannot be changed"),
        (_renamed, "its id and session cannot be changed"),
        (_emptied, "it has no parts"),
        (_unlisted, "it has no parts"),
        (_misnamed, "a part's id begins with prt_, not 'first'"),
        (_given_to_nobody, "there is no agent 'nobody'"),
        (_sent_nowhere, "unknown provider 'nowhere'"),
    ],
)
async def test_a_message_that_a_hook_made_into_something_else_is_refused(
    door: RuntimeUnderTest, change: Callable[[Any], None], why: str
) -> None:
    async def hook(given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        if getattr(output.parts[0], "text", "") == "change it":
            change(output)

    door.plugin({"chat.message": hook})
    await refused(
        door, {"type": "text", "text": "change it"}, why=f"hook left a message that cannot be saved: {why}"
    )


async def test_what_a_hook_adds_belongs_to_the_message_whatever_it_says(door: RuntimeUnderTest) -> None:
    async def hook(given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        stray = TextPart(
            id=ids.new("prt"), session_id="ses_other", message_id="msg_other", text="half \ud800"
        )
        output.parts.append(stray)

    door.plugin({"chat.message": hook})
    session = await door.session()
    assert answer_of(await door.ask(session, "hi")).error is None
    (user, _) = await door.stored(session)
    assert said(user) == "hi\nhalf \ufffd"
    assert {(part.session_id, part.message_id) for part in user.parts} == {(session, user.info.id)}
    assert (await door.live(session)).history[0] == user


# -- ids ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["one"], "a part's id begins with prt_, not 'one'"),
        ([""], "a part's id begins with prt_, not ''"),
        (["prt_1", "prt_1"], "two parts of the prompt have the id prt_1"),
    ],
)
async def test_a_parts_id_has_its_form_and_stands_once(
    door: RuntimeUnderTest, given: list[str], why: str
) -> None:
    await refused(door, *({"type": "text", "text": name, "id": name} for name in given), why=why)


async def test_no_prompt_takes_the_place_of_another_sessions_message_or_part(door: RuntimeUnderTest) -> None:
    other = await door.session()
    await door.ask(other, "mine")
    before = await door.stored(other)
    (user, *_) = before
    again = [{"type": "text", "text": "stolen", "id": user.parts[0].id}]
    why = "has an id of this prompt already"
    await refused(door, {"type": "text", "text": "stolen"}, why=why, message_id=user.info.id)
    await refused(door, *again, why=why)
    with pytest.raises(Invalid, match=why):
        await send(door, other, *again)
    assert await door.stored(other) == before == (await door.live(other)).history


async def test_parts_stand_in_the_order_of_their_ids_now_and_after_a_restart(
    house: Machine, door: RuntimeUnderTest
) -> None:
    session = await door.session()
    await send(door, session, *({"type": "text", "text": name, "id": f"prt_{name}"} for name in ("b", "a")))
    assert sent(house) == "a\n\nb"
    assert await door.stored(session) == (await door.live(session)).history


# -- which agent, which model ------------------------------------------------------------------------


async def test_the_model_is_the_prompts_then_the_agents_then_the_last_one_then_the_default(
    house: Machine,
) -> None:
    house.says(ECHO)
    house.settings(agent={"own": {"model": "scripted/agents"}})
    door = await house.open(model="scripted/default")
    session = await door.session()
    named = ModelRef(provider_id="scripted", model_id="prompts")
    for fields in ({}, {"agent": "own"}, {"model": named}, {"agent": "build"}):
        await door.ask(session, "hi", **fields)  # type: ignore[arg-type]
    assert [request["model"] for request in house.requests()] == [
        *("scripted/default", "scripted/agents", "scripted/prompts", "scripted/prompts"),
    ]


async def test_a_sessions_own_agent_and_model_come_before_the_defaults(house: Machine) -> None:
    house.says(ECHO)
    house.settings(agent={"own": {"prompt": "I am own."}})
    door = await house.open()
    model = {"providerID": "scripted", "id": "sessions"}
    session = await door.client.create(SessionBody(title="t", agent="own", model=model))
    await door.ask(session.id, "hi")
    assert house.requests()[0]["model"] == "scripted/sessions"
    assert house.requests()[0]["system"][0].startswith("I am own.")


async def test_a_prompts_agent_is_the_sessions_from_then_on(house: Machine, door: RuntimeUnderTest) -> None:
    session = await door.session()
    for fields in ({}, {"agent": "plan"}, {}, {"agent": "build"}, {}):
        await door.ask(session, "hi", **fields)
    assert [request["agent"] for request in house.requests()] == ["build", "plan", "plan", "build", "build"]
    row = await door.runtime.instance.store.session(session)
    assert row is not None
    assert (row.agent, row.model) == (
        "build",
        SessionModel(id="x", provider_id="scripted", variant="default"),
    )


async def test_a_variants_options_are_sent_and_stand_over_the_models(house: Machine) -> None:
    house.says(ECHO)
    variants = {"high": {"effort": "high"}, "off": {"disabled": True, "effort": "none"}}
    model = {"options": {"effort": "low", "kept": 1}, "variants": variants}
    house.settings(provider={"scripted": {"models": {"x": model}}})
    door = await house.open()
    session = await door.session()
    answers = [await door.ask(session, "hi", variant=name) for name in ("high", "off", "unheard")]
    options = [request["params"]["options"] for request in house.requests()]
    assert options == [
        {"effort": "high", "kept": 1},
        {"effort": "low", "kept": 1},
        {"effort": "low", "kept": 1},
    ]
    assert [answer_of(answer).variant for answer in answers] == ["high", "off", "unheard"]


async def test_what_a_hook_tells_the_session_follows_its_prompt_which_is_answered_as_it_was_asked(
    house: Machine, door: RuntimeUnderTest
) -> None:
    session = await door.session()
    await door.ask(session, "before")

    async def slow(given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        if said(output) == "slow":  # type: ignore[arg-type]
            await door.client.prompt(session, PromptBody.text("told", no_reply=True))

    door.plugin({"chat.message": slow})
    answer = await door.ask(session, "slow", system="Be brief.")
    history = (await door.live(session)).history
    assert [said(message) for message in history] == ["before", "heard", "slow", "told", "heard"]
    assert await door.stored(session) == history
    assert answer_of(answer).parent_id == history[2].info.id
    request = house.requests()[-1]
    told = [one["content"] for one in request["messages"] if one["role"] == "user"]
    assert told == ["before", "slow", "told"]
    assert "Be brief." in json.dumps(request)


async def test_a_message_that_a_slow_hook_kept_back_stands_after_a_turn_that_came_meanwhile(
    house: Machine, door: RuntimeUnderTest
) -> None:
    session = await door.session()

    async def slow(given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        if said(output) == "slow":  # type: ignore[arg-type]
            await door.client.prompt(session, PromptBody.text("quick"))

    door.plugin({"chat.message": slow})
    await door.ask(session, "slow")
    history = (await door.live(session)).history
    assert [said(message) for message in history] == ["quick", "heard", "slow", "heard"]
    assert await door.stored(session) == history


async def test_a_prompt_without_a_reply_is_stored_and_answered_with_the_next_one(
    house: Machine, door: RuntimeUnderTest
) -> None:
    session = await door.session()
    stored = await send(door, session, {"type": "text", "text": "note this"}, no_reply=True)
    assert said(stored) == "note this"
    assert house.requests() == []
    await door.ask(session, "and now?")
    assert [message["content"] for message in house.requests()[0]["messages"]] == ["note this", "and now?"]
