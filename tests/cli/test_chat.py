"""`instar chat` on a real terminal: what a person types, and what they see."""

import json
import subprocess
import time

import pytest
from tests.server.conftest import PASSWORD

TALK = """== when "slow"
text: begin
delay: 60s

== when "remember"
text: It was **done**.

== when "write it"
tool: write {"filePath": "note.txt", "content": "one"}

== when "Wrote"
text: Written.

== when "ask me"
tool: bash {"command": "echo remember"}

== when "which tea"
tool: question {"questions": [{"question": "Which tea?", "header": "tea", "options": []}]}

== when ""
text: You said: {{user}}
"""


@pytest.fixture
def chat(machine, screen):
    machine.script(TALK)

    def start(*arguments, **how):
        terminal = screen("chat", "-m", "scripted/test", *arguments, **how)
        terminal.wait_until(lambda: "› " in "\n".join([*terminal.rows, ""]) or terminal.rows[-2:-1] == ["›"])
        terminal.wait_until(lambda: any(row.startswith("instar; /help") for row in terminal.rows))
        return terminal

    return start


@pytest.fixture
def server(machine, serve):
    machine.environment["INSTAR_SERVER_PASSWORD"] = PASSWORD
    return serve(script=TALK)


def shows(terminal, text):
    terminal.wait_until(lambda: any(text in row for row in terminal.rows))


@pytest.mark.slow
def test_what_was_said_stays_and_leaving_says_how_to_go_on(chat, machine):
    terminal = chat()
    terminal.type("hello\r")
    shows(terminal, "You said: hello")
    terminal.type("\x04")
    assert terminal.end() == 0
    rows = [row for row in terminal.rows if row]
    assert rows[-3:-1] == ["› hello", "You said: hello"]
    assert rows[-1].startswith("go on: instar chat -s ses_")
    again = machine.instar("session", "list")
    assert "hello" in again.stdout


@pytest.mark.slow
def test_a_session_that_is_gone_on_with_shows_its_last_messages(chat, screen):
    terminal = chat()
    terminal.type("hello\r")
    shows(terminal, "You said: hello")
    terminal.type("\x04")
    terminal.end()
    again = chat("-c")
    head, *said = [row for row in again.rows if row]
    assert head.startswith("instar: going on with ses_")
    assert said[:2] == ["› hello", "You said: hello"]


@pytest.mark.slow
def test_a_call_that_is_asked_about_waits_for_one_of_the_answers(chat, machine):
    machine.write("opencode.json", '{"permission": {"bash": "ask"}}')
    terminal = chat()
    terminal.type("ask me\r")
    shows(terminal, "? bash wants: echo remember")
    shows(terminal, "[o]nce, [a]lways, [r]eject")
    terminal.type("what\r")
    terminal.type("o\r")
    shows(terminal, "It was done.")
    assert any(row.startswith("✓ bash echo remember") for row in terminal.rows)


@pytest.mark.slow
def test_what_is_typed_while_it_works_waits_and_esc_takes_it_back_and_then_ends_the_turn(chat):
    terminal = chat()
    terminal.type("slow\r")
    shows(terminal, "begin")
    terminal.type("later\r")
    shows(terminal, "waits: later")
    terminal.type("\x1b")
    terminal.wait_until(lambda: "› later" in terminal.rows)
    terminal.type("\x03")
    terminal.type("\x1b")
    shows(terminal, "aborted")
    terminal.type("now\r")
    shows(terminal, "You said: now")


@pytest.mark.slow
def test_undo_takes_a_message_and_its_files_back_and_redo_brings_them(chat, machine):
    subprocess.run(["git", "init", "-q"], cwd=machine.project, check=True)
    terminal = chat()
    terminal.type("write it\r")
    shows(terminal, "Written.")
    note = machine.project / "note.txt"
    assert note.read_text() == "one"
    terminal.type("/undo\r")
    shows(terminal, "back to before: write it")
    assert not note.exists()
    # The text is in the input again, to be said otherwise.
    terminal.type("\x03/redo\r")
    shows(terminal, "what was undone is back")
    assert note.read_text() == "one"


