"""From a prompt's body to a saved user message: who answers, with which model, to which parts.

`chat.message` fires before anything is saved and is a gate. A follow-up is a prompt that waits in the session's
queue: it makes a session go on without a person. Follow-ups are durable; each automatic source has a cap in a row.
"""

import base64
import logging
import mimetypes
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlparse

import msgspec

from instar import wire
from instar.definitions.agent import Agent, UnknownAgent
from instar.event import LimitReached, make
from instar.message import (
    PERSON,
    AgentPart,
    Assistant,
    Created,
    FilePart,
    ModelRef,
    Origin,
    Part,
    SubtaskPart,
    TextPart,
    User,
    WithParts,
    decode_part,
    newest_user,
    part_to_plain,
)
from instar.plugin import Invalid, PromptBody, Refused, points
from instar.provider.resolve import NoModel, UnknownModel
from instar.session.instance import Instance
from instar.session.sessions import DEFAULT_VARIANT, place_in
from instar.session.state import SessionState
from instar.store import DropFollowUp, FollowUp, StoreError, Write
from instar.turn import structured
from instar.wire import ids

log = logging.getLogger("instar.loop")

LARGEST_FILE = 5 * 1024 * 1024
"""Bytes of an attached file."""
GIVEN = (TextPart, FilePart, AgentPart, SubtaskPart)
"""What a prompt may consist of (opencode 1.18); the other kinds are the runtime's own."""
_GIVEN_NAMES = "text, file, agent or subtask"
LONGEST_TEXT = 256 * 1024
"""Bytes of an attached text file that the model is shown."""
DISMISSED = "the prompt was not taken: it was stopped while plugins still looked at it"
"""What whoever sent a prompt is told that was aborted so early."""
NO_REPLY: Final = "noReply"
"""The mark, in a text's metadata, of a prompt that wanted no answer."""
CAP: Final = 8
"""How many follow-ups of one automatic source are taken up in a row."""


async def submit(
    instance: Instance, live: SessionState, body: PromptBody, origin: Origin, more: Sequence[Write] = ()
) -> WithParts:
    """Save a prompt of `origin` as the session's next user message; `more` is written with it.

    Raises `Invalid` when the body cannot be carried out or a plugin refuses it, and what finding the agent
    or the model raises.
    """
    agent = instance.agents.get(body.agent or live.session.agent)
    if body.message_id is not None:
        _check_id(live, body.message_id)
    user = User(
        id=body.message_id or ids.new("msg"),
        session_id=live.id,
        time=Created(created=live.next_time()),
        format=body.format,
        agent=agent.name,
        model=choose_model(instance, live, body, agent),
        system=body.system,
        tools=body.tools,
    )
    structured.check(body.format)
    if not body.parts:
        raise Invalid("a prompt needs at least one part")
    parts = [part for given in body.parts for part in _parts(instance, user, given)]
    known = len(live.history)
    message, kept = await _offered(instance, live, body, user, parts)
    # What a hook tells under an id of its own stands before the prompt that it looks at.
    tells = live.is_awaiting_hooks and body.message_id is None
    if body.no_reply and (live.turn is not None or tells):
        kept = [_as_context(part) for part in kept]
    # The history is in the order of the times. Others may have come while the hooks thought; what hooks told the
    # session follows the prompt, as in opencode.
    if not all(map(is_context, live.history[known:])):
        message.time.created = max(message.time.created, live.next_time())
    try:
        more = [*live.attribute(message.id, origin), *more]
        return await instance.sessions.save_prompt(live, message, _in_order(kept), more)
    except StoreError as error:
        if "NOT NULL" not in str(error):
            raise
        raise Invalid(
            "a message or part elsewhere has an id of this prompt already; leave the ids out, or make new ones"
        ) from error


def is_context(message: WithParts) -> bool:
    """Whether it came in a turn, or while hooks looked at a prompt, and wants no answer."""
    texts = [part for part in message.parts if isinstance(part, TextPart)]
    return bool(texts) and all(NO_REPLY in (part.metadata or {}) for part in texts)


def _as_context(part: Part) -> Part:
    """Mark a text that came in a turn and wants no answer: it reaches the model as it is."""
    if not isinstance(part, TextPart):
        return part
    return msgspec.structs.replace(part, metadata={**(part.metadata or {}), NO_REPLY: True})


async def _offered(
    instance: Instance, live: SessionState, body: PromptBody, user: User, parts: list[Part]
) -> tuple[User, list[Part]]:
    """Return the message and its parts after `chat.message`. Raises `Invalid` for what cannot be saved."""
    if not instance.plugins.listens(points.CHAT_MESSAGE):
        return user, parts
    given = points.ChatMessageInput(
        session_id=user.session_id,
        agent=body.agent,
        model=body.model,
        message_id=body.message_id,
        variant=body.variant,
    )
    output = points.ChatMessageOutput(message=user, parts=list(parts))
    try:
        taken = await live.await_hooks(instance.plugins.trigger(points.CHAT_MESSAGE, given, output))
    except Refused as refused:
        raise Invalid(f"the plugin {refused.plugin} refused the prompt: {refused}") from refused
    if not taken:
        raise Invalid(DISMISSED)
    try:
        # A gate fails closed: a message that a hook broke is not saved.
        return _sound(instance, user, output.message), _whole(user, output.parts)
    except (Invalid, UnknownAgent, UnknownModel, NoModel, msgspec.MsgspecError, TypeError) as error:
        raise Invalid(f"a chat.message hook left a message that cannot be saved: {error}") from error


