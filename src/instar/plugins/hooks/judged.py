"""What a model is asked to judge, as data that it can tell from its task, and what counts of its answer (issue 8, 5).

The policy stands in the system prompt. The event is JSON between two lines with a mark that nobody who wrote into the
event can know; and of an answer no verdict counts that lets something pass and stood in the event already.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from instar.plugin import message
from instar.plugins.hooks.event import Event
from instar.plugins.hooks.outcome import SEVERITY, Outcome, undecided
from instar.plugins.hooks.payload import payloads
from instar.plugins.hooks.rule import Rule
from instar.plugins.hooks.verdict import DEEPEST, objects, read_verdict

CAUSE: Final = "hook"
"""What model calls of rules are booked as."""
LARGEST: Final = 200_000
"""Characters of an event that a model is shown."""

_PLACE: Final = "(the event, which stands in the message)"
"""What ``$ARGUMENTS`` in a policy becomes: the event is never put among instructions."""


class Shown(msgspec.Struct, frozen=True):
    """What a model is shown: a policy for the system prompt, the event between marks, and the event's own verdicts."""

    policy: str
    text: str
    mark: str
    verdicts: tuple[dict[str, Any], ...]
    whole: bool = True


def shown(rule: Rule, event: Event, policy: str, more: Sequence[tuple[str, str]] = ()) -> Shown:
    """Return an event for a model, with `more` texts by their names. An event that is too long is not `whole`."""
    told = [data for _, data in payloads(event, rule.dialect)]
    data = json.dumps(told[0] if len(told) == 1 else told, ensure_ascii=False)
    mark = secrets.token_hex(12)
    blocks = [("event", data), *more]
    text = "\n".join(f"<{name} {mark}>\n{block}\n</{name} {mark}>" for name, block in blocks)
    given = (*_verdicts(told), *(one for _, block in more for one in _verdicts([block])))
    return Shown(policy.replace("$ARGUMENTS", _PLACE), text, mark, given, len(data) <= LARGEST)


def too_long() -> Outcome:
    """Return the outcome for an event that no model is shown whole: part of it must not pass for all."""
    return undecided(f"the event has more than {LARGEST} characters, which a model is not asked to judge")


def judge(texts: Iterable[str], rule: Rule, given: Shown) -> Outcome:
    """Return what a model's answer decides, several verdicts the most severe; not yet settled.

    A verdict that lets something pass does not count if it stood in what the model was shown: it was put there for the
    model to repeat, or the model repeats what it read.
    """
    found = [read_verdict(text, rule) for text in texts]
    outcome = (
        next((one for one in found if one.undecided), None) if found else undecided("it answered nothing")
    )
    denial = next((one for one in found if one.action == "deny"), None)
    outcome = denial or outcome or max(found, key=lambda one: SEVERITY[one.action])
    if outcome.undecided or outcome.action not in ("allow", "none"):
        return outcome
    own = [one for text in texts for one in _verdicts([text]) if one not in given.verdicts]
    if not own:
        return undecided("its answer only repeats a verdict that stands in what it was shown")
    return outcome


def reference(name: str) -> message.ModelRef | None:
    """Return a model by its name, with or without a provider; None for no name."""
    provider, slash, model = name.partition("/")
    if not name:
        return None
    return message.ModelRef(provider_id=provider if slash else "", model_id=model if slash else name)


def speaker(event: Event) -> str:
    """Return the session whose turn it is: a sub-agent's own."""
    return event.agent_id or event.session_id


def _verdicts(values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Every object with a verdict in values: itself, in one another, or as JSON in a text."""
    level: list[Any] = list(values)
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, str):
                inner += objects(value, lines=False)[0]
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, dict):
                if {"decision", "ok"} & value.keys():
                    yield dict(value)
                inner += value.values()
        level = inner