@pytest.mark.slow
def test_files_and_orders_are_completed(chat, machine):
    machine.write("src/garden.py", "")
    terminal = chat()
    terminal.type("look at @gard")
    shows(terminal, "@src/garden.py")
    terminal.type("\t")
    shows(terminal, "› look at @src/garden.py")
    terminal.type("\x03")
    terminal.type("/comp")
    shows(terminal, "summarise what was said so far")


@pytest.mark.slow
def test_a_long_paste_is_folded_and_sent_whole(chat, machine):
    terminal = chat()
    lines = "\n".join(f"line {number}" for number in range(200))
    terminal.type(f"\x1b[200~{lines}\x1b[201~")
    shows(terminal, "› [pasted 200 lines, 1]")
    terminal.type("\r")
    shows(terminal, "You said: line 0")
    (listed,) = json.loads(machine.instar("session", "list", "--json").stdout)
    shown = json.loads(machine.instar("session", "show", listed["id"], "--json").stdout)
    assert shown["messages"][0]["parts"][0]["text"] == lines


@pytest.mark.slow
def test_a_model_cannot_control_the_terminal_of_a_chat(chat, machine):
    machine.script("== turn\ntext: a\x1b]0;owned\x07b\n")
    terminal = chat()
    terminal.type("hi\r")
    shows(terminal, "a]0;ownedb")
    assert b"\x1b]0;" not in terminal.raw


@pytest.mark.slow
def test_instar_alone_on_a_terminal_is_a_chat_that_says_how_to_choose_a_model(machine, screen):
    terminal = screen()
    shows(terminal, "keep a key: instar auth login openai")
    shows(terminal, "or try without: /model scripted/echo")
    terminal.type("/model scripted/echo\r")
    shows(terminal, "scripted/echo answers from now on")
    terminal.type("hello there\r")
    terminal.wait_until(lambda: terminal.rows.count("hello there") == 1)


def test_a_chat_needs_a_terminal(machine):
    done = machine.instar("chat")
    assert (done.returncode, "a chat needs a terminal" in done.stderr) == (1, True)


@pytest.mark.slow
def test_two_chats_with_one_server_see_one_another(server, screen):
    session = server.session()
    first, second = (screen("chat", "--attach", server.url, "-s", session) for _ in range(2))
    for terminal in (first, second):
        shows(terminal, "instar; /help")
    first.type("/model scripted/test\r")
    shows(first, "scripted/test answers from now on")
    first.type("hello\r")
    for terminal in (first, second):
        shows(terminal, "› hello")
        shows(terminal, "You said: hello")


@pytest.mark.slow
def test_a_server_that_goes_away_is_said(server, screen):
    terminal = screen("chat", "--attach", server.url)
    shows(terminal, "instar; /help")
    server.stop()
    shows(terminal, "the server ended the stream of events")
    terminal.type("hello\r")
    shows(terminal, "no answer from http://")
    terminal.type("\x04")
    assert terminal.end() == 0


@pytest.mark.slow
def test_what_was_said_in_one_chat_is_remembered_in_the_next_and_a_text_has_several_lines(chat):
    terminal = chat()
    terminal.type("one\x1b\rtwo\\\rthree\r")
    shows(terminal, "You said: one two three")
    terminal.type("\x04")
    terminal.end()
    again = chat()
    again.type("\x1b[A")
    shows(again, "› one")
    assert [row.strip() for row in again.rows if row.strip() in ("two", "three")] == ["two", "three"]


@pytest.mark.slow
def test_the_editor_of_a_persons_own_changes_the_text(chat, machine):
    editor = machine.home / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "%s and more" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    machine.environment["EDITOR"] = str(editor)
    terminal = chat()
    terminal.type("some")
    terminal.type("\x07")
    shows(terminal, "› some and more")