def _sound(instance: Instance, user: User, message: User) -> User:
    """Return the message after hooks. Raises `Invalid` if it is another one, and as finding agent or model does."""
    if (message.id, message.session_id) != (user.id, user.session_id):
        raise Invalid("its id and session cannot be changed")
    instance.agents.get(message.agent)
    instance.models.find(f"{message.model.provider_id}/{message.model.model_id}")
    return message


def _whole(user: User, parts: Sequence[Any] | None) -> list[Part]:
    """Return the parts after hooks, objects or dicts, with the ids of this message."""
    if not parts:
        raise Invalid("it has no parts")
    plain = [part if isinstance(part, dict) else part_to_plain(part) for part in parts]
    # Encoded as the store does it, so that half a surrogate pair is gone here too.
    return [_decoded(user, wire.parse(wire.encode(part))) for part in plain]


def _in_order(parts: list[Part]) -> list[Part]:
    """Return the parts ordered by id, as the store reads them. Raises `Invalid` for a duplicate id."""
    made = sorted(parts, key=lambda part: part.id)
    for one, other in pairwise(made):
        if one.id == other.id:
            raise Invalid(f"two parts of the prompt have the id {one.id}")
    return made


def choose_model(instance: Instance, live: SessionState, body: PromptBody, agent: Agent) -> ModelRef:
    """Return the model of a prompt: the body's, the agent's, the session's last one, then the default."""
    ref = body.model or agent.model or _last_model(live)
    if ref is None:
        model = instance.models.default()
        ref = ModelRef(provider_id=model.provider_id, model_id=model.id)
    instance.models.find(f"{ref.provider_id}/{ref.model_id}")
    own = agent.variant if body.model is None else body.model.variant
    return msgspec.structs.replace(ref, variant=body.variant or own or ref.variant)


def _last_model(live: SessionState) -> ModelRef | None:
    chosen = live.session.model
    if chosen is not None and not live.history:
        variant = None if chosen.variant == DEFAULT_VARIANT else chosen.variant
        return ModelRef(provider_id=chosen.provider_id, model_id=chosen.id, variant=variant)
    asked = newest_user(live.history)
    return None if asked is None else asked.model


def _parts(instance: Instance, user: User, given: wire.Plain) -> list[Part]:
    """Return the parts that one given part becomes; a text file's content follows it as synthetic text."""
    part = _decoded(user, given)
    if not isinstance(part, GIVEN):
        raise Invalid(f"a prompt cannot hold a part of type {given.get('type')!r}; it may be {_GIVEN_NAMES}")
    if isinstance(part, AgentPart):
        return [part, _handed_on(instance, user, part)]
    if not isinstance(part, FilePart) or not part.url.startswith("file:"):
        return [part]
    return _attached(instance, user, part)


def _handed_on(instance: Instance, user: User, part: AgentPart) -> TextPart:
    """Return the instruction that a mention of an agent becomes. Raises as finding the agent does."""
    name = instance.agents.get(part.name or "?").name
    return TextPart(
        text=f"Hand this to the sub-agent {name}: call the task tool with subagent_type {name!r} and a prompt made "
        "of the message above and what it needs to know.",
        synthetic=True,
        **place_in(user),
    )


def _decoded(user: User, given: wire.Plain) -> Part:
    place = {"sessionID": user.session_id, "messageID": user.id}
    try:
        part = wire.known(decode_part({"id": ids.new("prt"), **given, **place}))
    except (msgspec.MsgspecError, TypeError) as error:
        raise Invalid(f"a part of the prompt is malformed: {error}") from None
    if not ids.is_id(part.id, "prt"):
        raise Invalid(f"a part's id begins with prt_, not {part.id[:40]!r}; leave it out to have one made")
    return part


def _check_id(live: SessionState, message_id: str) -> None:
    if not message_id.startswith("msg"):
        raise Invalid(f"a message's id begins with msg, not {message_id!r}")
    if live.find(message_id) is not None:
        raise Invalid(f"session {live.id} has a message {message_id} already")


