"""Resting: when a session may be told something outside a turn, whatever order prompts and events come in."""

import asyncio
from types import SimpleNamespace

import pytest

from instar.plugin import NotFound, ids
from instar.plugins.evolve.notifications import IdleSessions, NotificationPoster

OTHER = "ses_1"


class Client:
    """Sessions as a client shows them."""

    def __init__(self, busy=(), **fields) -> None:
        self.session = self
        self.busy = dict.fromkeys(busy)
        self.found = SimpleNamespace(revert=None, time=SimpleNamespace(archived=None))
        self.__dict__.update(fields)

    async def status(self):
        return self.busy

    async def get(self, session_id):
        if self.found is None:
            raise NotFound(session_id)
        return self.found


async def rested(client):
    resting = IdleSessions(client)
    await resting.prompted(OTHER)
    assert resting.idle(OTHER, ids.new("evt"))
    return resting


async def test_a_session_rests_from_its_idle_event_until_the_next_prompt():
    resting = await rested(Client())
    assert (resting.rests(OTHER), await resting.why_not(OTHER)) == (True, "")
    await resting.prompted(OTHER)
    assert (resting.rests(OTHER), await resting.why_not(OTHER)) == (False, "it is at work")


async def test_an_event_that_is_older_than_a_prompt_lets_nobody_rest():
    resting = await rested(Client())
    late = ids.new("evt")
    await resting.prompted(OTHER)
    assert not resting.idle(OTHER, late)
    assert not resting.rests(OTHER)


async def test_a_session_that_had_no_turn_in_this_process_does_not_rest():
    resting = IdleSessions(Client())
    assert not resting.idle(OTHER, ids.new("evt"))
    assert await resting.why_not(OTHER) == "it is at work"


def session(**fields):
    return SimpleNamespace(**({"revert": None, "time": SimpleNamespace(archived=None)} | fields))


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (Client(busy=[OTHER]), "it is at work"),
        (Client(found=None), "it is gone"),
        (Client(found=session(revert=object())), "it was taken back, and may be taken forth again"),
        (Client(found=session(time=SimpleNamespace(archived=7))), "it was put away"),
    ],
)
async def test_what_keeps_a_session_from_being_told_is_said(client, why):
    resting = await rested(client)
    assert await resting.why_not(OTHER) == why


async def test_a_prompt_waits_for_what_is_being_put_into_its_session_and_for_no_other():
    resting = await rested(Client())
    async with resting.held(OTHER):
        prompt = asyncio.create_task(resting.prompted(OTHER))
        await resting.prompted("ses_2")
        await asyncio.sleep(0)
        assert not prompt.done()
        # It is known at once that a prompt is on its way.
        assert not resting.rests(OTHER)
    await prompt
    resting.forget(OTHER)
    assert not resting.idle(OTHER, ids.new("evt"))


class Slow:
    """Letters that take until `go` is set."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()

    async def unread(self, session_id):
        return 0

    async def put(self, *_):
        self.began.set()
        await self.go.wait()


async def test_a_prompt_waits_while_a_message_is_put_into_a_session_that_rests():
    resting, slow = await rested(Client()), Slow()
    putting = asyncio.create_task(
        NotificationPoster(None, None, slow, "", resting).put(OTHER, "msg_1", "text")
    )
    await slow.began.wait()
    prompt = asyncio.create_task(resting.prompted(OTHER))
    done, _ = await asyncio.wait([prompt], timeout=0.05)
    assert not done
    slow.go.set()
    await asyncio.gather(putting, prompt)