@pytest.mark.slow
def test_a_command_of_the_persons_own_is_run_and_shown(chat):
    terminal = chat()
    terminal.type("!echo from here\r")
    shows(terminal, "✓ bash echo from here")
    shows(terminal, "    from here")


@pytest.mark.slow
def test_a_question_of_the_models_is_answered_by_number_or_in_words(chat, machine):
    asked = {"question": "Which?", "header": "h", "options": [{"label": "tea", "description": "hot"}]}
    machine.script(f"== turn\ntool: question {json.dumps({'questions': [asked]})}\n== turn\ntext: ok\n")
    terminal = chat()
    terminal.type("go\r")
    shows(terminal, "? Which?")
    shows(terminal, "  1. tea - hot")
    terminal.type("7\r")
    shows(terminal, "there is no answer 7")
    terminal.type("1\r")
    terminal.wait_until(lambda: "ok" in terminal.rows)


@pytest.mark.slow
def test_each_order_of_the_help_does_what_it_says(chat, machine):
    subprocess.run(["git", "init", "-q"], cwd=machine.project, check=True)
    terminal = chat()
    terminal.type("write it\r")
    shows(terminal, "Written.")
    terminal.type("/diff\r")
    shows(terminal, "+one")
    terminal.type("/cost\r")
    shows(terminal, "tokens in,")
    terminal.type("/agent plan\r")
    shows(terminal, "plan answers from now on")
    terminal.type("/agent\r")
    shows(terminal, "▸ build  The default agent")
    terminal.type("\x03")
    terminal.type("/rewind 1\r")
    shows(terminal, "back to before: write it; /redo brings it back")
    assert not (machine.project / "note.txt").exists()
    terminal.type("\x03/redo\r")
    shows(terminal, "what was undone is back")
    terminal.type("/fork\r")
    terminal.wait_until(lambda: terminal.rows.count("› write it") == 2)
    terminal.type("/new\r")
    terminal.type("/sessions\r")
    shows(terminal, "sessions (1/2)")
    terminal.type("\x03")
    terminal.type("/compact\r")
    shows(terminal, "has no messages to summarise")
    terminal.type("/evolve\r")
    shows(terminal, "evolve is not in use in this directory")
    terminal.type("/help\r")
    shows(terminal, "/quit       leave; the session is kept")
    terminal.type("/quit\r")
    assert terminal.end() == 0


@pytest.mark.slow
def test_a_session_is_named_by_the_beginning_of_its_id(chat, machine):
    machine.instar("run", "-m", "scripted/test", "hello")
    (listed,) = json.loads(machine.instar("session", "list", "--json").stdout)
    terminal = chat("-s", listed["id"][:14])
    assert "› hello" in terminal.rows


@pytest.mark.slow
def test_a_wrong_order_is_said_and_not_sent_and_a_path_is_a_text(chat, machine):
    terminal = chat()
    terminal.type("/comapct\r")
    shows(terminal, "there is no order, command or skill /comapct")
    terminal.type("/tmp is a folder\r")
    shows(terminal, "You said: /tmp is a folder")
    terminal.type(" /comapct\r")
    shows(terminal, "You said:  /comapct")


@pytest.mark.slow
def test_a_diff_that_was_asked_about_is_shown_once_and_the_wait_is_no_part_of_the_time(chat, machine):
    machine.write("opencode.json", '{"permission": {"edit": "ask"}}')
    terminal = chat()
    terminal.type("write it\r")
    shows(terminal, "? edit wants: note.txt")
    asked = time.monotonic()
    terminal.wait_until(lambda: time.monotonic() > asked + 1.5)
    terminal.type("o\r")
    shows(terminal, "Written.")
    assert [row.strip() for row in terminal.rows if row.strip() == "+one"] == ["+one"]
    (line,) = (row for row in terminal.rows if row.startswith("✓ write note.txt"))
    assert float(line.split()[-2]) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("word", ["exit", "quit", ":q"])
def test_a_word_that_leaves_other_programs_leaves_a_chat(chat, word):
    terminal = chat()
    terminal.type(f"{word}\r")
    assert terminal.end() == 0
