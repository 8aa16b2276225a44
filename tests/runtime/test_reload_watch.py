"""A runtime that is listened to takes up what changes in files by itself."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from instar.event import Event
from instar.project import watch
from instar.runtime import reload_watch as waiting
from instar.runtime.reload_watch import WatchedFiles
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest

pytest_plugins = ["tests.turn"]


def write(path: Path, text: str) -> Path:
    """Put a file there, whole from the first moment on: half of one would be taken up, and then the rest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # One folder further up nobody looks at it.
    half = path.parent.parent / "half-written"
    half.write_text(text, "utf-8")
    return half.replace(path)


async def reloaded(door: RuntimeUnderTest, number: int = 1) -> Any:
    """The so-manieth reload."""
    async with asyncio.timeout(TIMEOUT):
        return (await until(lambda: door.of("instance.reloaded")[number - 1 :]))[0]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "QUIET", 0.02)
    monkeypatch.setattr(waiting, "POLL", 0.05)
    monkeypatch.setattr(watch, "STEP", 5)


async def test_files_that_change_while_somebody_listens_are_taken_up(house: Machine) -> None:
    del house.environment["INSTAR_TRUST"]
    door = await house.open()
    door.runtime.watch()
    write(house.folder / ".instar/agents/poet.md", "You write.")
    assert (await reloaded(door)).what == ["agents"]
    house.settings(username="ada")
    assert (await reloaded(door, 2)).what == ["settings"]
    write(house.folder / "AGENTS.md", "Be kind.")
    assert (await reloaded(door, 3)).what == ["instructions"]
    house.plugin("async def mine(input, options): return {}")
    left = (await reloaded(door, 4)).problems
    assert any("mine.py was left out" in one for one in left)
    house.trust()
    assert (await reloaded(door, 5)).what == ["plugin:mine"]


async def test_what_changed_before_the_watch_began_is_taken_up_with_it(house: Machine) -> None:
    door = await house.open()
    write(house.folder / ".instar/agents/poet.md", "You write.")
    door.runtime.watch()
    assert (await reloaded(door)).what == ["agents"]


async def test_a_session_that_lives_is_enough_of_a_reason(
    house: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.runtime.runtime._WATCH_AFTER", 0.01)
    house.says("""
        == turn
        tool: bash {"command": "while test ! -e go; do sleep 0.01; done"}

        == turn
        text: done
    """)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    write(house.folder / ".instar/agents/poet.md", "You write.")
    assert (await reloaded(door)).what == ["agents"]
    write(house.folder / "go", "")
    await door.idle(session)


async def test_many_files_that_change_one_after_the_other_are_one_reload(
    house: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Until the last file is written it is never quiet for long enough, however long the machine stalls in between.
    monkeypatch.setattr(waiting, "QUIET", 60.0)
    monkeypatch.setattr(waiting, "LONGEST", 60.0)
    looks: list[object] = []
    door = await house.open()
    signature = WatchedFiles.signature
    monkeypatch.setattr(
        WatchedFiles, "signature", lambda places: looks.append(signature(places)) or looks[-1]
    )
    door.runtime.watch()
    await until(lambda: looks)  # once the watch has begun: from then on it is told of each file
    for number in range(19):
        write(house.folder / f".instar/agents/poet{number}.md", "You write.")
        await asyncio.sleep(0.01)
    assert door.of("instance.reloaded") == []
    monkeypatch.setattr(waiting, "QUIET", 0.02)
    write(house.folder / ".instar/agents/poet19.md", "You write.")
    await reloaded(door)
    assert len(door.of("instance.reloaded")) == 1
    assert len([one for one in door.runtime.instance.agents.all() if one.name.startswith("poet")]) == 20


async def test_a_system_that_tells_of_no_changes_is_asked_every_so_often(
    house: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "POLL", 0.01)

    def refuse(*given: object) -> object:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", refuse)
    door = await house.open()
    door.runtime.watch()
    write(house.folder / ".instar/agents/poet.md", "You write.")
    assert (await reloaded(door)).what == ["agents"]
    write(house.folder / ".instar/agents/baker.md", "You bake.")
    await reloaded(door, 2)
    assert len([one for one in caplog.messages if "files are looked at every" in one]) == 1


async def test_nothing_waits_after_the_end_nor_where_the_settings_say_no(house: Machine) -> None:
    def waiting_tasks() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "reload"]

    write(house.folder / "instar.json", json.dumps({"reload": False}))
    door = await house.open()
    door.runtime.watch()
    assert waiting_tasks() == []
    os.remove(house.folder / "instar.json")
    other = await house.open()
    other.runtime.watch()
    assert waiting_tasks() == ["reload"]
    await other.runtime.close()
    assert waiting_tasks() == []


async def test_a_plugin_that_the_settings_name_is_watched_from_then_on(
    house: Machine, tmp_path: Path
) -> None:
    door = await house.open()
    door.runtime.watch()
    mine = write(tmp_path / "elsewhere" / "mine.py", "async def mine(input, options): return {}")
    house.settings(plugin=[str(mine)])
    assert (await reloaded(door)).what == ["plugin:mine"]
    write(mine, "async def mine(input, options): return {'timeout': 1}")
    assert (await reloaded(door, 2)).what == ["plugin:mine"]


async def test_a_plugin_that_changes_while_it_is_taken_up_is_taken_up_again(
    house: Machine, tmp_path: Path
) -> None:
    door = await house.open()
    door.runtime.watch()
    mine = write(tmp_path / "elsewhere" / "mine.py", "async def mine(input, options): return {}")
    left = ["async def mine(input, options): return {'timeout': 1}"]

    def change(event: Event) -> None:
        if event.type == "instance.reloaded" and left:
            write(mine, left.pop())

    door.runtime.instance.bus.observe(change)
    house.settings(plugin=[str(mine)])
    assert (await reloaded(door)).what == ["plugin:mine"]
    assert (await reloaded(door, 2)).what == ["plugin:mine"]
