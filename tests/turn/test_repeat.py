"""Three identical calls, in one step or in a row, are asked about (`doom_loop`)."""

from typing import Any

import pytest

from instar.event import PermissionAsked
from instar.testing import Machine, results
from instar.turn import repeat

pytest_plugins = ["tests.turn"]

ONE = 'tool: bash {"command": "echo x"}'
OTHER = 'tool: bash {"command": "echo y"}'


class Person:
    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.asked: list[PermissionAsked] = []

    async def __call__(self, question: PermissionAsked) -> Any:
        self.asked.append(question)
        return self.reply


async def played(house: Machine, steps: list[list[str]], reply: Any = "once") -> tuple[Person, list[str]]:
    person = Person(reply)
    house.says("\n\n".join("\n".join(["== turn", *step]) for step in [*steps, ["text: done"]]))
    door = await house.open(person=person)
    session = await door.session()
    await door.ask(session, "go")
    return person, results(await door.stored(session))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "times"),
    [
        ([[ONE], [ONE], [ONE]], 1),
        ([[ONE], [ONE], [ONE], [ONE]], 2),
        ([[ONE, ONE, ONE]], 1),
        ([[ONE, OTHER, ONE, ONE]], 1),
        ([[ONE], [ONE, ONE]], 1),
        ([[ONE], [ONE], [OTHER], [ONE]], 0),
        ([[ONE, OTHER], [ONE, OTHER], [ONE, OTHER]], 0),
        ([[ONE], [ONE]], 0),
        ([['tool: background {"action": "list"}']] * 4, 0),
    ],
)
async def test_the_third_identical_call_is_asked_about(house: Machine, steps: Any, times: int) -> None:
    person, found = await played(house, steps)
    assert [question.permission for question in person.asked] == ["doom_loop"] * times
    assert all(question.patterns == ["bash"] and question.always == ["bash"] for question in person.asked)
    assert len(found) == sum(map(len, steps))


async def test_a_model_whose_loop_a_rule_denies_reads_that_it_repeats_itself(house: Machine) -> None:
    house.settings(permission={"*": "allow", "doom_loop": "deny"})
    _, found = await played(house, [[ONE], [ONE], [ONE]])
    assert found[1].strip() == "x"
    assert found[2].startswith("You have made this call again and again with the same arguments")
    assert "doom_loop" in found[2]


async def test_a_loop_that_is_refused_ends_the_turn(house: Machine) -> None:
    _, found = await played(house, [[ONE], [ONE], [ONE]], "reject")
    assert found[2] == "The user rejected permission to use this specific tool call."
    assert len(found) == 3


async def test_always_is_remembered_for_the_tool(house: Machine) -> None:
    person, _ = await played(house, [[ONE]] * 5, "always")
    assert len(person.asked) == 1


async def test_what_a_person_says_begins_a_new_count(house: Machine) -> None:
    person = Person("once")
    house.says("\n\n".join(f"== turn\n{step}" for step in [ONE, ONE, "text: a", ONE, "text: b"]))
    door = await house.open(person=person)
    session = await door.session()
    await door.ask(session, "go")
    await door.ask(session, "again")
    assert person.asked == []
    assert repeat.LOOP == 3
