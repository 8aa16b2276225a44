import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import PATIENCE
from tests.waiting import SOON, wait_until

TURN = """
== turn
reasoning: thinking aloud
text: I look first.
tool: bash {"command": "echo seen"}
== turn
text: It is done.
"""


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
def test_a_pipe_gets_the_answers_text_alone_and_stderr_the_tool_lines(machine):
    machine.script(TURN)
    done = machine.run("hi")
    assert done.returncode == 0
    assert done.stdout == "I look first.\nIt is done.\n"
    assert done.stderr.startswith("+ bash echo seen (")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_json_is_one_event_a_line_in_the_form_of_opencode_run(machine):
    machine.script(TURN)
    events = lines(machine.run("--format", "json", "hi").stdout)
    assert [event["type"] for event in events] == [
        *("step_start", "text", "tool_use", "step_finish"),
        *("step_start", "text", "step_finish"),
    ]
    assert all(set(event) == {"type", "timestamp", "sessionID", "part"} for event in events)
    assert all(event["part"]["sessionID"] == event["sessionID"] for event in events)
    assert events[2]["part"]["state"]["status"] == "completed"
    assert "seen" in events[2]["part"]["state"]["output"]


def test_an_attempt_that_is_tried_again_is_not_printed_twice(machine):
    machine.script("== turn\nerror: 503 busy retry-after=0.01 times=1\ntext: once\n")
    done = machine.run("--format", "json", "hi")
    assert [event["type"] for event in lines(done.stdout)] == ["step_start", "text", "step_finish"]
    assert "trying again" in done.stderr


def test_a_failed_answer_is_exit_code_1_and_one_line(machine):
    machine.script("== turn\nerror: 400 the model said no\n")
    done = machine.run("hi")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "the model said no" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_failed_answer_is_an_error_event_in_json(machine):
    machine.script("== turn\nerror: 400 the model said no\n")
    event = lines(machine.run("--format", "json", "hi").stdout)[-1]
    assert event["type"] == "error"
    assert event["error"]["name"] == "APIError"


@pytest.mark.slow
def test_a_limit_that_stops_the_turn_is_exit_code_1_and_said(machine):
    machine.write_home("instar.json", '{"max_iterations": 1}')
    machine.script(TURN)
    done = machine.run("hi")
    assert done.returncode == 1
    assert "The turn was stopped" in done.stderr


@pytest.mark.slow
def test_a_turn_that_runs_for_too_long_is_said_once(machine):
    machine.write_home("instar.json", '{"limits": {"turn": {"minutes": 0.01}}}')
    machine.script("== turn\ndelay: 60s\ntext: late\n")
    done = machine.run("hi")
    assert done.returncode == 1
    assert done.stderr.count("limits.turn.minutes") == 1
    (event,) = [one for one in lines(machine.run("--format", "json", "hi").stdout) if one["type"] == "error"]
    assert event["error"]["name"] == "LimitReached"


@pytest.mark.slow
def test_what_an_order_to_stop_ended_is_said_once(machine):
    started = machine.project / "started"
    machine.script(f'== turn\ntool: bash {{"command": "touch {started}"}}\n== turn\ndelay: 60s\ntext: late\n')
    process = start(machine, "hi")
    wait_until(started.exists)
    assert machine.instar("stop", "--all").returncode == 0
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert err.decode().count("instar stop ended everything") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "stdin", "asked"),
    [
        (["one", "two"], None, "one two"),
        (["sum", "up"], b"piped\nlines\n", "sum up\npiped\nlines"),
        (["-"], b"piped", "piped"),
        ([], b"piped", "piped"),
        (["caf\u00e9"], b"\xff", "caf\u00e9\n\ufffd"),
    ],
)
def test_the_message_is_the_words_and_what_is_piped_in(machine, arguments, stdin, asked):
    machine.script("== turn\ntext: {{user}}\n")
    assert machine.run(*arguments, stdin=stdin).stdout == asked + "\n"


@pytest.mark.slow
def test_bytes_of_the_command_line_that_are_no_utf_8_become_marks(machine):
    machine.script("== turn\ntext: {{user}}\n")
    assert machine.run(b"a\xffb").stdout == "a\ufffdb\n"
    machine.run("hi", "--title", b"t\xff")
    assert "t\ufffd" in machine.instar("session", "list").stdout


@pytest.mark.parametrize("given", [["--dir", b"d\xff"], ["-f", b"d\xff"]], ids=["folder", "file"])
def test_a_place_whose_name_is_no_utf_8_is_said_in_one_line(machine, given):
    (machine.project / os.fsdecode(b"d\xff")).mkdir()
    done = machine.instar("run", "-m", "scripted/echo", *given, "hi")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "d\ufffd has a name that is not UTF-8: rename it" in done.stderr


def test_an_attached_file_is_shown_to_the_model(machine):
    machine.write("notes.txt", "the secret word is xyzzy")
    machine.script("== turn\nexpect: xyzzy\ntext: seen\n")
    machine.environment["INSTAR_SCRIPT_RECORD"] = str(machine.home / "sent")
    machine.run("read it", "-f", "notes.txt")
    assert "xyzzy" in (machine.home / "sent").read_text()


