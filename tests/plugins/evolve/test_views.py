"""What evolve shows of itself: the workspace, and the heartbeat with its last results."""

from typing import Any

import pytest
from tests.plugins.evolve.living import bot, living, workspace

from instar.plugin import Value
from instar.plugins.evolve.heartbeat import schedule
from instar.plugins.evolve.heartbeat.schedule import BeatOutcome


def shown(live: Any, view: str) -> dict[str, Any]:
    values = live.registry.views[view].children
    assert all(value.write is None and value.doc for value in values.values() if isinstance(value, Value))
    return {name: value.read("ses_1") for name, value in values.items() if isinstance(value, Value)}


@pytest.mark.slow
async def test_the_workspace_is_shown_as_it_is_now(root):
    workspace(root)
    async with living(root) as live:
        before = shown(live, "evolve")
        await live.write(bot("# 1"))
        after = shown(live, "evolve")
    assert before["active"] is True
    assert before["workspace"] == str(root)
    assert before["scripts"] == ["bot.sh"]
    assert "bot_greet" in before["tools"]
    assert after["epoch"] == before["epoch"] + 1


async def test_the_heartbeat_is_shown_with_its_last_results(root):
    workspace(root)
    async with living(root) as live:
        off = shown(live, "dream")
        book = live.engine.storage.heartbeat
        book.change(lambda state: schedule.set_every(state, 60_000, 1_000))
        begun = book.change(lambda state: schedule.passed(state, 61_000))
        book.change(lambda state: schedule.ended(state, 62_000, BeatOutcome("ses_h", 120, 0.5)))
        on = shown(live, "dream")
        book.change(lambda state: schedule.pause(state, 63_000, "a person"))
        paused = shown(live, "dream")
    assert begun.beat is not None
    assert (off["active"], off["results"], off["due"]) == (False, [], None)
    assert (on["active"], on["every"], on["last"], on["paused"]) == (True, 60_000, 61_000, "")
    last = on["results"][-1]
    assert (last["at"], last["end"], last["tokens"], last["cost"], last["why"]) == (
        61_000,
        62_000,
        120,
        0.5,
        "",
    )
    assert (paused["active"], paused["paused"]) == (False, "a person")
