"""The runtime: opened from settings and plugins, asked as a client, closed with nothing left behind."""

import asyncio
import json
import sqlite3
import threading

import pytest

from instar.event import FileEdited, SessionIdle, make
from instar.plugin import PromptBody
from instar.store import StoreError
from instar.testing import TIMEOUT, Machine, said
from instar.wire.document import DocumentError

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'
SHOUT = """
    async def shout(input, options):
        async def complete(given, output):
            output.text = output.text.upper()

        return {"text.complete": complete}
"""


async def test_a_plugin_of_the_project_takes_part_in_the_turn(house: Machine) -> None:
    house.says(ECHO)
    house.plugin(SHOUT)
    door = await house.open()
    assert door.runtime.notices == []
    assert said(await door.ask(await door.session(), "hello")) == "HELLO"


async def test_a_plugin_of_a_folder_that_is_not_trusted_does_not_run_and_is_named(house: Machine) -> None:
    house.says(ECHO)
    house.plugin("open('ran', 'w')\n" + SHOUT.replace("\n    ", "\n"))
    del house.environment["INSTAR_TRUST"]
    door = await house.open()
    assert said(await door.ask(await door.session(), "hello")) == "hello"
    said_of_it = [*door.runtime.notices, *getattr(door.runtime, "untrusted", [])]
    assert any("mine.py" in notice for notice in said_of_it)
    assert not (house.folder / "ran").exists()


async def test_a_plugin_that_does_not_load_is_named_and_the_others_work(house: Machine) -> None:
    house.says(ECHO)
    house.plugin("this is no python", "a_broken")
    house.plugin(SHOUT, "b_good")
    door = await house.open()
    (notice,) = door.runtime.notices
    assert "a_broken.py is skipped: SyntaxError" in notice
    assert said(await door.ask(await door.session(), "hello")) == "HELLO"


async def test_a_plugin_is_given_its_surroundings_hears_events_in_order_and_is_told_the_end(
    house: Machine,
) -> None:
    house.says(ECHO)
    house.settings(
        username="ada", provider={"own": {"options": {"apiKey": "sk-secret", "baseURL": "http://127.0.0.1"}}}
    )
    house.plugin("""
        import json

        async def witness(input, options):
            seen = {"directory": str(input.directory), "host": input.host.name, "options": options, "heard": []}
            seen["can"] = sorted(input.host.capabilities)

            async def event(event):
                seen["heard"].append(event.type)

            async def config(config):
                seen["username"] = config["username"]
                seen["key"] = str(config["provider"]["own"]["options"]["apiKey"])

            async def dispose():
                await input.kv.set("count", 1 + (await input.kv.get("count") or 0))
                seen["count"] = await input.kv.get("count")
                (input.directory / "seen.json").write_text(json.dumps(seen))

            return {"event": event, "config": config, "dispose": dispose}
    """)
    for _ in range(2):
        door = await house.open()
        await door.ask(await door.session(), "hello")
        await door.runtime.close()
    seen = json.loads((house.folder / "seen.json").read_text())
    assert (seen["directory"], seen["host"], seen["options"]) == (str(house.folder), "instar", {})
    assert {"generate", "follow_ups"} <= set(seen["can"])
    assert seen["username"] == "ada"
    assert "sk-secret" not in seen["key"]
    assert seen["count"] == 2
    assert seen["heard"] == door.types()


async def test_clients_hear_events_from_when_they_listen(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    heard: list[str] = []

    async def listen() -> None:
        async for event in door.runtime.events():
            heard.append(event.type)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    await door.runtime.publish(make(FileEdited(file="a.py")))
    await door.ask(await door.session(), "hi")
    await door.runtime.close()
    await listening
    assert heard[:2] == ["file.edited", "session.created"]
    assert heard == door.types()


async def test_the_configuration_is_shown_without_its_secrets(house: Machine) -> None:
    house.settings(provider={"own": {"options": {"apiKey": "sk-secret"}}})
    door = await house.open()
    shown = await door.runtime.config()
    assert shown["provider"]["own"]["options"] == {"apiKey": "***"}
    assert shown["model"] == "scripted/x"


async def test_a_configuration_that_does_not_parse_names_its_place(house: Machine) -> None:
    house.home.mkdir(parents=True)
    (house.home / "instar.json").write_text('{\n  "model": 5\n}')
    with pytest.raises(DocumentError, match=r"instar\.json:2:\d+: model: "):
        await house.open()


async def test_a_runtime_that_does_not_open_lets_go_of_the_database(house: Machine) -> None:
    house.plugin("raise BaseException('enough')")
    before = threading.active_count()
    with pytest.raises(BaseException, match="enough"):
        await house.open()
    await asyncio.sleep(0)
    for thread in threading.enumerate():
        if thread.name == "instar-store-writer":
            thread.join(5)
    assert threading.active_count() <= before


async def test_a_closed_runtime_refuses_further_work(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.runtime.close()
    with pytest.raises(StoreError):
        await door.client.prompt(session, PromptBody.text("hi"))


async def test_what_is_being_saved_while_a_runtime_closes_is_told_before_its_end(house: Machine) -> None:
    door = await house.open()
    store = door.runtime.instance.store
    reached, opened = threading.Event(), threading.Event()

    def hold(connection: sqlite3.Connection) -> None:
        reached.set()
        opened.wait(TIMEOUT)

    store._writer.submit(hold)
    await asyncio.to_thread(reached.wait)
    store.commit([], [make(SessionIdle(session_id="ses_1"))])
    closing = asyncio.create_task(door.runtime.close())
    for _ in range(100):
        await asyncio.sleep(0)
    opened.set()
    await closing
    assert door.types()[-2:] == ["session.idle", "server.instance.disposed"]


async def test_closing_twice_is_harmless(house: Machine) -> None:
    door = await house.open()
    await door.runtime.close()
    await door.runtime.close()


async def test_a_model_that_is_not_there_is_said_at_the_prompt_and_nothing_is_saved(house: Machine) -> None:
    door = await house.open(model="nobody/x")
    session = await door.session()
    with pytest.raises(Exception, match="unknown provider 'nobody'"):
        await door.client.prompt(session, PromptBody.text("hi"))
    assert await door.stored(session) == []
