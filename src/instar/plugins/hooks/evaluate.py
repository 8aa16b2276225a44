"""One signature for every kind of rule: ``async evaluate(rule, event, means) -> Outcome`` (issue 8).

Each evaluator is a module with a function of that name, imported when a rule of its kind first runs. Here stands what
holds for all of them: the wall clock, and that a failure is an outcome, never an exception.
"""

import asyncio
import logging
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from instar.plugin import Children, Client, Invalid
from instar.plugins.hooks.config import HookSettings
from instar.plugins.hooks.event import Event
from instar.plugins.hooks.outcome import Outcome, undecided
from instar.plugins.hooks.rule import Evaluator, Rule

log = logging.getLogger("instar.hooks")

EVALUATORS: Final[Mapping[Evaluator, str]] = MappingProxyType(
    {
        "command": "instar.plugins.hooks.program",
        "http": "instar.plugins.hooks.request",
        "prompt": "instar.plugins.hooks.prompt",
        "agent": "instar.plugins.hooks.agent",
    }
)
"""The module of each kind of rule; its function `evaluate` is a `Function`."""
GRACE: Final = 2.0
"""Seconds beyond a rule's own that an evaluator has to end what it started."""


class Means(msgspec.Struct, frozen=True):
    """What evaluators work with.

    `environment` is the person's; children get it without secrets. `project` is the folder that scripts are told of
    as the project's, `home` what ``~`` means. `client` is None where there is no session to speak for: then a rule
    that needs a model is undecided.
    """

    children: Children
    environment: Mapping[str, str]
    project: Path
    home: Path
    settings: HookSettings
    client: Client | None = None


class Function(Protocol):
    """An evaluator. It may raise: what it raises becomes an undecided outcome."""

    async def __call__(self, rule: Rule, event: Event, means: Means) -> Outcome:
        """Return what `rule` says of `event`, not yet settled; `Outcome.trace` says what that took."""
        ...


async def evaluate(rule: Rule, event: Event, means: Means) -> Outcome:
    """Return what a rule says of an event, not yet settled (`outcome.settle`), within its time.

    Raises nothing but what cancels the caller: then the evaluator is cancelled, with all that it started.
    """
    try:
        function: Function = import_module(EVALUATORS[rule.evaluator]).evaluate
        async with asyncio.timeout(rule.timeout + GRACE):
            return await function(rule, event, means)
    except TimeoutError:
        return undecided(f"it took longer than {rule.timeout:g} s")
    except Invalid as error:
        return undecided(str(error))
    except Exception as error:
        log.error("hook failed rule=%s", rule.label, exc_info=error)
        return undecided(f"it failed: {type(error).__name__}: {error}")
