"""What is printed, and who reads it: a pipe that nobody empties holds up no turn, no session, no signal and no end."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.waiting import PATIENCE, SOON, take_quickest, wait_until

LONG = "word " * 20_000
"""More than a pipe holds."""


def start(machine, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "instar", *arguments],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def sessions(machine):
    return json.loads(machine.instar("session", "list", "--json").stdout or "[]")


def ended(machine, process):
    """Wait until the turn of a run that cannot print has ended all the same."""
    wait_until(lambda: sessions(machine) and "ending here" in shown(machine))
    assert process.poll() is None


def shown(machine):
    return machine.instar("session", "show", sessions(machine)[0]["id"]).stdout


@pytest.mark.parametrize("form", ["default", "json"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_answer_that_nobody_reads_waits_and_a_signal_ends_the_run(machine, form, number):
    machine.script(f"== turn\ntext: {LONG}ending here\n")

    def attempt():
        process = start(machine, "run", "-m", "scripted/test", "--format", form, "hi")
        ended(machine, process)
        began = time.monotonic()
        process.send_signal(number)
        process.wait(PATIENCE)
        took = time.monotonic() - began
        process.communicate()
        return took

    assert take_quickest(attempt, 1.5) < 1.5


def test_an_answer_that_is_read_late_is_whole(machine):
    machine.script(f"== turn\ntext: {LONG}ending here\n")
    process = start(machine, "run", "-m", "scripted/test", "hi")
    ended(machine, process)
    out, err = process.communicate(timeout=PATIENCE)
    assert (out.decode(), err, process.returncode) == (f"{LONG}ending here\n", b"", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_turn_whose_output_nobody_reads(machine, number):
    started = machine.project / "started"
    machine.script(f'== turn\ntext: {LONG}\ntool: bash {{"command": "touch {started}; sleep 60"}}\n')
    process = start(machine, "run", "-m", "scripted/test", "--format", "json", "hi")
    wait_until(started.exists)
    began = time.monotonic()
    process.send_signal(number)
    assert process.wait(PATIENCE) == 130
    assert time.monotonic() - began < SOON
    process.communicate()


@pytest.mark.slow
def test_a_plugin_that_prints_much_does_not_hold_up_a_run_whose_logs_nobody_reads(machine):
    machine.write(
        ".instar/plugin/loud.ts",
        "export const Loud = async () => ({ 'chat.message': async () => {\n"
        "  for (let n = 0; n < 40000; n++) console.log('a line of the plugin that says a good deal', n)\n"
        "} })\n",
    )
    machine.script("== turn\ntext: hello\n")
    assert machine.instar("trust").returncode == 0
    process = start(machine, "run", "-m", "scripted/test", "--print-logs", "hi")
    assert process.stdout.read() == b"hello\n"
    assert process.wait(PATIENCE) == 0
    assert b"a line of the plugin" in process.communicate()[1]


@pytest.mark.slow
def test_a_server_whose_log_nobody_reads_answers_and_ends(serve):
    served = serve("--print-logs", "--log-level", "DEBUG")
    session = served.session()
    said = "x" * 5000
    for _ in range(200):
        assert served.http.get(f"/session/{session}/{said}").status_code == 404
    assert served.ask(session).status_code == 200
    began = time.monotonic()
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(PATIENCE) == 0
    assert time.monotonic() - began < SOON


@pytest.mark.slow
def test_lines_that_nobody_reads_are_dropped_and_counted(serve):
    served = serve("--print-logs", "--log-level", "DEBUG")
    for _ in range(400):
        served.http.get("/session/" + "x" * 8000)
    os.set_blocking(served.process.stderr.fileno(), False)
    found = bytearray()

    def told():
        found.extend(served.process.stderr.read() or b"")
        return b"lines were dropped here: nobody read them" in found

    wait_until(told)
    served.http.get("/session/again")
    wait_until(lambda: found.extend(served.process.stderr.read() or b"") or b"/session/again" in found)
