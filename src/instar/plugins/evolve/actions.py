"""Actions: what a hook's answer asks for beside its text.

An action may begin a turn in a session, whose hooks may answer with actions again. So each message that one sends has
the origin of the turn that asked for it, one action further from its root (`Origin.depth`), which outlasts a restart.
Past `DEEPEST` none is carried out, whoever asks for it.
"""

import logging
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from instar.plugin import Invalid, NotFound, Origin
from instar.plugins.evolve import protocol
from instar.plugins.evolve.history.trailers import one_line

log = logging.getLogger("instar.evolve")

DEEPEST: Final = 1
"""Actions on end that one heartbeat, or one prompt of a person, may lead to."""

MOST: Final = 16
"""Actions of one answer that are carried out."""

LONGEST: Final = 100_000
"""Characters of a message."""

SOURCE: Final = "evolve.send"
"""The source of the messages that actions send."""


class ActionRequest(NamedTuple):
    """Who asks for an effect: a hook's answer in a session, known by its `key`, in a turn of `origin`."""

    hook: str
    session_id: str
    key: str
    origin: Origin

    def then(self) -> Origin:
        """Return the origin of what an action does that is asked for here."""
        return msgspec.structs.replace(self.origin.by(SOURCE), depth=self.origin.depth + 1)


class Send(msgspec.Struct, frozen=True):
    """Send a message to a session, which answers it; synthetic unless the script says otherwise."""

    session_id: str
    message: str
    synthetic: bool = True

    def __str__(self) -> str:
        return f"send to {one_line(self.session_id, 100)}"


class CreateSession(msgspec.Struct, frozen=True):
    """Make a session."""

    title: str

    def __str__(self) -> str:
        return f"create_session {one_line(self.title, 100)!r}"


Action = Send | CreateSession


class ParsedActions(NamedTuple):
    """The actions that an answer asks for, in order, and a sentence on each that cannot be carried out."""

    actions: list[Action]
    problems: list[str]


class ActionsResult(NamedTuple):
    """What came of an answer's actions: a sentence on each that was not carried out, and why none might be, or ""."""

    problems: list[str]
    refused: str = ""


class Doors(Protocol):
    """What carries actions out. Both raise `NotFound` and `Invalid`."""

    async def send(self, action: Send, asking: ActionRequest) -> None:
        """Send the message, and let the session answer with the heartbeat agent."""
        ...

    async def create_session(self, action: CreateSession, asking: ActionRequest) -> None:
        """Make the session."""
        ...


def parse(answer: protocol.Answer) -> ParsedActions:
    """Return the actions of a hook's answer. An action that means nothing is named; the others stay."""
    found = answer.get("actions")
    actions, problems = list[Action](), list[str]()
    for number, one in enumerate([] if found is None else found if isinstance(found, list) else [found], 1):
        try:
            if len(actions) == MOST:
                raise ValueError(f"an answer may ask for {MOST} at most")
            actions.append(_action(one))
        except ValueError as error:
            problems.append(f"action {number} is left out: {error}")
    return ParsedActions(actions, problems)


def refusal(origin: Origin, deepest: int = DEEPEST) -> str:
    """Return why no action may be carried out in a turn of this origin; "" when one may."""
    if origin.depth < deepest:
        return ""
    return (
        f"{_named(origin)} has led to {origin.depth} action{'s' * (origin.depth != 1)} on end, and {deepest} "
        f"{'is' if deepest == 1 else 'are'} allowed: a chain of actions ends there"
    )


async def carry_out(answer: protocol.Answer, asking: ActionRequest, doors: Doors) -> ActionsResult:
    """Carry out the actions of an answer. What could not be is named and logged; the others still happen."""
    parsed = parse(answer)
    refused = refusal(asking.origin) if parsed.actions else ""
    problems = parsed.problems
    for action in parsed.actions:
        problem = f"{action} is left out: {refused}" if refused else await _carry_out(action, asking, doors)
        problems += [problem] if problem else []
    for problem in problems:
        log.warning(
            "hook=%s session=%s origin=%s problem=%r",
            asking.hook,
            asking.session_id,
            asking.origin.chain,
            problem,
        )
    return ActionsResult(problems, refused)


async def _carry_out(action: Action, asking: ActionRequest, doors: Doors) -> str:
    try:
        if isinstance(action, Send):
            await doors.send(action, asking)
        else:
            await doors.create_session(action, asking)
    except (NotFound, Invalid) as error:
        return f"{action}: {error}"
    except Exception as error:
        log.exception("action=%s failed", action)
        return f"{action} failed: {type(error).__name__}: {error}"
    log.info(
        "action=%r hook=%s session=%s origin=%s",
        str(action),
        asking.hook,
        asking.session_id,
        asking.origin.chain,
    )
    return ""


def _named(origin: Origin) -> str:
    """A chain's root, for a person: ``heartbeat 12``, ``a prompt of a person``."""
    return "a prompt of a person" if origin.name == "person" else f"{origin.name} {origin.id}".strip()


def _action(found: Any) -> Action:
    if not isinstance(found, dict):
        raise ValueError(f'expected an object with a "type", found {_show(found)}')
    kind = found.get("type")
    if kind == "send":
        session_id, text = _text(found, "session_id"), _text(found, "message")
        if len(text) > LONGEST:
            raise ValueError(f"send: its message has {len(text)} characters, {LONGEST} at most are sent")
        return Send(session_id, text, _flag(found, "synthetic", True))
    if kind == "create_session":
        return CreateSession(one_line(_text(found, "title"), 200))
    raise ValueError(f"there is no action of type {_show(kind)}; there are send and create_session")


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{found['type']}: expected a text under {key!r}, found {_show(value)}")
    return value


def _flag(found: dict[str, Any], key: str, otherwise: bool) -> bool:
    value = found.get(key, otherwise)
    if not isinstance(value, bool):
        raise ValueError(f"{found['type']}: expected true or false under {key!r}, found {_show(value)}")
    return value


def _show(value: Any) -> str:
    return protocol.clip(msgspec.json.encode(value).decode(), 100)
