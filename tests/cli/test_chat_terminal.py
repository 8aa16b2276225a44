"""`instar chat` on terminals as people have them: resized, slow, small, left and gone on with, before a lost server."""

import json
import re
import shutil
import signal
import subprocess
import sys

import pytest
from tests.clients.screen import Screen
from tests.server.conftest import PASSWORD
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
TMUX = pytest.mark.skipif(shutil.which("tmux") is None, reason="a terminal that wraps its rows anew: tmux")
INSTAR = f"{sys.executable} -m instar"
PARAGRAPHS = 36
LONG = "\n\n".join(
    f"Paragraph {n:02} goes on for as many words as are needed to reach past the edge of a row of 80 columns."
    for n in range(PARAGRAPHS)
)
RESIZES = ((5, 60), (12, 120), (19, 50), (26, 80))
"""After the beginning of which paragraph the window gets how many columns."""


def streamed():
    """The long answer. The model pauses where the window is resized, in the middle of a paragraph.

    What a program draws while the terminal wraps its rows anew, before it can know of that, stands twice.
    """
    text = LONG
    for number, _ in RESIZES:
        text = text.replace(
            f"Paragraph {number:02} goes on", f"Paragraph {number:02} goes\nEND\ndelay: 1s\ntext: <<END\n on"
        )
    return f"text: <<END\n{text}\nEND"


STREAM = f"""== when "long"
chunk: 4
pace: 2ms
{streamed()}

== when ""
text: You said: {{{{user}}}}
"""


@pytest.fixture
def window(machine):
    """A shell in tmux, in the machine's project."""
    opened = []

    def open_window(columns=80, rows=24):
        environment = {**machine.environment, "PS1": "$ "}
        environment.pop("NO_COLOR", None)
        shell = ["bash", "--norc", "--noprofile", "-i"]
        opened.append(Screen(shell, machine.project, environment, columns, rows))
        opened[-1].shows("$")
        return opened[-1]

    yield open_window
    for one in opened:
        one.close()


def begin(window, command):
    window.type(command)
    window.keys("Enter")


def resize_while_it_streams(window):
    for number, columns in RESIZES:
        window.shows(f"Paragraph {number:02}")
        window.resize(columns, 24)


def numbered(rows):
    return re.findall(r"Paragraph (\d\d)", "\n".join(rows))


@TMUX
def test_a_window_that_is_resized_while_an_answer_streams_keeps_all_of_it_once(machine, window):
    machine.script(STREAM)
    window = window()
    begin(window, f"{INSTAR} chat -m scripted/test")
    window.shows("instar; /help")
    begin(window, "long")
    resize_while_it_streams(window)
    window.until(lambda text: f"Paragraph {PARAGRAPHS - 1}" in text and "Ctrl-C ends" not in text)
    begin(window, "and now")
    window.shows("You said: and now")
    window.keys("C-d")
    window.shows("go on: instar chat -s ses_")
    rows = window.scrollback
    assert numbered(rows) == [f"{n:02}" for n in range(PARAGRAPHS)]
    assert not [row for row in rows if "Ctrl-C ends" in row or row.startswith(("build", "› \n"))]
    words = " ".join(" ".join(rows).split())
    assert " ".join(LONG.split()) in words


@TMUX
def test_the_rows_of_a_run_leave_no_trace_in_a_window_that_is_resized(machine, window):
    machine.script(STREAM)
    window = window()
    begin(window, f"{INSTAR} run -m scripted/test long")
    resize_while_it_streams(window)
    window.shows("go on: instar run -s")
    rows = window.scrollback
    assert numbered(rows) == [f"{n:02}" for n in range(PARAGRAPHS)]
    assert not [row for row in rows if "Ctrl-C ends" in row]


@TMUX
def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_brings_the_chat_back(machine, window):
    machine.script(STREAM)
    window = window()
    begin(window, f"{INSTAR} chat -m scripted/test")
    window.shows("instar; /help")
    window.type("half a sen")
    window.shows("› half a sen")
    window.keys("C-z")
    window.shows("Stopped")
    begin(window, "echo from the $((1 + 1))nd shell")
    window.shows("from the 2nd shell")
    begin(window, "fg")
    window.shows("› half a sen")
    window.type("tence")
    window.keys("Enter")
    window.shows("You said: half a sentence")
    window.keys("C-d")
    window.shows("go on: instar chat -s ses_")


@pytest.fixture
def chat(machine, screen):
    machine.script(STREAM)

    def start(*arguments, **how):
        terminal = screen("chat", *(arguments or ("-m", "scripted/test")), **how)
        shows(terminal, "Ctrl-D")
        return terminal

    return start


def shows(terminal, text):
    terminal.wait_until(lambda: any(text in row for row in terminal.rows))


def test_wide_and_combining_characters_stand_where_they_belong(chat, machine):
    wide = "漢字かな交じり文🚀e\u0301 " * 12
    machine.script(f"== turn\nchunk: 3\npace: 1ms\ntext: <<END\n{wide}\n\n- 日本\n- café\n\nthe end\nEND\n")
    terminal = chat(columns=60)
    terminal.type("日本語 e\u0301x")
    shows(terminal, "› 日本語")
    terminal.type("\x7fy\r")
    shows(terminal, "the end")
    terminal.type("\x04")
    assert terminal.end() == 0
    rows = [row.rstrip() for row in terminal.rows]
    assert any(row.startswith("› 日本語") and row.endswith("y") for row in rows)
    assert {" • 日本", " • café", "the end"} <= set(rows)
    assert sum(row.count("漢") for row in rows) == 12
    assert not any("Ctrl-C ends" in row for row in rows)


