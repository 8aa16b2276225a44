"""The input of `instar chat`: keys, pastes and images."""

import base64
import json
import time

import pytest
from tests.cli.test_chat import chat, server, shows

pytestmark = pytest.mark.slow
__all__ = ["chat", "server"]

UP, DOWN = "\x1b[A", "\x1b[B"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def paste(terminal, text):
    terminal.type(f"\x1b[200~{text}\x1b[201~")


def told(machine):
    """The parts of the person's first message."""
    (listed,) = json.loads(machine.instar("session", "list", "--json").stdout)
    shown = json.loads(machine.instar("session", "show", listed["id"], "--json").stdout)
    return shown["messages"][0]["parts"]


def image(path):
    path.write_bytes(PNG)
    return path


def files_of(parts):
    return [(one["filename"], one["mime"], one["url"][:22]) for one in parts if one["type"] == "file"]


@pytest.mark.parametrize("spelled", ["{}", "'{}'", '"{}"', "file://{}", "{} "])
def test_the_path_of_an_image_that_is_dropped_becomes_the_image(chat, machine, spelled):
    path = image(machine.home / "a tree.png")
    terminal = chat()
    terminal.type("what is ")
    paste(terminal, spelled.format(str(path).replace(" ", "%20") if spelled.startswith("file") else path))
    shows(terminal, "› what is [image 1: a tree.png]")
    terminal.type("\r")
    shows(terminal, "You said: what is [image 1: a tree.png]")
    assert files_of(told(machine)) == [("a tree.png", "image/png", "data:image/png;base64,")]


def test_several_images_are_dropped_at_once_and_one_that_is_mentioned_goes_along(chat, machine):
    paths = [image(machine.home / name) for name in ("one.png", "two\\ more.png")]
    image(machine.project / "three.png")
    terminal = chat()
    paste(terminal, f"{paths[0]} '{paths[1]}'")
    shows(terminal, "› [image 1: one.png] [image 2: two")
    terminal.type(" and @three.png.\r")
    shows(terminal, "You said:")
    assert sorted(name for name, *_ in files_of(told(machine))) == ["one.png", "three.png", "two\\ more.png"]


def test_an_image_whose_mark_is_taken_away_is_not_sent_and_a_text_or_another_file_stays_a_text(chat, machine):
    other = machine.write("notes.txt", "x")
    terminal = chat()
    paste(terminal, str(image(machine.home / "a.png")))
    shows(terminal, "› [image 1: a.png]")
    terminal.type("\x15")
    paste(terminal, str(other))
    shows(terminal, f"› {other}")
    terminal.type("\r")
    shows(terminal, "You said:")
    assert files_of(told(machine)) == []


def test_an_image_that_is_too_large_is_said(chat, machine):
    path = machine.home / "huge.png"
    path.write_bytes(PNG + bytes(5 * 1024 * 1024))
    terminal = chat()
    paste(terminal, str(path))
    shows(terminal, "huge.png is larger than 5 MiB: make it smaller")


def test_ctrl_v_pastes_an_image_from_the_clipboard_or_says_what_to_install(chat, machine):
    programs = machine.home / "programs"
    programs.mkdir()
    terminal = chat(PATH=str(programs))
    terminal.type("\x16")
    shows(terminal, "for an image from the clipboard install wl-clipboard (Wayland), xclip (X11) or pngpaste")
    clipboard = programs / "xclip"
    clipboard.write_text(f"#!/bin/sh\nexec /bin/cat {machine.home}/a.png\n")
    clipboard.chmod(0o755)
    terminal.type("\x16")
    shows(terminal, "there is no image in the clipboard")
    image(machine.home / "a.png")
    terminal.type("see \x16")
    shows(terminal, "› see [image 1: clipboard.png]")
    terminal.type("\r")
    shows(terminal, "You said: see")
    assert files_of(told(machine)) == [("clipboard.png", "image/png", "data:image/png;base64,")]


