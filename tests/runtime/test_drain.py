"""A runtime that is about to end: what runs goes on, and nothing new begins."""

import asyncio
import os

import pytest

from instar.plugin import Invalid, PromptBody
from instar.testing import Machine, said

pytest_plugins = ["tests.turn"]

SCRIPT = """
    == when "delegate"
    tool: bash {{"command": "cat {pipe}"}}
    tool: task {{"description": "d", "prompt": "of the sub-agent", "subagent_type": "general"}}

    == when "of the sub-agent"
    text: from the sub-agent

    == when ""
    text: the end
"""


async def test_a_turn_ends_with_its_sub_agents_and_no_other_begins(house: Machine) -> None:
    pipe = house.folder / "pipe"
    os.mkfifo(pipe)
    house.says(SCRIPT.format(pipe=pipe))
    door = await house.open()
    session, other = await door.session(), await door.session()
    await door.start(session, "delegate")
    await door.running()
    draining = asyncio.create_task(door.runtime.drain())
    await asyncio.sleep(0)
    with pytest.raises(Invalid, match="closing"):
        await door.client.prompt(other, PromptBody.text("new"))
    assert await door.stored(other) == []
    assert not draining.done()
    await asyncio.to_thread(pipe.write_text, "go")
    await asyncio.wait_for(draining, 20)
    assert said((await door.stored(session))[-1]) == "the end"
    (child,) = await door.client.children(session)
    assert said((await door.stored(child.id))[-1]) == "from the sub-agent"