def _attached(instance: Instance, user: User, part: FilePart) -> list[Part]:
    url = urlparse(part.url)
    path = instance.directory / unquote(url.path)
    lines = _lines_asked(url.query)
    try:
        if path.is_dir():
            names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in path.iterdir())
            part.mime = "application/x-directory"
            return [part, _shown(user, path, "\n".join(names))]
        if path.exists() and not path.is_file():
            raise Invalid(f"{path} cannot be attached: it is neither a file nor a folder")
        if path.stat().st_size > LARGEST_FILE:
            raise Invalid(
                f"{path} is larger than {LARGEST_FILE // 1024 // 1024} MiB; name it in the text instead"
            )
        data = path.read_bytes()
    except OSError as error:
        raise Invalid(f"{path} cannot be attached: {error.strerror}") from None
    mime = part.mime or mimetypes.guess_type(path.name)[0] or "text/plain"
    if _is_text(data, mime):
        # So typed, the file itself is not sent beside its text (`provider.convert`).
        part.mime = "text/plain"
        return [part, _shown(user, path, _beginning(_cut(data, lines)), lines)]
    # The bytes travel with the message: the file may change or go before the next step.
    part.url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return [part]


def _lines_asked(query: str) -> range | None:
    """Return the line range of ``?start=3&end=5``: from 1, inclusive; without `end` to the end. None without one."""
    given = parse_qs(query)
    if "start" not in given:
        return None
    try:
        start = int(given["start"][-1])
        end = int(given["end"][-1]) if "end" in given else sys.maxsize - 1
    except ValueError:
        start = end = -1
    if not 1 <= start <= end:
        raise Invalid(f"?{query} of a file's url names no lines; write ?start=3&end=5, counted from 1")
    return range(start, min(end, sys.maxsize - 1) + 1)


def _cut(data: bytes, lines: range | None) -> bytes:
    return (
        data if lines is None else b"".join(data.splitlines(keepends=True)[lines.start - 1 : lines.stop - 1])
    )


def _beginning(data: bytes) -> str:
    """Return a file's text, with a note where it was cut, so that the model does not take the part for the whole."""
    if len(data) <= LONGEST_TEXT:
        return data.decode("utf-8", "replace")
    shown = data[:LONGEST_TEXT].decode("utf-8", "ignore")
    return f"{shown}\n\n(The first {LONGEST_TEXT} of {len(data)} bytes; read the file for the rest.)"


def _is_text(data: bytes, mime: str) -> bool:
    return (
        mime.startswith("text/")
        or mime in ("application/json", "application/xml")
        or (
            b"\0" not in data[:8192]
            and not mime.startswith(("image/", "audio/", "video/", "application/pdf"))
        )
    )


def _shown(user: User, path: Path, text: str, lines: range | None = None) -> TextPart:
    last = "" if lines is None or lines.stop == sys.maxsize else lines.stop - 1
    place = "" if lines is None else f' lines="{lines.start}-{last}"'
    part = TextPart(text=f'<file path="{path}"{place}>\n{text}\n</file>', synthetic=True, **place_in(user))
    return wire.as_stored(part)


async def take_follow_up(instance: Instance, live: SessionState, answer: WithParts) -> str | None:
    """Ask `turn.end` whether to go on, then make the oldest follow-up the session's next message.

    Returns its source, or None when there was none. A follow-up that cannot become a message is logged and given up.
    """
    if instance.stops.why(live.id) is not None:
        return None  # what is queued waits until a person prompts the session
    # Before anything is waited for: a prompt that comes from here on runs the loop again.
    live.take_wanted()
    if live.settle(answer.info.id):
        await _ask_plugins(instance, live, answer)
    for waiting in await instance.store.follow_ups(live.id):
        if not await _may_go_on(instance, live, waiting):
            await instance.store.commit([DropFollowUp(waiting.id)], session_id=live.id)
            continue
        try:
            body = _follow_up_body(live, waiting)
            await submit(instance, live, body, waiting.origin, [DropFollowUp(waiting.id)])
        except (Invalid, msgspec.ValidationError, UnknownAgent, UnknownModel, NoModel) as error:
            log.error("follow-up given up session=%s source=%s error=%s", live.id, waiting.source, error)
            await instance.store.commit([DropFollowUp(waiting.id)], session_id=live.id)
            continue
        live.count_follow_up(waiting.source)
        if waiting.source == PERSON:
            # It may have been queued by another process.
            instance.budget.person_spoke(await instance.sessions.root_of(live))
        return waiting.source
    return None


def _follow_up_body(live: SessionState, waiting: FollowUp) -> PromptBody:
    """Return a follow-up's prompt. An automatic one that switches no tools has those of the message that it follows.

    Raises `msgspec.ValidationError`.
    """
    body = msgspec.convert(waiting.prompt, PromptBody)
    if body.tools is None and waiting.source != PERSON and (asked := newest_user(live.history)) is not None:
        body.tools = asked.tools
    return body


async def _ask_plugins(instance: Instance, live: SessionState, answer: WithParts) -> None:
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


async def _may_go_on(instance: Instance, live: SessionState, waiting: FollowUp) -> bool:
    """Whether a follow-up may run; if not, the reason is published."""
    refused = await instance.refusal(live, waiting.origin)
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
