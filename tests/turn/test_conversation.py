"""What a request holds of a long session: kept from step to step, and made anew where a message was changed."""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import instar
from instar.message import TextPart
from instar.testing import Machine, RuntimeUnderTest

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: heard\n'
ROOMS = ("turn", "session", "provider/convert.py", "provider/prompt_cache.py", "provider/protocol.py")
SOURCE = Path(instar.__file__).parent


async def talk(house: Machine, prompts: int = 3) -> tuple[RuntimeUnderTest, str]:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    for number in range(prompts):
        await door.ask(session, f"prompt {number}")
    return door, session


def last_request(house: Machine) -> list[dict[str, Any]]:
    return list(house.requests()[-1]["messages"])


async def asked_in_a_new_process(house: Machine, session: str) -> list[dict[str, Any]]:
    """What is sent of the session by a runtime that has kept nothing of it, but for the prompt."""
    door = await house.open()
    await door.ask(session, "last")
    return last_request(house)[:-2]


async def change(door: RuntimeUnderTest, session: str) -> None:
    first = (await door.stored(session))[0].parts[0]
    assert isinstance(first, TextPart)
    first.text = "changed"
    await door.client.put_part(session, first)


async def drop_part(door: RuntimeUnderTest, session: str) -> None:
    answer = (await door.stored(session))[1]
    await door.client.remove(session, answer.info.id, answer.parts[1].id)


async def drop_message(door: RuntimeUnderTest, session: str) -> None:
    await door.client.remove(session, (await door.stored(session))[2].info.id)


async def go_back(door: RuntimeUnderTest, session: str) -> None:
    await door.client.revert(session, (await door.stored(session))[2].info.id)


async def summarise(door: RuntimeUnderTest, session: str) -> None:
    await door.client.summarize(session)


async def nothing(door: RuntimeUnderTest, session: str) -> None:
    """Leave the session as it is."""


@pytest.mark.parametrize("act", [nothing, change, drop_part, drop_message, go_back, summarise])
async def test_what_was_changed_in_a_session_is_in_the_next_request(
    house: Machine, act: Callable[[RuntimeUnderTest, str], Any]
) -> None:
    door, session = await talk(house)
    before = last_request(house)
    await act(door, session)
    for prompt in ("one more", "and one"):
        await door.ask(session, prompt)
    one_more, kept = (one["messages"] for one in house.requests()[-2:])
    assert (one_more[: len(before)] == before) == (act is nothing)
    assert kept[: len(one_more)] == one_more
    await door.runtime.close()
    assert await asked_in_a_new_process(house, session) == kept


async def test_a_step_of_a_long_session_looks_at_what_is_new(house: Machine) -> None:
    door, session = await talk(house)

    async def looks() -> int:
        count = 0

        def note(frame: FrameType, event: str, _: Any) -> None:
            nonlocal count
            path = Path(frame.f_code.co_filename)
            if event == "call" and path.is_relative_to(SOURCE):
                count += path.relative_to(SOURCE).as_posix().startswith(ROOMS)

        sys.setprofile(note)
        try:
            await door.ask(session, "counted")
        finally:
            sys.setprofile(None)
        return count

    for number in range(10):
        await door.ask(session, f"some {number}")
    early = min([await looks() for _ in range(3)])
    for number in range(40):
        await door.ask(session, f"more {number}")
    late = min([await looks() for _ in range(3)])
    # To look at each of the 86 new messages once would be 86 more; a place is searched for by halves.
    assert late < early + 50, f"{early} calls in an early turn, {late} in a late one"
    sizes = [len(request["messages"]) for request in house.requests()]
    assert all(one < other for one, other in pairwise(sizes))
