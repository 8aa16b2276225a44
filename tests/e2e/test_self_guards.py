"""No way round a guard: not by another action, not by calls side by side, not by a sub-agent from before."""

import json
from typing import Any

import pytest

from instar.testing import Machine, results

pytest_plugins = ["tests.turn"]

END = "== turn\ntext: done\n"
KEEP = "evolve.profiles.keep"


def one(**args: Any) -> str:
    return f"tool: self {json.dumps(args)}\n"


def kept(**profile: Any) -> str:
    return "== turn\n" + one(action="call", method=KEEP, args={"name": "x", "profile": profile}) + "\n"


@pytest.mark.slow
def test_a_rule_about_keeping_holds_for_the_method_that_keeps_too(person):
    person.config(tools={"self_evolution": True}, permission={"self": {"snapshot persist": "deny"}})
    person.run(kept(variables={"mine": 1}) + END)
    assert "commit" not in person.results()[-1]
    assert not (person.root / "config").exists()


@pytest.mark.parametrize(
    "profile", [{"variables": {"mine": "sk-ENVIRONMENT-1234"}}, {"variables": {"password": "by its name"}}]
)
def test_a_method_that_writes_is_given_no_secret(person, profile):
    person.config(tools={"self_evolution": True})
    person.environment["MY_API_KEY"] = "sk-ENVIRONMENT-1234"
    person.run(kept(**profile) + END)
    assert person.results()[-1] == (
        f"Error calling {KEEP}: the arguments hold what looks like a secret, which is never written down"
    )
    assert not (person.root / "config").exists()


async def test_a_guard_that_two_calls_set_at_once_is_as_tight_as_the_tighter_says(house: Machine) -> None:
    key = "limits.session.tokens"
    both = "".join(one(action="modify", key=key, value=most) for most in (100_000, 500_000))
    look = "== turn\n" + one(action="inspect", key=key) + "\n"
    house.says(f"== turn\n{both}\n{look}{END}")
    house.settings(tools={"self_evolution": True})
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    first, second, now = results(await door.stored(session))
    assert first == f"Set {key} = 100000 (was None)"
    assert second == f"Error: '{key}' guards this runtime and may only be tightened (it is 100000)"
    assert now == f"{key}: 100000"


async def test_a_secret_that_an_error_says_as_python_writes_it_is_masked_too(house: Machine) -> None:
    secret = "sk-ENV'IRON\\MENT-1234"
    house.environment["MY_API_KEY"] = secret
    house.plugin("""
    from instar.plugin import Value, View

    async def mine(input, options):
        def read(session):
            raise KeyError(input.environment["MY_API_KEY"])

        input.registry.add_view(View("mine", "Mine.", {"key": Value(doc="It fails.", read=read)}))
        return {}
    """)
    house.says("== turn\n" + one(action="inspect", key="mine.key") + "\n" + END)
    house.settings(tools={"self_evolution": True})
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    (answer,) = results(await door.stored(session))
    assert "KeyError" in answer
    assert "MENT-1234" not in answer


async def test_a_sub_agent_that_is_asked_again_gets_what_was_tightened_since(house: Machine) -> None:
    task = {"description": "look", "subagent_type": "general"}
    story = f"""
    == when "first work"
    tool: self {{"action": "modify", "key": "limits.session.tokens", "value": 50000}}

    == when "more work"
    text: again

    == when "Set limits"
    text: did it

    == turn
    tool: task {json.dumps({**task, "prompt": "first work"})}

    == turn
    {one(action="modify", key="exec_config.enable", value=False).strip()}
    {one(action="modify", key="limits.session.tokens", value=90000).strip()}
    {one(action="modify", key="max_iterations", value=7).strip()}
    """
    house.says(story)
    house.settings(tools={"self_evolution": True})
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await door.idle(session)
    (child,) = await door.runtime.instance.store.sessions(parent_id=session)
    again = json.dumps({**task, "prompt": "more work", "task_id": child.id})
    house.says(f"{story}\n    == turn\n    tool: task {again}\n\n    == turn\n    text: done\n")
    await door.ask(session, "go on")
    mine = [sent for sent in house.requests() if sent["session"] == child.id]
    offered = ["bash" in [tool["function"]["name"] for tool in sent["tools"]] for sent in mine]
    assert offered == [True, True, False]
    overrides = (await door.live(child.id)).overrides
    assert overrides.ceiling.tokens == 50_000  # its own is tighter
    assert overrides.iterations is None  # no guard: what it was given at its start holds
