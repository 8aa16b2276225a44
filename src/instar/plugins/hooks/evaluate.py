"""Runs the evaluator of a rule within its time. A failure is an outcome, never an exception."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import Children, Client, Invalid
from instar.plugins.hooks.config import HookSettings
from instar.plugins.hooks.event import HookEvent
from instar.plugins.hooks.outcome import RuleOutcome, undecided
from instar.plugins.hooks.rule import Evaluator, HookRule

log = logging.getLogger("instar.hooks")

EVALUATORS: Final[Mapping[Evaluator, tuple[str, str]]] = {
    "command": ("external", "run_command"),
    "http": ("external", "post_http"),
    "prompt": ("judge", "ask_model"),
    "agent": ("judge", "ask_agent"),
}
"""The module and function of each type of rule. A module is imported when the first rule of its type runs."""
GRACE: Final = 2.0
"""Seconds that an evaluator has, after the rule's timeout, to end what it started."""


class EvaluationContext(msgspec.Struct, frozen=True):
    """What evaluators work with.

    `environment` is the person's; children get it without secrets. `project` is the folder that scripts get as the
    project's, `home` what ``~`` means. `client` is None where there is no session: then a rule that needs a model is
    undecided. `served` is that of `PluginInput`.
    """

    children: Children
    environment: Mapping[str, str]
    project: Path
    home: Path
    settings: HookSettings
    client: Client | None = None
    served: Callable[[Path], Path] = lambda path: path


Evaluate = Callable[[HookRule, HookEvent, EvaluationContext], Awaitable[RuleOutcome]]
"""An evaluator. What it raises becomes an undecided outcome."""


async def evaluate(rule: HookRule, event: HookEvent, context: EvaluationContext) -> RuleOutcome:
    """Return what a rule decides for an event, not yet settled (`outcome.settle`), within its time.

    Raises nothing but `CancelledError`; the evaluator and all that it started are cancelled then.
    """
    try:
        module, name = EVALUATORS[rule.evaluator]
        function: Evaluate = getattr(import_module(f"instar.plugins.hooks.{module}"), name)
        async with asyncio.timeout(rule.timeout + GRACE):
            return await function(rule, event, context)
    except TimeoutError:
        return undecided(f"it took longer than {rule.timeout:g} s")
    except Invalid as error:
        return undecided(str(error))
    except Exception as error:
        log.error("hook failed rule=%s", rule.label, exc_info=error)
        return undecided(f"it failed: {type(error).__name__}: {error}")
