"""How `instar chat` ends: what runs in it ends with it, and the terminal is as it was."""

import json
import os
import signal
import time

import pytest
from tests.server.conftest import PASSWORD
from tests.waiting import take_quickest, wait_until

STUBBORN = """
import asyncio

async def server(input, options=None):
    async def dispose():
        print("disposing", flush=True)
        await asyncio.sleep(4)
    return {"dispose": dispose}
"""


@pytest.fixture
def nap():
    return f"sleep 4719.{os.getpid()}"


@pytest.fixture
def busy(machine, screen, nap):
    """Return a chat in which a command runs."""

    def start(*arguments):
        machine.script(f'== turn\ntool: bash {{"command": "{nap}"}}\n')
        terminal = screen("chat", *(arguments or ("-m", "scripted/test")))
        shows(terminal, "instar; /help")
        if arguments:
            terminal.type("/model scripted/test\r")
            shows(terminal, "scripted/test answers from now on")
        terminal.type("go\r")
        shows(terminal, f"… bash {nap}")
        return terminal

    return start


def shows(terminal, text):
    terminal.wait_until(lambda: any(text in row for row in terminal.rows))


def states(machine):
    """The states of the calls of the last session."""
    listed, *_ = json.loads(machine.instar("session", "list", "--json").stdout)
    shown = json.loads(machine.instar("session", "show", listed["id"], "--json").stdout)
    parts = [part for message in shown["messages"] for part in message["parts"]]
    return [part["state"]["status"] for part in parts if part["type"] == "tool"]


@pytest.mark.slow
@pytest.mark.parametrize("leave", ["\x04", "/quit\r"])
def test_leaving_ends_the_turn_and_what_it_started(busy, machine, nap, leave):
    terminal = busy()
    terminal.type(leave)
    assert terminal.end() == 0
    assert not machine.runs(nap)
    assert states(machine) == ["error"]
    assert terminal.rows[-2] == "aborted"
    assert terminal.rows[-3].startswith("✗ bash sleep")
    assert terminal.rows[-1].startswith("go on: instar chat -s ses_")
    assert not any("Ctrl-C ends" in row for row in terminal.rows)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_turn_and_gives_the_terminal_back(busy, machine, nap, number, code):
    def ended() -> float:
        terminal = busy()
        assert terminal.is_raw
        began = time.monotonic()
        os.kill(terminal.pid, number)
        assert terminal.end() == code
        took = time.monotonic() - began
        assert not terminal.is_raw
        assert not machine.runs(nap)
        return took

    assert take_quickest(ended, 1.0) < 1.0
    assert "running" not in states(machine)


@pytest.mark.slow
def test_a_second_signal_ends_a_chat_at_once_and_gives_the_terminal_back(busy, machine):
    machine.write_home("plugins/stubborn.py", STUBBORN)
    terminal = busy()
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.wait_for("disposing")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() == 130
    assert not terminal.is_raw


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_the_chat_with_its_turn(busy, machine, nap):
    terminal = busy()
    assert terminal.hang_up() == 129
    assert not machine.runs(nap)
    assert states(machine) == ["error"]


@pytest.mark.slow
def test_a_turn_in_a_server_goes_on_when_the_person_leaves(machine, serve, screen):
    go = machine.project / "go"
    machine.environment["INSTAR_SERVER_PASSWORD"] = PASSWORD
    command = f"while [ ! -e {go} ]; do sleep 0.05; done; echo went"
    script = f"== turn\ntool: bash {json.dumps({'command': command})}\n== turn\ntext: done\n"
    server = serve(script=script)
    terminal = screen("chat", "--attach", server.url, "-m", "scripted/test", columns=200)
    shows(terminal, "instar; /help")
    terminal.type("go\r")
    shows(terminal, "… bash while")
    terminal.type("\x04")
    assert terminal.end() == 0
    last = terminal.rows[-1]
    assert last.startswith(
        f"its turn goes on in the server; go on: instar chat --attach {server.url} -s ses_"
    )
    session = last.rpartition(" ")[2]
    go.touch()
    wait_until(lambda: "done" in server.http.get(f"/session/{session}/message").text)


@pytest.mark.slow
def test_a_chat_in_which_nothing_was_said_leaves_no_session(machine, screen):
    machine.script("== turn\ntext: hi\n")
    terminal = screen("chat", "-m", "scripted/test")
    shows(terminal, "instar; /help")
    terminal.type("\x04")
    assert terminal.end() == 0
    assert machine.instar("session", "list").stderr == "instar: no sessions here yet\n"
    again = screen("chat", "-m", "scripted/test")
    shows(again, "instar; /help")
    again.type("/new\r")
    again.type("hello\r")
    again.wait_until(lambda: "hi" in again.rows)
    again.type("\x04")
    again.end()
    assert len(json.loads(machine.instar("session", "list", "--json").stdout)) == 1


@pytest.mark.slow
def test_what_runs_in_the_background_ends_with_the_chat(machine, screen, nap):
    machine.script(
        f'== turn\ntool: background {{"action": "start", "command": "{nap}"}}\n== turn\ntext: it runs\n'
    )
    terminal = screen("chat", "-m", "scripted/test")
    shows(terminal, "instar; /help")
    terminal.type("go\r")
    terminal.wait_until(lambda: "it runs" in terminal.rows)
    wait_until(lambda: machine.runs(nap))
    terminal.type("\x04")
    assert terminal.end() == 0
    assert not machine.runs(nap)
