"""What the gates are told and what they do in a session, where a mistake would let something pass unseen."""

from typing import Any

import pytest
from tests.plugins.hooks.test_server import CALLS, LOG, answer, arm, ran, seen

from instar.plugin import Invalid, PromptBody
from instar.testing import Machine, results

pytest_plugins = ["tests.turn"]

ENDS = """
    == when ".*"
    text: I am done.
"""


async def test_a_session_start_rule_that_ends_the_session_refuses_every_prompt(house: Machine) -> None:
    arm(house, {"SessionStart": answer(**{"continue": False, "stopReason": "not on this machine"})})
    house.says(ENDS)
    door = await house.open()
    session = await door.session()
    for text in ("one", "two"):
        with pytest.raises(Invalid, match="not on this machine"):
            await door.client.prompt(session, PromptBody.text(text))
    assert house.requests() == []


async def test_a_persons_next_prompt_begins_with_no_stop_hook_active(house: Machine) -> None:
    refuse = 'grep -q "\\"stop_hook_active\\": true" || { echo more >&2; exit 2; }'
    arm(house, {"Stop": [LOG, refuse]})
    door, session = await ran(house, ENDS)
    await door.ask(session, "again")
    assert [one["stop_hook_active"] for one in seen(house)] == [False, True, False, True]


async def test_a_permission_request_is_told_the_input_that_will_run(house: Machine) -> None:
    house.settings(permission={"bash": "ask"})
    rewrite = answer(hookSpecificOutput={"updatedInput": {"command": "echo two > two.txt"}})
    allow = answer(decision="allow").removeprefix("cat > /dev/null; ")
    arm(house, {"PreToolUse": rewrite, "PermissionRequest": f"{LOG}; {allow}"})
    await ran(house)
    (told,) = seen(house)
    assert (told["tool_name"], told["tool_input"]) == ("bash", {"command": "echo two > two.txt"})
    assert told["permission"] == "bash"
    assert (house.folder / "two.txt").exists()


async def test_an_allow_does_not_answer_whether_a_circle_goes_on(house: Machine) -> None:
    arm(house, {"PreToolUse": answer(decision="allow")})
    call = '\n    == turn\n    tool: bash {"command": "echo x >> times.txt"}\n'
    door, session = await ran(house, f"{call * 3}\n    == turn\n    text: done\n")
    assert (house.folder / "times.txt").read_text() == "x\n" * 2, results(await door.stored(session))


async def test_a_rewrite_of_a_call_that_another_rule_denies_runs_nothing(house: Machine) -> None:
    rewrite: Any = answer(hookSpecificOutput={"updatedInput": {"command": "echo two > two.txt"}})
    arm(house, {"PreToolUse": [rewrite, "exit 2"]}, ".claude/settings.json")
    await ran(house, CALLS)
    assert not (house.folder / "one.txt").exists()
    assert not (house.folder / "two.txt").exists()


async def test_rules_of_calls_side_by_side_run_at_once(house: Machine) -> None:
    """Each rule waits until all four have begun."""
    meet = 'mkdir -p met; mktemp -p met > /dev/null; until [ "$(ls met | wc -l)" = 4 ]; do sleep 0.02; done'
    arm(house, {"PreToolUse": {"command": meet, "timeout": 20, "on_error": "deny"}})
    names = ("a.txt", "b.txt", "c.txt", "d.txt")
    for name in names:
        (house.folder / name).write_text("it is here")
    reads = "".join(f'    tool: read {{"filePath": "{name}"}}\n' for name in names)
    door, session = await ran(house, f"\n    == turn\n{reads}\n    == turn\n    text: done\n")
    assert ["it is here" in one for one in results(await door.stored(session))] == [True] * 4


async def test_a_rule_that_ends_the_turn_refuses_what_comes_after_its_call_however_long_it_thinks(
    house: Machine,
) -> None:
    stop = answer(**{"continue": False, "stopReason": "enough"})
    rule = f'case "$(cat)" in *one*) sleep 0.5; {stop.partition("; ")[2]};; *) touch quick;; esac'
    arm(house, {"PreToolUse": rule})
    calls = "".join(f'    tool: bash {{"command": "echo {n} > {n}.txt"}}\n' for n in ("zero", "one", "two"))
    door, session = await ran(house, f"\n    == turn\n{calls}\n    == turn\n    text: done\n")
    told = results(await door.stored(session))
    assert ["enough" in one for one in told] == [False, True, True], told
    assert (house.folder / "quick").exists()
    assert [(house.folder / f"{n}.txt").exists() for n in ("zero", "one", "two")] == [True, False, False]