@pytest.mark.slow
def test_the_folder_is_the_systems_working_directory_not_pwd(machine, tmp_path):
    machine.script('== turn\ntool: bash {"command": "pwd -P"}\n== turn\ntext: {{last.tool.output}}\n')
    machine.environment["PWD"] = str(tmp_path)
    assert machine.run("hi").stdout.strip() == str(machine.project)
    assert machine.run("--dir", str(tmp_path), "hi").stdout.strip() == str(tmp_path)


@pytest.mark.slow
def test_continue_goes_on_with_the_folders_last_session(machine):
    machine.script("== turn\ntext: one\n== turn\ntext: two\n")
    assert machine.run("hi").stdout == "one\n"
    assert machine.run("-c", "hi").stdout == "two\n"
    sessions = json.loads(machine.instar("session", "list", "--json").stdout)
    assert len(sessions) == 1
    assert machine.run("hi").stdout == "one\n"


@pytest.mark.slow
def test_a_session_is_gone_on_with_by_its_id_and_named(machine):
    machine.script("== turn\ntext: one\n== turn\ntext: two\n")
    first = lines(machine.run("--format", "json", "hi").stdout)[0]["sessionID"]
    assert machine.run("-s", first, "--title", "A name", "hi").stdout == "two\n"
    assert [item["title"] for item in json.loads(machine.instar("session", "list", "--json").stdout)] == [
        "A name"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-m", "scriptd/echo"], 2, "did you mean scripted/echo"),
        (["-m", "nonsense"], 2, "provider/model"),
        (["-m", "scripted/echo", "--agent", "biuld"], 2, "build"),
        (["-m", "scripted/echo", "-s", "ses_none"], 2, "ses_none"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_leaves_no_session(machine, arguments, code, said):
    done = machine.instar("run", *arguments, "hi")
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert machine.instar("session", "list").stdout == ""


@pytest.mark.slow
def test_without_a_model_three_lines_say_how_to_give_one_and_what_needs_none(machine):
    done = machine.instar("run", "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "instar: no model is set up yet: no provider's key, and no server on this machine",
        "instar: keep a key: instar auth login openai, or set OPENAI_API_KEY (instar models --all has others)",
        "instar: or try without: instar run -m scripted/echo …",
    ]
    assert machine.instar("session", "list").stdout == ""
    machine.write_home("instar.json", '{"disabled_providers": ["openai"]}')
    machine.environment["OPENAI_API_KEY"] = "sk-1"
    first, second, _ = machine.instar("run", "hi").stderr.splitlines()
    assert first == "instar: no model is set up yet, but $OPENAI_API_KEY is set"
    assert second == "instar: use it: instar run -m openai/NAME …"


def test_a_config_that_does_not_parse_names_file_line_and_column(machine):
    path = machine.write("opencode.json", '{\n  "model": \n}')
    done = machine.run("hi")
    assert done.returncode == 2
    assert f"{path}:3:1: expected" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_call_that_would_be_asked_about_is_refused_without_a_person_and_allowed_with_auto(machine):
    machine.write("opencode.json", '{"permission": {"bash": "ask"}}')
    machine.script(TURN)
    assert "! bash" in machine.run("hi").stderr
    assert "+ bash" in machine.run("--auto", "hi").stderr


@pytest.mark.slow
def test_a_deny_holds_with_auto(machine):
    machine.write("opencode.json", '{"permission": {"bash": {"echo *": "deny"}}}')
    machine.script(TURN)
    assert "! bash" in machine.run("--auto", "hi").stderr


@pytest.mark.slow
def test_a_plugin_of_an_untrusted_folder_is_skipped_with_one_line_and_runs_once_trusted(machine):
    mark = machine.home / "it-ran"
    machine.write(".instar/plugin/p.py", f"async def p(input, options):\n    open({str(mark)!r}, 'w')\n")
    machine.script("== turn\ntext: hello\n")
    done = machine.run("hi")
    assert (done.stdout, done.returncode, mark.exists()) == ("hello\n", 0, False)
    assert done.stderr.startswith("instar: not trusted, so skipped")
    assert done.stderr.count("\n") == 1
    machine.instar("trust")
    assert machine.run("hi").stderr == ""
    assert mark.exists()


def start(machine, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "instar", "run", "-m", "scripted/test", *arguments],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_aborts_the_turn_and_its_children_and_what_came_is_kept(machine, number):
    started, nap = machine.project / "started", f"sleep 4711.{os.getpid()}{number:d}"
    machine.script(f'== turn\ntext: so far\ntool: bash {{"command": "touch {started}; {nap}"}}\n')
    process = start(machine, "hi")
    wait_until(started.exists)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert out == b"so far\n"
    assert b"Traceback" not in err
    assert not machine.runs(nap)
    assert "so far" in machine.instar("session", "show", session_id(machine)).stdout


@pytest.mark.slow
def test_what_nohup_started_goes_on_when_its_terminal_closes(machine):
    started, go = machine.project / "started", machine.project / "go"
    command = f"touch {started}; while [ ! -e {go} ]; do sleep 0.05; done"
    machine.script("== turn\ntool: bash " + json.dumps({"command": command}) + "\n== turn\ntext: done\n")
    process = subprocess.Popen(
        ["nohup", sys.executable, "-m", "instar", "run", "-m", "scripted/test", "hi"],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(started.exists)
    process.send_signal(signal.SIGHUP)
    go.write_text("")
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, b"done\n")


def session_id(machine) -> str:
    return json.loads(machine.instar("session", "list", "--json").stdout)[0]["id"]


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a signal was sent to a process that has not taken it yet: until then another one adds nothing."""
    status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["ShdPnd"], 16) >> (number - 1) & 1)


@pytest.mark.slow
def test_a_second_signal_quits_at_once(machine):
    # The child ignores SIGTERM, so the first signal takes the grace before SIGKILL.
    started = machine.project / "started"
    command = f"trap '' TERM; touch {started}; while :; do sleep 4712.{os.getpid()}; done"
    machine.script("== turn\ntool: bash " + json.dumps({"command": command}) + "\n")
    process = start(machine, "hi")
    wait_until(started.exists)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: not is_pending(process.pid, signal.SIGINT))
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert time.monotonic() - began < SOON
    # What there was no time for is ended by the guard.
    wait_until(lambda: not machine.runs(f"sleep 4712.{os.getpid()}"))


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_run_quietly(machine):
    nap = f"sleep 4713.{os.getpid()}"
    machine.script(f'== turn\ntext: a line\ntool: bash {{"command": "{nap}"}}\n')
    process = start(machine, "hi")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=PATIENCE) == 141
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert not machine.runs(nap)


@pytest.mark.slow
def test_waiting_for_standard_input_is_said_and_loses_nothing(machine):
    machine.script("== turn\ntext: {{user}}\n")
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "instar", "run", "-m", "scripted/test", "hi"],
        cwd=machine.project,
        env=machine.environment,
        stdin=reader,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(reader)
    assert process.stderr is not None
    assert "waiting for the end of standard input" in process.stderr.readline()
    os.write(writer, b"late")
    os.close(writer)
    assert process.communicate(timeout=PATIENCE)[0] == "hi\nlate\n"


@pytest.mark.slow
def test_log_lines_go_to_a_file_or_to_stderr(machine):
    machine.script("== turn\ntext: hello\n")
    log = machine.home / ".local/state/instar/log/instar.log"
    assert "level=" not in machine.run("--log-level", "DEBUG", "hi").stderr
    printed = machine.run("--print-logs", "--log-level", "debug", "hi")
    assert printed.stdout == "hello\n"
    if log.exists():
        assert log.stat().st_mode & 0o077 == 0


def test_half_a_surrogate_in_a_calls_arguments_does_not_end_the_run(machine):
    machine.script('== turn\nraw: read {"filePath": "\\ud800"}\n\n== turn\ntext: went on\n')
    done = machine.run("--format", "json", "hi")
    assert done.returncode == 0
    assert "went on" in done.stdout


def test_a_model_may_be_named_without_its_provider(machine):
    done = machine.instar("run", "-m", "echo", "say plover")
    assert done.returncode == 0, done.stderr
    assert "plover" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ("", f"{sys.executable} -m pip install"),
        ("sys.modules['pip'] = None", f"uv pip install --python {sys.executable}"),
        ("sys.prefix = str(pathlib.Path(__file__).parent)", "pipx inject instar"),
    ],
    ids=["pip", "uv", "pipx"],
)
def test_a_model_whose_library_is_missing_is_one_line(machine, environment, command):
    """How to add it is said in the words of how instar was installed."""
    machine.write_home("pipx_metadata.json", "{}")
    made = f"import pathlib, sys\nsys.modules['pydantic_ai'] = None\n{environment}\n"
    machine.write_home("sitecustomize.py", made)
    machine.environment["PYTHONPATH"] = str(machine.home / ".config" / "instar")
    done = machine.instar("run", "-m", "google/gemini-3-pro-preview", "hi")
    assert done.returncode == 2
    assert f"{command} 'pydantic-ai-slim[" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "imported"),
    [('{"command": "true", "timeout": 5000, "workdir": null}', "False"), ('{"comand": "true"}', "True")],
)
def test_the_library_for_schemas_is_imported_for_a_mistake_in_a_call_of_bash_only(
    machine, arguments, imported
):
    machine.script(f"== turn\ntool: bash {arguments}\n== turn\ntext: done\n")
    code = (
        "import sys\nfrom instar.cli import main\n"
        "main(['run', '-m', 'scripted/test', 'hi'], lambda code: print('jsonschema' in sys.modules, file=sys.stderr))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert (done.stdout, done.stderr.splitlines()[-1]) == ("done\n", imported)
