"""Questions at the terminal: may a call run, and what the model wants to know."""

import json

import pytest

from instar.approval.permissions import PermissionAnswer
from instar.cli.person import chosen, verdict
from instar.event import Option, Question

ASK = '{"permission": {"bash": "ask"}}'
BASH = '== turn\ntool: bash {"command": "echo hi"}\n== turn\ntext: went on\n'
COLOUR = {
    "question": "Which colour?\nThink well.",
    "header": "Colour",
    "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": ""}],
}
MORE = {**COLOUR, "question": "Which others?", "header": "Others", "multiple": True}


def asks(*questions):
    return f"== turn\ntool: question {json.dumps({'questions': questions})}\n== turn\ntext: {{{{last.tool.output}}}}\n"


# -- permissions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("o", PermissionAnswer("once")),
        ("Once", PermissionAnswer("once")),
        ("y", PermissionAnswer("once")),
        ("a", PermissionAnswer("always")),
        ("2", PermissionAnswer("always")),
        ("r", PermissionAnswer("reject")),
        ("NO", PermissionAnswer("reject")),
        ("r use git instead", PermissionAnswer("reject", "use git instead")),
        ("no, use git", PermissionAnswer("reject", "use git")),
        ("reject: not here", PermissionAnswer("reject", "not here")),
        ("", None),
        ("what", None),
        ("rm it", None),
        ("o but be quick", None),
        ("always, please", None),
    ],
)
def test_a_line_answers_a_call_or_is_asked_for_again(typed, expected):
    assert verdict(typed) == expected


@pytest.mark.slow
def test_a_rejection_with_a_reason_goes_to_the_model_and_the_turn_goes_on(machine, screen):
    machine.write("opencode.json", ASK)
    machine.script(
        '== turn\ntool: bash {"command": "echo hi"}\n'
        "== turn\nexpect: with the following feedback: use printf\ntext: as you wish\n"
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("what to do instead?")
    terminal.type("r use printf\n")
    assert terminal.end() == 0
    assert "as you wish" in terminal.text


@pytest.mark.slow
def test_a_rejection_without_a_reason_ends_the_turn(machine, screen):
    machine.write("opencode.json", ASK)
    machine.script(BASH)
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("what to do instead?")
    terminal.type("r\n")
    terminal.end()
    assert "went on" not in terminal.text


@pytest.mark.slow
def test_the_end_of_input_rejects(machine, screen):
    machine.write("opencode.json", ASK)
    machine.script(BASH)
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("what to do instead?")
    terminal.type("\x04")
    terminal.end()
    assert "✗ bash" in terminal.text
    assert "went on" not in terminal.text


# -- questions of the model --------------------------------------------------------------------------


def asked(multiple=None, custom=None, options=("red", "blue")):
    return Question(
        question="q",
        header="h",
        options=[Option(label=label, description="") for label in options],
        multiple=multiple,
        custom=custom,
    )


@pytest.mark.parametrize(
    ("question", "typed", "expected"),
    [
        (asked(), "1", ["red"]),
        (asked(), " 2 ", ["blue"]),
        (asked(), "BLUE", ["blue"]),
        (asked(), "green", ["green"]),
        (asked(), "well, I think green", ["well, I think green"]),
        (asked(), "red, but darker", ["red, but darker"]),
        (asked(), '"7"', ["7"]),
        (asked(options=()), "7", ["7"]),
        (asked(multiple=True), "2,1", ["blue", "red"]),
        (asked(multiple=True), "1, 1,", ["red"]),
        (asked(multiple=True), "1, something else", ["red", "something else"]),
        (asked(multiple=True), "well, I think green", ["well, I think green"]),
        (asked(custom=False), "red", ["red"]),
    ],
)
def test_a_line_chooses_by_number_or_name_or_is_an_answer_of_its_own(question, typed, expected):
    assert chosen(question, typed) == expected


@pytest.mark.parametrize(
    ("question", "typed", "said"),
    [
        (asked(), "1,2", "one answer only"),
        (asked(), "3", "there is no answer 3"),
        (asked(), "0", "there is no answer 0"),
        (asked(multiple=True), "1,3", "there is no answer 3"),
        (asked(custom=False), "green", "choose one of those above"),
        (asked(multiple=True, custom=False), "1, green", "choose one of those above"),
    ],
)
def test_a_line_that_is_no_answer_says_what_to_type(question, typed, said):
    with pytest.raises(ValueError, match=said):
        chosen(question, typed)


@pytest.mark.slow
def test_the_person_answers_the_models_questions_one_after_the_other(machine, screen):
    machine.script(asks(COLOUR, MORE))
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("or your own words")
    assert (
        "? the model asks (1 of 2): Colour\n  | Which colour?\n  | Think well.\n  1. red - warm\n  2. blue\n"
        in terminal.text
    )
    terminal.type("3\n")
    terminal.wait_for("there is no answer 3; a number of your own stands in quotes")
    terminal.type("2\n")
    terminal.wait_for("(2 of 2): Others")
    terminal.wait_for("numbers with commas, or your own words")
    terminal.type("1, green\n")
    assert terminal.end() == 0
    assert "Which others? red, green" in terminal.text
    assert "✓ question" in terminal.text


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["\n", "\x04"], ids=["nothing", "the end of input"])
def test_no_answer_ends_the_turn(machine, screen, typed):
    machine.script(asks(COLOUR))
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("or your own words")
    terminal.type(typed)
    terminal.end()
    assert "The user dismissed this question." in terminal.text
    assert "The person answered" not in terminal.text


