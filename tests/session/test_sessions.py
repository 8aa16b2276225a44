"""Sessions: made, opened, kept in memory, shared with other processes, deleted."""

import asyncio
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.postgresql import change
from tests.waiting import until

from instar.message import Rule, TextPart
from instar.plugin import Invalid, NotFound, PromptBody, SessionBody
from instar.session.sessions import Saving, default_title, slug
from instar.store import StoreError
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, said, users

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'

CHILD = """
import asyncio, json, sys
from pathlib import Path
from instar.plugin import PromptBody
from instar.runtime import Options, Runtime

async def main():
    folder, environment, session, texts, silent = json.loads(sys.stdin.read())
    options = Options(Path(folder), environment, {"model": "scripted/x"})
    async with await Runtime.open(options) as runtime:
        for text in texts:
            await runtime.session.prompt(session, PromptBody.text(text, no_reply=silent))

asyncio.run(main())
"""


async def other_process(house: Machine, session: str, *texts: str, silent: bool = False) -> None:
    """Prompt a session from a process of its own, to the end."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(CHILD), stdin=asyncio.subprocess.PIPE
    )
    given = json.dumps([str(house.folder), house.environment, session, texts, silent]).encode()
    await asyncio.wait_for(child.communicate(given), TIMEOUT)
    assert child.returncode == 0


async def test_a_session_has_opencodes_fields(house: Machine) -> None:
    door = await house.open()
    rules = [Rule(permission="bash", pattern="*", action="ask")]
    body = SessionBody(title="Mine", agent="build", metadata={"a": 1}, permission=rules)
    made = await door.client.create(body)
    assert made.id.startswith("ses_")
    assert re.fullmatch(r"[a-z]+-[a-z]+", made.slug)
    assert (made.title, made.agent, made.metadata) == ("Mine", "build", {"a": 1})
    assert (made.project_id, made.directory) == ("global", str(house.folder))
    assert made.permission == rules
    assert made.time.created == made.time.updated
    assert await door.runtime.instance.store.session(made.id) == made == await door.client.get(made.id)
    assert [event.type for event in door.heard] == ["session.created"]


async def test_a_session_says_where_in_its_worktree_it_works(house: Machine) -> None:
    outside = await (await house.open()).client.create()
    assert outside.path == house.folder.as_posix()[1:]
    subprocess.run(["git", "init", "--quiet", house.folder], check=True)
    root = await (await house.open()).client.create()
    assert root.path == ""
    house.folder = house.folder / "a" / "b"
    house.folder.mkdir(parents=True)
    below = await (await house.open()).client.create()
    assert below.path == "a/b"


async def test_a_session_without_a_title_has_opencodes_default(house: Machine) -> None:
    door = await house.open()
    made = await door.client.create()
    assert made.title == default_title(made.time.created)
    assert re.fullmatch(r"New session - \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", made.title)
    assert default_title(1_700_000_000_007) == "New session - 2023-11-14T22:13:20.007Z"


def test_slugs_differ() -> None:
    assert len({slug() for _ in range(100)}) > 20


@pytest.mark.parametrize(
    ("body", "error", "why"),
    [
        (SessionBody(agent="biuld"), Invalid, "no agent 'biuld'; there are: build"),
        (SessionBody(model={"id": 5}), Invalid, "a session cannot be made of this: "),
        (SessionBody(parent_id="ses_gone"), NotFound, "Session not found: ses_gone"),
    ],
)
async def test_a_session_that_cannot_be_made_is_refused(
    house: Machine, body: SessionBody, error: type[Exception], why: str
) -> None:
    door = await house.open()
    with pytest.raises(error, match=why):
        await door.client.create(body)
    assert await door.client.list() == []
    assert door.heard == []


async def test_sessions_are_listed_last_updated_first(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    one, two = await door.session(), await door.session()
    await door.ask(one, "hi")
    assert [session.id for session in await door.client.list()] == [one, two]
    await door.client.update(two, title="newer")
    assert [session.id for session in await door.client.list()] == [two, one]


async def test_a_deleted_session_is_gone_with_its_children_and_frozen_prompts(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    parent = await door.session()
    child = await door.session(parent_id=parent)
    await door.ask(parent, "hi")
    await door.ask(child, "hi")
    await door.client.delete(parent)
    store = door.runtime.instance.store
    assert await door.client.list() == []
    assert await store.values("instar", "system:") == {}
    assert await store.values("instar", "prefix:") == {}
    assert await store.messages(child) == await store.messages(parent) == []
    assert [given.info.id for given in door.of("session.deleted")] == [child, parent]
    for session in (parent, child):
        with pytest.raises(NotFound, match=f"Session not found: {session}"):
            await door.client.get(session)


async def test_deleting_a_session_ends_its_turn(house: Machine) -> None:
    house.says("== turn\ntext: so far\ndelay: 60s\ntext: more\n")
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await door.until(lambda event: event.type == "message.part.delta")
    await door.client.delete(session)
    assert await door.client.status() == {}


@pytest.mark.parametrize(
    "what", ["get", "messages", "prompt", "delete", "abort", "update", "summarize", "follow_up"]
)
async def test_an_unknown_session_is_named(house: Machine, what: str) -> None:
    door = await house.open()
    more: dict[str, tuple[Any, ...]] = {
        "prompt": (PromptBody.text("x"),),
        "follow_up": (PromptBody.text("x"), "test"),
    }
    with pytest.raises(NotFound, match="Session not found: ses_gone"):
        await getattr(door.client, what)("ses_gone", *more.get(what, ()))


async def test_what_a_client_is_given_is_detached(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    answer = await door.ask(session, "hi")
    answer.parts.clear()
    (await door.client.messages(session))[0].parts.clear()
    (await door.client.get(session)).title = "changed"
    assert (await door.live(session)).history == await door.stored(session)
    assert (await door.client.get(session)).title == "named"


@pytest.mark.parametrize(("limit", "expected"), [(None, 4), (3, 3), (9, 4), (0, 0), (-1, 0)])
async def test_messages_can_be_limited_to_the_newest(
    house: Machine, limit: int | None, expected: int
) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "one")
    await door.ask(session, "two")
    found = await door.client.messages(session, limit)
    assert found == (await door.stored(session))[4 - expected :]


async def test_a_message_that_could_not_be_stored_is_not_in_the_history(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "one")
    database = door.runtime.instance.paths.database
    full = (
        "CREATE TRIGGER full BEFORE INSERT ON part WHEN NEW.data LIKE '%too much%'"
        " BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        if isinstance(database, Path)
        else "ALTER TABLE part ADD CONSTRAINT \"the disk is full\" CHECK (data NOT LIKE '%too much%')"
    )
    change(database, full)
    with pytest.raises(StoreError, match="the disk is full"):
        await door.ask(session, "too much")
    assert (await door.live(session)).history == await door.stored(session)
    assert said(await door.ask(session, "two")) == "two"


# -- other processes ---------------------------------------------------------------------------------


@pytest.mark.slow
async def test_what_another_process_added_is_seen_by_readers_and_by_the_next_turn(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "ours")
    await other_process(house, session, "theirs")
    assert users(await door.client.messages(session)) == ["ours", "theirs"]
    await other_process(house, session, "theirs again")
    await door.ask(session, "ours again")
    sent = [message["content"] for message in house.requests()[-1]["messages"] if message["role"] == "user"]
    assert sent == ["ours", "theirs", "theirs again", "ours again"]
    assert (await door.live(session)).history == await door.stored(session)


@pytest.mark.slow
async def test_a_note_that_another_process_left_is_sent_with_the_next_turn(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "ours")
    await other_process(house, session, "a note", silent=True)
    await door.ask(session, "ours again")
    sent = [message["content"] for message in house.requests()[-1]["messages"] if message["role"] == "user"]
    assert sent == ["ours", "a note", "ours again"]


async def test_a_session_that_another_process_deleted_is_not_found(house: Machine) -> None:
    door = await house.open()
    session = await door.session()
    other: RuntimeUnderTest = await house.open()
    await other.client.delete(session)
    with pytest.raises(NotFound):
        await door.client.get(session)


async def test_parts_of_a_text_are_in_the_history_as_they_are_stored(house: Machine) -> None:
    house.says("== turn\nreasoning: hm\ntext: yes\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    live = (await door.live(session)).history
    assert live == await door.stored(session)
    assert [part.text for part in live[1].parts if isinstance(part, TextPart)] == ["yes"]


async def test_what_nobody_waits_for_is_said_in_the_log_when_it_cannot_be_saved(
    house: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "one")
    live = await door.live(session)
    lost = TextPart(id="prt_lost", session_id=session, message_id="msg_gone", text="lost")
    door.runtime.instance.sessions.save_soon(Saving().part(live.history[-1], lost))
    await until(lambda: "not saved" in caplog.text)
    assert "belongs to a project, session or message that is not in the store" in caplog.text
