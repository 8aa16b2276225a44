"""``instar run --attach``: a turn in a server, shown and answered here."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from tests.cli.conftest import Machine

from instar.api.session import PermissionBody
from instar.client import Client
from instar.event import PermissionAsked

TALK = '== turn\ntext: I look.\ntool: bash {"command": "echo from-there"}\n== turn\ntext: Done.\n'
ASK = json.dumps({"permission": {"bash": "ask"}, "model": "scripted/test"})


class There:
    """A server in a folder beside the project, and a client of its own."""

    def __init__(self, machine: Machine, folder: Path, *words: str) -> None:
        self.machine = machine
        folder.mkdir()
        (folder / "instar.json").write_text(ASK)
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "instar",
                "serve",
                "--port",
                "0",
                "--grace",
                "0",
                "--dir",
                str(folder),
                *words,
            ],
            env=machine.environment,
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]
        password = (machine.home / ".local/share/instar/server-password").read_text().strip()
        self.client = Client(self.url, password=password, directory=str(folder))
        self.folder = folder

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Attach a run to it."""
        return self.machine.instar("run", "--attach", self.url, "--dir", str(self.folder), *arguments)

    def close(self) -> None:
        """End it."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()


@pytest.fixture
def there(machine: Machine, tmp_path: Path) -> Iterator[Callable[..., There]]:
    """Start a server whose model says this script, with these words on its command line."""
    started: list[There] = []

    def start(script: str, *words: str) -> There:
        machine.script(script)
        started.append(There(machine, tmp_path / "there", *words))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.slow
def test_a_run_that_is_attached_prints_what_one_here_prints_and_leaves_the_session_there(there):
    server = there(TALK)
    done = server.run("--auto", "hello")
    assert (done.returncode, done.stdout) == (0, "I look.\nDone.\n")
    assert "bash echo from-there" in done.stderr
    (session,) = server.client.session.list()
    assert session.directory == str(server.folder)
    assert [message.info.role for message in server.client.session.messages(session.id)] == [
        "user",
        "assistant",
        "assistant",
    ]


@pytest.mark.slow
def test_without_a_terminal_a_call_that_is_asked_about_is_refused_and_the_run_says_so(there):
    done = there(TALK).run("hello")
    assert done.returncode == 0
    assert "! bash echo from-there" in done.stderr
    assert "rejected permission" in done.stderr


@pytest.mark.slow
def test_the_json_of_an_attached_run_has_opencodes_lines(there):
    server = there(TALK)
    # In a repository a step's beginning is published twice: its snapshot is taken when a tool is called.
    subprocess.run(["git", "init", "--quiet", str(server.folder)], check=True)
    done = server.run("--auto", "--format", "json", "hello")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == [
        *("step_start", "text", "tool_use", "step_finish"),
        *("step_start", "text", "step_finish"),
    ]
    assert {line["sessionID"] for line in lines} == {lines[0]["sessionID"]}


@pytest.mark.slow
def test_an_attached_run_goes_on_with_the_last_session_or_a_named_one(there):
    server = there("== turn\ntext: one\n== turn\ntext: two\n== turn\ntext: three\n")
    assert server.run("--title", "mine", "a").stdout == "one\n"
    assert server.run("--continue", "b").stdout == "two\n"
    (session,) = server.client.session.list()
    assert server.run("--session", session.id, "c").stdout == "three\n"
    assert session.title == "mine"
    assert len(server.client.session.messages(session.id)) == 6


@pytest.mark.slow
def test_a_command_of_the_servers_runs_by_flag_and_by_slash(there):
    server = there("== turn\ntext: one\n")
    folder = server.folder / ".opencode" / "command"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("Greet $ARGUMENTS warmly")
    assert server.run("--command", "greet", "Ada").stdout == "one\n"
    done = server.run("/greet Bob")
    assert (done.stdout, done.stderr) == ("one\n", "")
    prompts = [
        part.text
        for session in server.client.session.list()
        for message in server.client.session.messages(session.id)
        for part in message.parts
        if message.info.role == "user" and part.type == "text"
    ]
    assert sorted(prompts) == ["Greet Ada warmly", "Greet Bob warmly"]


@pytest.mark.slow
def test_the_person_at_the_terminal_answers_for_the_server(there, screen):
    server = there(TALK)
    shown = screen("run", "--attach", server.url, "--dir", str(server.folder), "hello")
    shown.wait_for("[o]nce")
    assert "echo from-there" in shown.text
    shown.type("o\n")
    shown.wait_for("Done.")
    assert shown.end() == 0


@pytest.mark.slow
def test_an_answer_at_another_client_takes_the_question_from_the_terminal(there, screen):
    server = there(TALK)
    shown = screen("run", "--attach", server.url, "--dir", str(server.folder), "hello")
    shown.wait_for("[o]nce")
    (asked,) = server.client.permission.list()
    assert isinstance(asked, PermissionAsked)
    server.client.permission.reply(asked.id, PermissionBody(reply="once"))
    shown.wait_for("Done.")
    assert shown.end() == 0


@pytest.mark.slow
def test_ctrl_c_ends_the_turn_in_the_server(there, screen):
    nap = f"sleep 600.{os.getpid()}"
    server = there(f'== turn\ntool: bash {{"command": "{nap}"}}\n')
    shown = screen("run", "--auto", "--attach", server.url, "--dir", str(server.folder), "hello")
    shown.wait_until(lambda: server.machine.runs(nap))
    os.kill(shown.pid, signal.SIGINT)
    assert shown.end() == 130
    assert not server.machine.runs(nap)
    assert server.client.session.status() == {}


@pytest.mark.slow
def test_a_server_that_goes_away_in_the_middle_is_one_clear_line(there, screen):
    nap = f"sleep 601.{os.getpid()}"
    server = there(f'== turn\ntool: bash {{"command": "{nap}"}}\n')
    shown = screen("run", "--auto", "--attach", server.url, "--dir", str(server.folder), "hello")
    shown.wait_until(lambda: server.machine.runs(nap))
    server.process.kill()
    assert shown.end() == 1
    assert "instar: " in shown.text
    assert "Traceback" not in shown.text


@pytest.mark.slow
def test_a_file_is_sent_along_to_a_server_elsewhere_unless_it_is_large(there):
    server = there("== turn\ntext: seen\n", "--hostname", "127.0.0.2")
    kept = server.machine.home / ".local/share/instar/server-password"
    server.machine.environment["INSTAR_SERVER_PASSWORD"] = kept.read_text().strip()
    (server.machine.project / "note.txt").write_text("buy milk")
    done = server.run("--file", "note.txt", "look")
    assert (done.returncode, done.stdout) == (0, "seen\n")
    (session,) = server.client.session.list()
    asked = server.client.session.messages(session.id)[0]
    carried = base64.b64encode(b"buy milk").decode()
    assert [part.url for part in asked.parts if part.type == "file"] == [f"data:text/plain;base64,{carried}"]
    with (server.machine.project / "large.txt").open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    refused = server.run("--file", "large.txt", "look")
    assert refused.returncode == 2
    assert "cannot be sent along" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--attach", "nonsense", "hi"], 2, "http://HOST:PORT"),
        (["--attach", "http://u:p@127.0.0.1:1", "hi"], 2, "no password in the address"),
        (["--attach", "http://127.0.0.1:9", "hi"], 1, "is `instar serve` running there?"),
        (["--attach", "unix:/no/such.sock", "hi"], 1, "no answer from /no/such.sock"),
        (["--attach", "http://127.0.0.1:9", "--worktree", "x", "hi"], 2, "leave it out beside --attach"),
        (["--attach", "http://127.0.0.1:9"], 2, "there is no message"),
    ],
)
def test_what_cannot_be_attached_is_one_line(machine, arguments, code, says):
    done = machine.instar("run", *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


class Heard(BaseHTTPRequestHandler):
    """Refuses everybody and remembers how they logged in."""

    logins: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        """Refuse."""
        self.logins.append(self.headers["Authorization"])
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """Refuse."""
        self.do_GET()

    def log_message(self, *given: object) -> None:
        """Print nothing."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "variables", "login"),
    [
        ("127.0.0.1", {}, "opencode:kept"),
        # Who listens at another machine's address is not told the password of this machine's server.
        ("127.0.0.2", {}, None),
        ("127.0.0.2", {"OPENCODE_SERVER_PASSWORD": "said"}, "opencode:said"),
        ("127.0.0.1", {"OPENCODE_SERVER_USERNAME": "ada", "INSTAR_SERVER_PASSWORD": "said"}, "ada:said"),
    ],
)
def test_a_password_goes_to_the_server_that_it_is_meant_for(machine, address, variables, login):
    kept = machine.home / ".local/share/instar/server-password"
    kept.parent.mkdir(parents=True)
    kept.write_text("kept\n")
    machine.environment.update(variables)
    Heard.logins.clear()
    with ThreadingHTTPServer((address, 0), Heard) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = machine.instar("run", "--attach", f"http://{address}:{server.server_port}", "hi")
        server.shutdown()
    assert done.returncode == 1
    expected = None if login is None else "Basic " + base64.b64encode(login.encode()).decode()
    assert set(Heard.logins) == {expected}


@pytest.mark.slow
def test_the_servers_refusals_are_one_line(there):
    server = there(TALK)
    for arguments, says in [
        (["--session", "ses_none", "hi"], "Session not found: ses_none"),
        (["--command", "nope", "hi"], "no command 'nope'"),
        (["--agent", "nobody", "hi"], "nobody"),
        (["--model", "none/such", "hi"], "none"),
    ]:
        done = server.run(*arguments)
        assert done.returncode == 1
        assert says in done.stderr
        assert done.stderr.count("\n") == 1
    server.machine.environment["INSTAR_SERVER_PASSWORD"] = "wrong"
    assert "wants a password" in server.run("hi").stderr
