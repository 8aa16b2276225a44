"""The fixture `house`, and events as short words. Use it with ``pytest_plugins = ["tests.turn"]``.

Tests import it before pytest does: PYTEST_DONT_REWRITE.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from instar.event import Event
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest


@pytest.fixture
async def house(tmp_path: Path, clean_environment: Mapping[str, str]) -> AsyncIterator[Machine]:
    async with Machine(tmp_path, clean_environment) as made:
        yield made


async def reload(door: RuntimeUnderTest) -> tuple[list[str], list[str]]:
    """Reload, and return what its one event says: what was taken up, and the problems; nothing without an event."""
    before = len(door.of("instance.reloaded"))
    await asyncio.wait_for(door.runtime.reload(), TIMEOUT)
    new = door.of("instance.reloaded")[before:]
    assert len(new) <= 1
    return (new[0].what, new[0].problems) if new else ([], [])


def trace(events: list[Event]) -> list[str]:
    """Events as short words, one each, for a snapshot in a test."""
    return [_word(event) for event in events]


TRAILING = ["session.updated", "session.diff", "message user"]
"""What follows the first turn's ``session.idle``: what it did to files."""


def _word(event: Event) -> str:
    given = event.to_plain()["properties"]
    if event.type == "message.updated":
        info = given["info"]
        return " ".join(
            ["message", info["role"], info.get("finish") or (info.get("error") or {}).get("name") or ""]
        ).strip()
    if event.type == "message.part.updated":
        part = given["part"]
        state = part.get("state", {}).get("status") or part.get("reason") or part.get("text")
        return f"part {part['type']}" + ("" if state is None else f" {state}")
    if event.type == "message.part.delta":
        return f"delta {given['delta']}"
    if event.type == "session.status":
        return f"status {given['status']['type']}"
    return event.type