CONTROLS = (
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b[2J\x1b[H",
    "\x1b]0;owned\x07",
    "\x1b[?1049h",
    "\x9b2J",
    "\x1bc",
    "\u202e",
)
"""They fill the clipboard, erase the screen, set the title, take another screen, erase again, reset, reverse."""


def test_nothing_of_a_model_controls_the_terminal(chat, machine):
    told = f"before{'and'.join(CONTROLS)}after"
    described = json.dumps({"command": "true", "description": told})
    machine.script(
        f"== turn\nreasoning: {told}\ntool: bash {described}\n\n"
        f"== turn\ntext: <<END\n{told}\n\n```sh\n{told}\n```\n\nok\nEND\n"
    )
    terminal = chat("-m", "scripted/test", "--thinking")
    terminal.type("go\r")
    terminal.wait_until(lambda: "ok" in terminal.rows)
    assert sum("before" in row and "after" in row for row in terminal.rows) == 4
    assert not [one for one in CONTROLS if one.encode() in terminal.raw]


def test_a_paste_of_a_megabyte_is_sent_whole(chat, machine):
    machine.script(
        "== turn\nexpect: ^(line \\d+ of what was pasted\\n){40000}the last line$\ntext: all of it\n"
    )
    terminal = chat()
    pasted = "".join(f"line {n} of what was pasted\n" for n in range(40_000)) + "the last line"
    terminal.type(f"\x1b[200~{pasted}\x1b[201~")
    shows(terminal, "[pasted 40001 lines, 1]")
    terminal.type("\r")
    shows(terminal, "  … 39,982 more lines")
    shows(terminal, "all of it")


def test_a_small_terminal_is_enough(chat):
    terminal = chat(columns=20, height=5)
    terminal.type("hello\r")
    shows(terminal, "You said: hello")
    terminal.type("/help\r")
    shows(terminal, "leaves")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_a_terminal_that_cannot_move_its_cursor_is_refused(screen):
    terminal = screen("chat", TERM="dumb")
    assert terminal.end() == 1
    assert "a chat moves the cursor, which TERM=dumb cannot" in terminal.text


def has_answered(machine):
    (listed,) = json.loads(machine.instar("session", "list", "--json").stdout)
    messages = json.loads(machine.instar("session", "show", listed["id"], "--json").stdout)["messages"]
    return any(one["info"]["role"] == "assistant" and "completed" in one["info"]["time"] for one in messages)


def test_a_terminal_that_is_not_read_is_sent_no_frames_that_nobody_sees(chat, machine):
    lines = "".join(
        f"- item {n:04} of a long list, which is longer than a row of the terminal\n" for n in range(4000)
    )
    machine.script(f"== turn\nchunk: 150\npace: 1ms\ntext: <<END\n{lines}END\n")
    terminal = chat()
    before = len(terminal.raw)
    terminal.type("go\r")
    wait_until(lambda: has_answered(machine))
    terminal.wait_for("item 3999")
    terminal.wait_until(lambda: not any("Ctrl-C ends" in row for row in terminal.rows))
    frames = terminal.raw[before:].count(b"\x1b[?2004h")
    assert frames < 60
    assert {f"{n:04}" for n in range(4000)} <= set(re.findall(r"item (\d{4})", terminal.text))


@pytest.fixture
def server(machine, serve):
    machine.environment["INSTAR_SERVER_PASSWORD"] = PASSWORD
    return serve(script=STREAM)


def test_a_chat_goes_on_by_itself_once_its_server_is_there_again(machine, server, serve, screen):
    session = server.session()
    terminal = screen("chat", "--attach", server.url, "-s", session)
    shows(terminal, "instar; /help")
    terminal.type("/model scripted/test\r")
    shows(terminal, "scripted/test answers from now on")
    terminal.type("long\r")
    shows(terminal, "Paragraph 03")
    server.stop(signal.SIGKILL)
    shows(terminal, "the server ended the stream of events; it is asked again until it answers")
    assert not any("Ctrl-C ends" in row for row in terminal.rows)
    terminal.type("hello\r")
    shows(terminal, "no answer from http://")
    again = serve("--port", server.url.rpartition(":")[2], script=STREAM)
    shows(terminal, "the server answers again")
    again.ask(session, "from elsewhere")
    shows(terminal, "You said: from elsewhere")
    terminal.type("hello again\r")
    shows(terminal, "You said: hello again")
    assert sum("› long" in row for row in terminal.rows) == 1
    terminal.type("\x04")
    assert terminal.end() == 0


def test_no_other_command_pays_for_the_library_of_the_input(machine):
    for arguments in (["--version"], ["run", "-m", "scripted/echo", "hi"]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "instar", *arguments],
            cwd=machine.project,
            env=machine.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "prompt_toolkit" not in done.stderr
