"""Continuing is a queue: what makes a session go on without a person, and how often it may.

Follow-ups are durable. Each automatic source has a cap in a row; a person's prompts have none (design
section 4).
"""

import logging
from typing import Final

import msgspec

from instar import prompt
from instar.agent import UnknownAgent
from instar.event import LimitReached, make
from instar.instance import Instance
from instar.live import Live
from instar.message import PERSON, Assistant, User, WithParts
from instar.plugin import Invalid, PromptBody, points
from instar.provider.assemble import UnknownModel
from instar.provider.resolve import NoModel
from instar.standing import refusal
from instar.store import DropFollowUp, FollowUp

log = logging.getLogger("instar.loop")

CAP: Final = 8
"""How many follow-ups of one automatic source are taken up in a row."""


async def take(instance: Instance, live: Live, answer: WithParts) -> bool:
    """Ask `turn.end` whether to go on, then make the oldest follow-up the session's next message.

    Returns whether there was one. A follow-up that cannot become a message is logged and given up.
    """
    if instance.halt.why(live.id) is not None:
        return False  # what is queued waits until a person prompts the session
    # Before anything is waited for: a prompt that comes from here on runs the loop again.
    live.take_up()
    if live.settle(answer.info.id):
        await _ask_plugins(instance, live, answer)
    for waiting in await instance.sessions.queued(live.id):
        if not await _may_go_on(instance, live, waiting):
            await instance.sessions.unqueue(waiting)
            continue
        try:
            body = _body(live, waiting)
            await prompt.submit(instance, live, body, waiting.origin, [DropFollowUp(waiting.id)])
        except (Invalid, msgspec.ValidationError, UnknownAgent, UnknownModel, NoModel) as error:
            log.error("follow-up given up session=%s source=%s error=%s", live.id, waiting.source, error)
            await instance.sessions.unqueue(waiting)
            continue
        live.go_on(waiting.source)
        return True
    return False


def _body(live: Live, waiting: FollowUp) -> PromptBody:
    """Return a follow-up's prompt. An automatic one that switches no tools has those of the message that it follows.

    Raises `msgspec.ValidationError`.
    """
    body = msgspec.convert(waiting.prompt, PromptBody)
    if body.tools is None and waiting.source != PERSON:
        asked = (one.info for one in reversed(live.history) if isinstance(one.info, User))
        body.tools = next((info.tools for info in asked), None)
    return body


async def _ask_plugins(instance: Instance, live: Live, answer: WithParts) -> None:
    info = answer.info
    if (
        not isinstance(info, Assistant)
        or info.summary
        or info.error
        or not instance.plugins.listens(points.TURN_END)
    ):
        return
    seen = answer.copy()
    assert isinstance(seen.info, Assistant)
    given = points.TurnEndInput(
        session_id=live.id,
        agent=info.agent,
        message=seen.info,
        parts=seen.parts,
        continued=live.continued(),
    )
    output = await instance.plugins.trigger(points.TURN_END, given, points.TurnEndOutput(follow_ups=[]))
    for wanted in output.follow_ups:
        if not (isinstance(wanted, dict) and isinstance(wanted.get("prompt"), dict)):
            log.error("follow-up given up session=%s: turn.end gave no prompt in %.200r", live.id, wanted)
            continue
        # A hook is no person: its follow-ups have a cap.
        source = "plugin" if wanted.get("source") == PERSON else str(wanted.get("source") or "plugin")
        await instance.sessions.queue(live.id, source, wanted["prompt"], live.origin)


async def _may_go_on(instance: Instance, live: Live, waiting: FollowUp) -> bool:
    """Whether a follow-up may be taken up; if not, it is said why."""
    refused = await refusal(instance, live, waiting.origin)
    if refused is not None:
        log.warning("follow-up given up session=%s source=%s: %s", live.id, waiting.source, refused)
        return False
    if waiting.source == PERSON or live.continued(waiting.source) < CAP:
        return True
    text = f"{waiting.source} made the session go on {CAP} times in a row; it waits for a person now"
    log.warning("limit reached session=%s source=%s cap=%d", live.id, waiting.source, CAP)
    instance.bus.publish(
        make(LimitReached(session_id=live.id, limit="follow_ups", cause=waiting.source, message=text))
    )
    return False
