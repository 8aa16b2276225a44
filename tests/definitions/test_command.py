"""Commands: a template and its arguments."""

from typing import Any

import pytest

from instar.definitions.command import Command, Commands, UnknownCommand, fill, positional, split
from instar.settings.config import Config


def filled(template: str, arguments: str = "") -> str:
    command = Command("c", template)
    return fill(command, split(command, arguments)).text


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        ("Do $ARGUMENTS now", "this and that", "Do this and that now"),
        ("$1 then $2", "a b", "a then b"),
        ("$1 then $2", "a b c d", "a then b c d"),
        ("$2 then $1", "a b c", "b c then a"),
        ("$1", "a b", "a b"),
        ("$1-$2-$3", "a", "a--"),
        ("$1", "'a b' c", "a b c"),
        ("$1/$2", '"a b" c', "a b/c"),
        ("plain", "", "plain"),
        ("plain", "more words", "plain\n\nmore words"),
        ("[$NAME]", "NAME=x", "[x]"),
        ("[$NAME]", "NAME='a b' rest", "[a b]\n\nrest"),
        ("[$NAME] $ARGUMENTS", "one NAME=x two", "[x] one two"),
        ("[$NAME] $1", "one NAME=x", "[x] one"),
        ("[$NAME]", "", "[]"),
        ("$1", "OTHER=x", "OTHER=x"),
        ("$Name $name costs $ 5", "", "$Name $name costs $ 5"),
        ("$MY_NAME2!", "MY_NAME2=x", "x!"),
        ("$ARGUMENTS", "$1 $ARGUMENTS $NAME", "$1 $ARGUMENTS $NAME"),
        ("$1", "it's", "it's"),
        ("$ARGUMENTS", "!`id`", "!`id`"),
    ],
)
def test_arguments_go_to_their_places(template: str, arguments: str, text: str) -> None:
    assert filled(template, arguments) == text


def test_shell_commands_are_found_in_the_template_alone() -> None:
    command = Command("c", "A !`ls $1` B $ARGUMENTS")
    found = fill(command, split(command, "!`id`"))
    assert found.shells == ["ls $1"]
    assert found.text == "A \0000\000 B !`id`"


def test_a_character_that_marks_places_cannot_come_in_with_the_arguments() -> None:
    command = Command("c", "A !`ls` $ARGUMENTS")
    assert fill(command, split(command, "\0000\0")).text == "A \0000\000 0"


def test_the_last_place_takes_the_rest_also_for_the_shell() -> None:
    command = Command("c", "!`echo $2`")
    assert positional(command, split(command, "a b c")) == ["a", "b c"]


def test_the_places_of_a_template_are_its_hints() -> None:
    command = Command("c", "$2 $1 $10 $NAME $ARGUMENTS !`git log $HOME`")
    assert command.hints == ["$1", "$2", "$10", "$NAME", "$ARGUMENTS"]
    assert command.missing("x") == ["NAME"]
    assert command.missing("NAME=") == []


def commands(**config: Any) -> Commands:
    return Commands(Config.from_data(config))


def test_init_and_review_are_built_in_and_may_be_replaced() -> None:
    found = commands(command={"review": {"template": "mine"}})
    assert [command.name for command in found.all()] == ["init", "review"]
    assert "AGENTS.md" in found.get("init").template
    assert found.get("review").template == "mine"
    assert commands().get("review").subtask is True


def test_every_field_of_a_command_is_kept() -> None:
    block = {
        "template": "t",
        "description": "d",
        "agent": "plan",
        "model": "a/b",
        "variant": "high",
        "subtask": False,
    }
    assert commands(command={"c": block}).get("c") == Command("c", "t", "d", "plan", "a/b", "high", False)


def test_an_unknown_command_is_told_the_nearest() -> None:
    with pytest.raises(UnknownCommand, match="there is no command 'reveiw'; there are: review"):
        commands().get("reveiw")


def test_a_command_without_a_text_is_a_problem_of_its_own() -> None:
    found = commands(command={"c": {"description": "x"}, "d": {"template": "t"}})
    assert found.problems == ["the command c cannot be used: command.c.template: expected its text"]
    assert found.get("d").template == "t"


def test_a_command_with_an_empty_text_is_one_whose_prompt_a_hook_writes() -> None:
    found = commands(command={"c": {"template": ""}})
    assert found.problems == []
    assert found.get("c").template == ""


def test_a_stranger_does_not_choose_a_server_of_his_own_for_a_command() -> None:
    import msgspec

    config = Config.from_data({"command": {"c": {"template": "t", "model": "evil/x"}}})
    config = msgspec.structs.replace(config, foreign=frozenset({"evil"}))
    found = Commands(config, lambda place: True)
    assert found.get("c").model is None
    assert not found.get("c").trusted
    assert found.problems[0].startswith("command.c.model was left out: an untrusted project may not send")
    assert Commands(config).get("c").model == "evil/x"
