"""The lists of `instar chat`, of which a person picks: sessions, agents, models, messages to go back to."""

import re
import subprocess

import pytest
from tests.cli.test_chat import chat, server, shows

pytestmark = pytest.mark.slow
__all__ = ["chat", "server"]

UP, DOWN = "\x1b[A", "\x1b[B"


def selected(terminal):
    return next((row for row in terminal.rows if row.startswith("▸ ")), "")


def selects(terminal, name):
    terminal.wait_until(lambda: selected(terminal).startswith(f"▸ {name}"))


def rests(terminal):
    """Wait until the input is there, and above it nothing that goes on."""
    terminal.wait_until(
        lambda: terminal.rows[-2:-1] == ["›"] and not any("Ctrl-C ends" in row for row in terminal.rows)
    )


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
    terminal.wait_until(lambda: terminal.rows[-1].startswith("plan · "))


def test_enter_takes_the_beginning_of_one_order_alone_for_that_order(chat):
    terminal = chat()
    terminal.type("/age")
    shows(terminal, "say which agent answers")
    terminal.type("\r")
    selects(terminal, "build")
    terminal.type("\x1b")
    terminal.wait_until(lambda: not selected(terminal))
    # Several begin so: none is meant.
    terminal.type("/re")
    shows(terminal, "bring back what was undone")
    terminal.type("\r")
    shows(terminal, "there is no order, command or skill /re;")


def test_a_paste_goes_to_the_words_of_the_list_and_what_was_typed_before_stays(chat):
    terminal = chat()
    terminal.type("/agent\r")
    selects(terminal, "build")
    terminal.type("\x1b[200~pl\x1b[31man\x1b[201~")
    terminal.wait_until(lambda: "agent (none) › pl[31man" in terminal.rows)
    terminal.type("\x03")
    terminal.wait_until(lambda: "›" in terminal.rows)


def test_a_list_fits_a_narrow_terminal(chat, machine):
    machine.run("木を植えて、屋根を直して、それから庭の石を全部数えてください")
    terminal = chat(columns=60)
    terminal.type("/agent\r")
    selects(terminal, "build  The default agent: reads, edits and runs what the")
    terminal.type("\x03")
    terminal.wait_until(lambda: "›" in terminal.rows)
    terminal.type("/sessions\r")
    # Wide characters take two columns each; the date has its place.
    terminal.wait_until(lambda: re.search(r"^▸ 木を.*…  20\d\d-\d\d-\d\d \d\d:\d\d$", selected(terminal)))


def test_a_session_is_found_by_its_title_or_by_what_was_said_in_it_and_gone_on_with(chat, machine):
    for said in ("plant a tree", "mend the roof"):
        machine.run(said)
    terminal = chat()
    terminal.type("/sessions\r")
    shows(terminal, "sessions (1/2) ›")
    terminal.type("you said: plant")
    shows(terminal, "sessions (1/1) › you said: plant")
    selects(terminal, "plant a tree  2")
    terminal.type("\r")
    shows(terminal, "You said: plant a tree")
    terminal.type("/sessions roof\r")
    shows(terminal, "sessions (1/1) › roof")
    terminal.type("\r")
    shows(terminal, "You said: mend the roof")


def test_enter_while_a_search_runs_picks_what_it_finds(chat, machine):
    for said in ("plant a tree", "mend the roof"):
        machine.run(said)
    terminal = chat()
    terminal.type("/sessions\r")
    shows(terminal, "sessions (1/2) ›")
    terminal.type("tree\r")
    shows(terminal, "You said: plant a tree")


def test_the_list_says_which_session_works_and_which_waits_for_an_answer(server, screen, chat):
    for text in ("slow", "which tea"):
        server.ask(server.session(), text, "prompt_async")
    terminal = screen("chat", "--attach", server.url, "--dir", str(server.directory))
    shows(terminal, "instar; /help")
    terminal.type("/sessions slow\r")
    selects(terminal, "slow")
    shows(terminal, "works · 2")
    terminal.type("\x15tea")
    selects(terminal, "which tea  waits for you · 2")


