"""Titles: one small model call after a session's first message, beside the turn."""

import logging
import re

from instar import ids
from instar.account import Call, metered
from instar.agent import sampling_temperature, shipped_prompt
from instar.context import Turn, finish_request
from instar.generate import complete, small_model
from instar.instance import Instance
from instar.live import Live
from instar.message import ModelRef, TextPart, User, WithParts, text_of
from instar.naming import default_title
from instar.plugin import points
from instar.provider.describe import describe
from instar.provider.protocol import ProviderError, Request
from instar.usage import Reached

log = logging.getLogger("instar.title")

LONGEST = 100
"""Characters of a title."""
_TOKENS = 200
_SAMPLE = 2_000


def is_wanted(live: Live) -> bool:
    """Whether the session still has its default title and exactly one message of a person."""
    if live.session.parent_id is not None or not is_wanted_still(live):
        return False
    return sum(1 for message in live.history if isinstance(message.info, User)) == 1


async def give(instance: Instance, live: Live, asked: WithParts) -> None:
    """Ask a small model for a title and save it. A failure is logged: the session keeps its default title."""
    assert isinstance(asked.info, User)
    agent, main = instance.agents.get("title"), instance.models.find(_name(asked.info.model))
    model = instance.models.find(_name(agent.model)) if agent.model else await small_model(instance, main)
    turn = Turn(live, agent, model, asked.info)
    call = Call(model, "title", live.origin_of(asked.info.id), live, agent.name, asked.info.id)
    try:
        async with metered(instance, call) as meter:
            if isinstance(meter, Reached):
                return
            request = await _request(instance, turn, asked)
            text, _ = await complete(instance, request, meter)
    except ProviderError as error:
        log.info("no title session=%s error=%s", live.id, error)
        return
    title = clean(text)
    if title and is_wanted_still(live):
        live.session.title = title
        await instance.sessions.update(live)


def is_wanted_still(live: Live) -> bool:
    """Whether nobody named the session while the model was thinking."""
    return live.session.title == default_title(live.session.time.created)


def clean(text: str) -> str:
    """Return the first line of an answer that holds words, without thinking, quotes and surplus length."""
    # Behind the last end nothing is thinking; a search there for each beginning would take for ever.
    end = text.rfind("</think>") + len("</think>") if "</think>" in text else 0
    text = re.sub(r"<think>.*?</think>", "", text[:end], flags=re.DOTALL) + text[end:]
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = line.strip("\"'` ")
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _name(ref: ModelRef) -> str:
    return f"{ref.provider_id}/{ref.model_id}"


def _subject(asked: WithParts) -> str:
    """What a person wrote, without what hooks and files put beside it; of synthetic texts alone, these."""
    own = [part for part in asked.parts if not (isinstance(part, TextPart) and part.synthetic)]
    return text_of(WithParts(info=asked.info, parts=own)) or text_of(asked)


async def _request(instance: Instance, turn: Turn, asked: WithParts) -> Request:
    given = points.SystemInput(session_id=turn.live.id, model=describe(turn.model), purpose="title")
    system = points.SystemOutput(system=[turn.agent.prompt or shipped_prompt("title")])
    system = await instance.plugins.trigger(points.SYSTEM, given, system)
    text = _subject(asked)[:_SAMPLE]
    part = TextPart(id=ids.new("prt"), session_id=turn.live.id, message_id=asked.info.id, text=text)
    request = Request(
        model=turn.model,
        system=system.system,
        messages=[WithParts(info=asked.info, parts=[part])],
        temperature=sampling_temperature(turn.agent, turn.model.id) if turn.model.temperature else None,
        max_output_tokens=_TOKENS if not turn.model.reasoning else None,
        session_id=turn.live.id,
        agent=turn.agent.name,
        purpose="title",
    )
    return await finish_request(instance, request, turn.user)