@pytest.mark.slow
def test_ctrl_c_while_the_model_asks_ends_the_run(machine, screen):
    machine.script(asks(COLOUR))
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("or your own words")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_the_model_cannot_command_the_terminal_by_a_question(machine, screen):
    evil = "a\x1b]0;owned\x07b"
    machine.script(
        asks({"question": evil, "header": evil, "options": [{"label": evil, "description": evil}]})
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("or your own words")
    terminal.type("\n")
    terminal.end()
    assert b"\x1b]0;" not in terminal.raw


@pytest.mark.slow
def test_two_prompts_never_mix_and_nothing_is_printed_over_one(machine, screen):
    # While the question stands the first call asks too, and the third one shows its output.
    machine.write(
        ".instar/plugins/slow.py",
        """
import asyncio

from instar.plugin import Ask, Tool


async def slow(input, options):
    async def execute(args, ctx):
        while not await ctx.client.question.list():
            await asyncio.sleep(0.01)
        await ctx.ask(Ask("slow", [args["name"]]))
        return args["name"]

    tool = Tool("Slow.", {"type": "object"}, execute, permissions=lambda args, ctx: [])
    return {"tool": {"slow": tool}}
""",
    )
    machine.environment["INSTAR_TRUST"] = "all"
    machine.write("opencode.json", '{"permission": {"slow": "ask"}}')
    machine.script(
        "== turn\n"
        'tool: slow {"name": "first"}\n'
        f"tool: question {json.dumps({'questions': [COLOUR]})}\n"
        'tool: bash {"command": "for i in 1 2 3 4; do echo $i; sleep 0.2; done; echo done > done"}\n'
        "== turn\ntext: went on\n"
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    end = "or your own words; nothing: no answer, which ends the turn? "
    terminal.wait_for(end)
    terminal.wait_until(lambda: (machine.project / "done").exists())
    assert terminal.text.endswith(end)
    terminal.type("red\n")
    terminal.wait_for("? slow wants: first")
    terminal.wait_for("what to do instead? ")
    terminal.type("o\n")
    assert terminal.end() == 0
    after = terminal.text.partition("what to do instead? ")[2]
    for line in ("✓ slow", "✓ question", "✓ bash", "went on"):
        assert line in after


@pytest.mark.slow
@pytest.mark.parametrize("form", ["default", "json"])
def test_without_a_terminal_the_model_has_no_question_tool(machine, form):
    machine.script(asks(COLOUR))
    done = machine.run("--format", form, "hello")
    assert "unavailable tool 'question'" in done.stdout


@pytest.mark.slow
def test_json_on_a_terminal_asks_no_questions(machine, screen):
    machine.script(asks(COLOUR))
    terminal = screen("run", "-m", "scripted/test", "--format", "json", "hello")
    assert terminal.end() == 0
    assert "unavailable tool 'question'" in terminal.text


@pytest.mark.slow
def test_auto_allows_calls_and_still_asks_the_models_questions(machine, screen):
    machine.write("opencode.json", ASK)
    machine.script('== turn\ntool: bash {"command": "echo hi"}\n' + asks(COLOUR))
    terminal = screen("run", "-m", "scripted/test", "--auto", "hello")
    terminal.wait_for("or your own words")
    assert "bash wants" not in terminal.text
    terminal.type("1\n")
    assert terminal.end() == 0
