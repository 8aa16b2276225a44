"""The HTTP interface of an instance, in process, as its plugins are given it."""

import asyncio
import json

import pytest
from tests.waiting import until

from instar.api.config import Config
from instar.client import ApiError, NotFound, PromptBody, Request
from instar.plugin import Invalid, SessionBody
from instar.runtime import Options, Runtime
from instar.server.within import client_of

pytest_plugins = ["tests.turn"]


@pytest.fixture
async def door(house):
    """An open instance whose model says hello."""
    house.says("== turn\ntext: hello\n")
    return await house.open()


async def test_a_plugin_asks_the_whole_interface_in_process_without_a_password(house):
    house.says("== turn\ntext: hello\n")
    house.plugin("""
        import json

        async def curious(input, options):
            async def event(event):
                if event.type == "session.idle":
                    async with input.http() as client:
                        found = [
                            (await client.global_.health())["healthy"],
                            [one.title for one in await client.session.list()],
                            [one.info.role for one in await client.session.messages(event.properties.session_id)],
                        ]
                    (input.directory / "found.json").write_text(json.dumps(found))

            return {"event": event}
    """)
    options = Options(house.folder, house.environment, {"model": "scripted/x"}, http=client_of)
    async with await Runtime.open(options) as runtime:
        made = await runtime.session.create(SessionBody(title="named"))
        await runtime.session.prompt(made.id, PromptBody.text("go"))
        # The end of the instance waits for its plugins, but not for as long as they like.
        await until((house.folder / "found.json").exists)
    found = json.loads((house.folder / "found.json").read_text())
    assert found == [True, ["named"], ["user", "assistant"]]


async def test_an_instance_that_no_door_serves_says_so(door):
    with pytest.raises(Invalid, match="no HTTP interface"):
        door.runtime.http()


async def test_a_prompt_in_process_runs_the_turn_and_its_events_come_as_they_happen(door):
    async with client_of(door.runtime) as client:
        session = await client.session.create(SessionBody(title="x"))
        async with client.listening(Request("GET", "/event")) as events:
            answer = await client.session.prompt(session.id, PromptBody.text("hi"))
            heard = []
            async for event in events:
                heard.append(event.type)
                if event.type == "session.idle":
                    break
    assert [part.text for part in answer.parts if part.type == "text"] == ["hello"]
    assert heard[0] == "server.connected"
    assert "message.part.updated" in heard


async def test_it_knows_its_own_directory_alone(door, tmp_path):
    async with client_of(door.runtime) as client:
        with pytest.raises(NotFound):
            await client.session.get("ses_none")
        client.directory = str(tmp_path)
        with pytest.raises(Invalid, match="is open here"):
            await client.session.list()


async def test_who_did_not_open_the_instance_does_not_end_it(door):
    async with client_of(door.runtime) as client:
        for dispose in (client.instance.dispose, client.global_.dispose):
            with pytest.raises(Invalid, match="not the server's to dispose of"):
                await dispose()
        assert not door.runtime.instance.closed
        assert await client.session.list() == []


async def test_settings_are_not_a_plugins_to_change_over_http(door):
    async with client_of(door.runtime) as client:
        for update in (client.config.update, client.global_.config.update):
            with pytest.raises(ApiError, match="is a person's to ask for"):
                await update(Config(username="mine"))


async def test_a_client_that_leaves_a_stream_leaves_nothing_behind(door):
    door.runtime.watch()
    before = asyncio.all_tasks()
    async with client_of(door.runtime) as client, client.listening(Request("GET", "/event")) as events:
        await anext(events)
    assert asyncio.all_tasks() <= before