def test_an_image_of_this_machine_goes_to_a_server_elsewhere_as_it_is(server, screen, machine):
    image(machine.project / "a.png")
    session = server.session()
    terminal = screen("chat", "--attach", server.url, "--dir", str(server.directory), "-s", session)
    shows(terminal, "instar; /help")
    terminal.type("/model scripted/test\r")
    shows(terminal, "scripted/test answers from now on")
    terminal.type("look at @a.png\r")
    shows(terminal, "You said: look at")
    first = server.http.get(f"/session/{session}/message").json()[0]
    assert files_of(first["parts"]) == [("a.png", "image/png", "data:image/png;base64,")]


def test_a_paste_of_a_megabyte_is_folded_at_once_and_sent_whole(chat, machine):
    terminal = chat()
    text = "one long line of words " * 50_000 + "remember"

    def is_answered(times):
        return sum("It was done." in row for row in terminal.rows) == times

    began = time.monotonic()
    paste(terminal, text)
    shows(terminal, "› [pasted 1150008 characters, 1]")
    assert time.monotonic() - began < 3
    terminal.type("\r")
    terminal.wait_until(lambda: is_answered(1))
    # A text that is put into the input again does not hold it up either.
    terminal.type("/undo\r")
    shows(terminal, "› [pasted 1150008 characters, 2]")
    terminal.type("\r")
    terminal.wait_until(lambda: is_answered(2))
    assert told(machine)[0]["text"] == text


def test_what_controls_a_terminal_is_taken_out_of_a_paste(chat, machine):
    terminal = chat()
    paste(terminal, "a\x1b]0;owned\x07b\r\nc\x9b31m")
    terminal.wait_until(lambda: terminal.rows[-3:-1] == ["› a]0;ownedb", "  c31m"])
    terminal.type("\r")
    shows(terminal, "You said: a]0;ownedb")
    assert told(machine)[0]["text"] == "a]0;ownedb\nc31m"


def test_ctrl_r_finds_what_was_said_before_also_in_another_chat_with_what_was_pasted(chat):
    terminal = chat()
    pasted = "\n".join(f"line {number}" for number in range(9))
    paste(terminal, pasted)
    terminal.type("\r")
    shows(terminal, "You said: line 0")
    terminal.type("hello there\r")
    shows(terminal, "You said: hello there")
    terminal.type("\x04")
    terminal.end()
    again = chat()
    again.type("\x12")
    shows(again, "said before (1/2) ›")
    again.type("line 8")
    shows(again, "said before (1/1) › line 8")
    again.type("\r")
    again.wait_until(
        lambda: again.rows[-10:-1] == ["› line 0", *(f"  line {number}" for number in range(1, 9))]
    )


@pytest.mark.parametrize("shift_enter", ["\x1b[13;2u", "\x1b[27;2;13~", "\x1b\r"])
def test_shift_enter_begins_a_line_and_the_arrows_move_in_the_text_before_they_move_in_what_was_said(
    chat, shift_enter
):
    terminal = chat()
    terminal.type("before\r")
    shows(terminal, "You said: before")
    terminal.type(f"one{shift_enter}two")
    terminal.wait_until(lambda: terminal.rows[-3:-1] == ["› one", "  two"])
    terminal.type(f"{UP}X")
    terminal.wait_until(lambda: terminal.rows[-3:-1] == ["› oneX", "  two"])
    terminal.type(UP)
    terminal.wait_until(lambda: terminal.rows[-2] == "› before")
    terminal.type(DOWN)
    terminal.wait_until(lambda: terminal.rows[-3:-1] == ["› oneX", "  two"])


def test_a_line_is_edited_as_in_a_shell(chat):
    terminal = chat()
    terminal.type("b c\x01a \x05 d\x1b[HX\x1b[FY\x17")
    shows(terminal, "› Xa b c")
    terminal.type("\x01\x1b[C\x0b")
    terminal.wait_until(lambda: terminal.rows[-2] == "› X")
    terminal.type("\x15")
    terminal.wait_until(lambda: terminal.rows[-2] == "›")


def test_ctrl_l_clears_the_screen(chat):
    terminal = chat()
    terminal.type("hello\r")
    shows(terminal, "You said: hello")
    terminal.type("more\x0c")
    terminal.wait_until(lambda: terminal.rows[:2] == ["", "› more"])
