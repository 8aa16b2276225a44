"""A session with a rule that asks a model, at an evaluator's own door: the rule, the event, what it works with."""

from typing import Any

from tests.plugins.hooks.making import event, rule

from instar.plugins.hooks.config import HookSettings
from instar.plugins.hooks.outcome import RuleOutcome
from instar.plugins.hooks.rule import HookEvent, HookRule
from instar.plugins.hooks.runner import EvaluationContext, evaluate
from instar.plugins.hooks.sources import ActiveRules
from instar.testing import Machine, RuntimeUnderTest


def means(house: Machine, door: RuntimeUnderTest, **settings: Any) -> EvaluationContext:
    instance = door.runtime.instance
    return EvaluationContext(
        children=instance.children,
        armed=ActiveRules(
            house.folder, house.folder, instance.paths.home, house.environment, HookSettings(**settings)
        ),
        client=door.runtime,
    )


async def asked(
    house: Machine, door: RuntimeUnderTest, evaluator: str, happened: HookEvent | None = None, **keys: Any
) -> tuple[RuleOutcome, HookRule]:
    """What a rule says of an event in a new session, not settled; `settings` are ``hook_settings``."""
    settings = keys.pop("settings", {})
    name = keys.pop("event", "Stop" if happened is None else happened.name)
    one = rule(name, keys.pop("dialect", "instar"), evaluator, **keys)
    if happened is None:
        happened = event(name, directory=house.folder, fields={"last_assistant_message": "Done."})
    session = await door.session()
    given = HookEvent(
        **{field: getattr(happened, field) for field in HookEvent.__struct_fields__ if field != "session_id"},
        session_id=session,
    )
    return await evaluate(one, given, means(house, door, **settings)), one