def test_a_search_that_the_server_refuses_is_said_and_the_input_is_back(server, screen):
    terminal = screen("chat", "--attach", server.url)
    shows(terminal, "instar; /help")
    terminal.type("/sessions\r")
    shows(terminal, "sessions (none) ›")
    server.stop()
    terminal.type("tree")
    shows(terminal, "no answer from http://")
    terminal.wait_until(lambda: "›" in terminal.rows)


def test_the_model_that_was_used_last_is_first_then_those_with_a_key_and_one_without_says_how_to_get_one(
    chat, screen
):
    terminal = chat()
    terminal.type("/model scripted/echo\r")
    shows(terminal, "scripted/echo answers from now on")
    terminal.type("/model\r")
    selects(terminal, "scripted/echo")
    # One that no list has can be chosen again too.
    shows(terminal, "  scripted/test")
    terminal.type("gpt-5-mini")
    selects(terminal, "openai/gpt-5-mini ")
    shows(terminal, "$0.25 in, $2 out · 400k · no key")
    terminal.type("\r")
    shows(terminal, "openai has no key here: instar auth login openai")
    terminal.type("/model echo\r")
    shows(terminal, "model (1/1) › echo")
    terminal.type("\r")
    terminal.wait_until(lambda: terminal.rows.count("scripted/echo answers from now on") == 2)


def test_a_model_that_cannot_be_called_ends_the_chat_before_it_begins(screen):
    terminal = screen("chat", "-m", "bogus/x")
    assert terminal.end() == 1
    assert "no model bogus/x can be called here" in terminal.text


def test_esc_twice_lists_what_was_said_and_enter_goes_back_with_the_files_and_the_text(chat, machine):
    subprocess.run(["git", "init", "-q"], cwd=machine.project, check=True)
    terminal = chat()
    for said, answer in (("write it", "Written."), ("and now", "You said: and now")):
        terminal.type(f"{said}\r")
        shows(terminal, answer)
    rests(terminal)
    terminal.type("\x1b\x1b")
    selects(terminal, "and now   no files")
    shows(terminal, "  write it  1 file: +1 -0")
    terminal.type(UP)
    selects(terminal, "write it")
    terminal.type("x\r")
    shows(terminal, "back to before: write it; /redo brings it back")
    assert "› write it" in terminal.rows[-3:]
    assert not (machine.project / "note.txt").exists()


def test_going_back_may_leave_the_files_as_they_are(chat, machine):
    subprocess.run(["git", "init", "-q"], cwd=machine.project, check=True)
    terminal = chat()
    terminal.type("write it\r")
    shows(terminal, "Written.")
    rests(terminal)
    terminal.type("/rewind\r")
    selects(terminal, "write it")
    terminal.type("c")
    shows(terminal, "back to before: write it")
    assert (machine.project / "note.txt").read_text() == "one"
    terminal.type("\x15/rewind\r")
    shows(terminal, "there is nothing to go back to")


def test_a_theme_is_kept_for_the_next_chat_and_decides_the_colours_of_code(chat, machine):
    machine.script('== when "(.*)"\ntext:\n  ```python\n  while {{match.1}}\n  ```\n')
    terminal = chat()
    for theme, color in (("dark", "brightblue"), ("light", "blue"), ("plain", "default")):
        terminal.type("/theme\r")
        selects(terminal, "")
        terminal.type(f"{theme}\r")
        shows(terminal, f"the colours are {theme} from now on")
        terminal.type(f"{theme}\r")
        shows(terminal, f"while {theme}")
        assert terminal.style(f"while {theme}").fg == color
    terminal.type("\x04")
    terminal.end()
    again = chat()
    again.type("next\r")
    shows(again, "while next")
    assert again.style("while next").fg == "default"


def test_up_in_an_empty_input_takes_the_last_text_that_waits_to_edit_it(chat):
    terminal = chat()
    terminal.type("slow\r")
    shows(terminal, "begin")
    terminal.type("first\r")
    terminal.type("second\r")
    shows(terminal, "waits: second")
    terminal.type(UP)
    terminal.wait_until(lambda: "› second" in terminal.rows)
    terminal.type("s\x1b")
    terminal.wait_until(lambda: "› first" in terminal.rows and "  seconds" in terminal.rows)
