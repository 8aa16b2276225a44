"""Printed text: short lines, and nothing from outside that controls the terminal."""

import json
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Screen

from instar.cli.output import retry_text, tool_line
from instar.cli.text import harmless, money, one_line, short
from instar.event import Retry
from instar.message import Span, ToolCompleted, ToolError, ToolPart, ToolPending, ToolRunning, ToolSpan


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc", "a\nb\tc"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "ab"),
        ("\x1b[2Ja", "[2Ja"),
        ("\x9b2Ja", "2Ja"),
        ("a\x00\x07\x7fb", "ab"),
        ("a\u202eb\u2066c", "abc"),
        ("a\x1b]0;title\x07b", "a]0;titleb"),
        ("one\r\ntwo\rthree", "one\ntwothree"),
        ("é 漢 🙂", "é 漢 🙂"),
    ],
)
def test_characters_that_control_a_terminal_are_taken_out(text, shown):
    assert harmless(text) == shown


def test_a_line_is_one_line_and_harmless():
    assert one_line("a\n  b\x1b[2J\tc ") == "a b[2J c"


@pytest.mark.parametrize(
    ("text", "shown"), [("\n\n one \ntwo", "one"), ("", ""), ("x" * 11, "x" * 9 + "…"), ("x" * 10, "x" * 10)]
)
def test_a_short_text_is_one_line(text, shown):
    assert short(text, 10) == shown


@pytest.mark.parametrize(("dollars", "shown"), [(0, "$0.00"), (1.2, "$1.20"), (0.00041, "$0.0004")])
def test_small_prices_have_more_digits(dollars, shown):
    assert money(dollars) == shown


SPAN = ToolSpan(start=1000, end=2500)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (ToolPending(input={"command": "ls"}, raw=""), ("", None, None)),
        (ToolRunning(input={"n": 1, "command": "ls\nrm"}, time=Span(start=1)), ("ls", None, None)),
        (ToolRunning(input={}, title="List", time=Span(start=1)), ("List", None, None)),
        (ToolCompleted(input={}, output="o", title="T", metadata={}, time=SPAN), ("T", 1.5, None)),
        (ToolError(input={"command": "ls"}, error="no\nway", time=SPAN), ("ls", 1.5, "no")),
    ],
)
def test_a_tool_call_is_a_line(state, line):
    part = ToolPart(id="prt_1", session_id="ses_1", message_id="msg_1", call_id="c", tool="bash", state=state)
    found = tool_line(part)
    assert (found.name, found.title, found.seconds, found.problem) == ("bash", *line)


def test_a_call_that_is_tried_again_says_which_attempt_of_how_many():
    text = retry_text(Retry(attempt=1, message="503 overloaded", next=0))
    assert text == "503 overloaded; trying again in 0 s (attempt 1 of 5)"


def test_a_call_that_is_tried_without_an_end_has_no_last_attempt():
    assert retry_text(Retry(attempt=6, message="503", next=0)) == "503; trying again in 0 s (attempt 6)"


LURE = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202egnp.exe"
"""Colours, the title of the window, an empty screen, and letters in the other direction."""


@pytest.mark.slow
def test_a_list_of_what_a_repository_holds_does_not_control_the_terminal(
    machine: Machine, screen: Callable[..., Screen]
) -> None:
    folder = machine.project / ".opencode/agent"
    folder.mkdir(parents=True)
    (folder / f"a{LURE.replace('/', '')}.md").write_text(
        f"---\ndescription: x{LURE}\n---\ny{LURE}\n", "utf-8"
    )
    shown = screen("agent", "list")
    assert shown.end() == 0
    assert b"a[31mred" in shown.raw
    assert not set("\x1b\x07\x9b\u202e") & set(shown.raw.decode())
    assert not set("\x1b\x07\x9b\u202e") & set(machine.instar("agent", "list").stdout)


@pytest.mark.slow
def test_an_export_on_a_terminal_is_the_same_json_without_what_controls_it(
    machine: Machine, screen: Callable[..., Screen]
) -> None:
    prompt = "say \x9b2J\u202egnp.exe\x7f"
    assert machine.instar("run", "-m", "scripted/echo", prompt).returncode == 0
    exported = machine.instar("export").stdout
    assert prompt in exported
    shown = screen("export")
    assert shown.end() == 0
    said = shown.raw.decode()
    assert not set("\x1b\x9b\u202e\x7f") & set(said)
    assert json.loads(said[said.index("\n{") :]) == json.loads(exported)
