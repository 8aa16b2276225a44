"""The lists of `instar chat`, of which a person picks: sessions, agents, models, messages to go back to."""

import pytest
from tests.cli.test_chat import chat, shows

pytestmark = pytest.mark.slow
__all__ = ["chat"]

UP, DOWN = "\x1b[A", "\x1b[B"


def selected(terminal):
    return next((row for row in terminal.rows if row.startswith("▸ ")), "")


def selects(terminal, name):
    terminal.wait_until(lambda: selected(terminal).startswith(f"▸ {name}"))


def test_an_agent_is_picked_with_the_arrows_or_by_words_and_esc_leaves(chat):
    terminal = chat()
    terminal.type("/agent\r")
    selects(terminal, "build")
    shows(terminal, "agent (1/2) ›")
    shows(terminal, "Enter picks · typing searches · Esc leaves")
    terminal.type(DOWN)
    selects(terminal, "plan")
    terminal.type("\x1b")
    terminal.wait_until(lambda: not selected(terminal))
    terminal.type("/agent\r")
    selects(terminal, "build")
    terminal.type("changes no")
    selects(terminal, "plan")
    terminal.type("\r")
    shows(terminal, "plan answers from now on")
    terminal.type("hello\r")
    shows(terminal, "You said: hello")
    assert any(row.startswith("plan · ") for row in terminal.rows)


def test_a_paste_goes_to_the_words_of_the_list_and_what_was_typed_before_stays(chat):
    terminal = chat()
    terminal.type("/agent\r")
    selects(terminal, "build")
    terminal.type("\x1b[200~pl\x1b[31man\x1b[201~")
    terminal.wait_until(lambda: "agent (none) › pl[31man" in terminal.rows)
    terminal.type("\x03")
    terminal.wait_until(lambda: "›" in terminal.rows)


def test_a_list_fits_a_narrow_terminal(chat):
    terminal = chat(columns=60)
    terminal.type("/agent\r")
    selects(terminal, "build  The default agent: reads, edits and runs what the")
    assert max(len(row) for row in terminal.rows) <= 60
