"""docs/reference/hooks.md's table of failures, walked by `instar hooks test` with real programs, a server and
scripted models.

`test_table.py` holds every event against the pure functions; here each failure really happens.
"""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.plugins.hooks.cli.conftest import Ruled
from tests.plugins.hooks.test_table import GATES, cases

FILES = {
    "instar": ".instar/hooks.json",
    "claude": ".claude/settings.json",
    "openhands": ".openhands/hooks.json",
}
PROGRAMS: dict[str, dict[str, Any]] = {
    "exit 1": {"command": "exit 1"},
    "signal": {"command": "kill -9 $$"},
    "time-out": {"command": "sleep 60", "timeout": 0.2},
    "no JSON": {"command": "echo all is well"},
    "wrong JSON": {"command": """echo '{"decision": 5}'"""},
    "missing program": {"command": "./gone.sh"},
    "exit 2": {"command": """echo '{"decision": "allow"}'; echo no >&2; exit 2"""},
}
ANSWERS = {"status-500": (500, b""), "no-JSON": (200, b"fine"), "wrong-JSON": (200, b'{"decision": 5}')}
SCRIPTS = {
    "time-out": "delay: 60s\ntext: late",
    "no JSON": "text: I would allow it.",
    "wrong JSON": 'text: {"decision": 5}',
    "no verdict": 'tool: list {"path": "."}',
}
SAYS = {
    "exit 1": "it exited with 1",
    "signal": "ended by signal 9",
    "time-out": r"longer than 0\.\d s|did not answer within 0\.3 s",
    "wrong JSON": "its decision is 5|said 5",
    "missing program": r"its program is missing or may not be run: .*gone\.sh: (not found|No such file)",
    "status 500": "status-500 answered 500",
    "no answer": "http://127.0.0.1:1/no-answer cannot be asked: ",
    "no JSON": "and answered 'I would allow it.'",
    "no model": "unknown provider 'nobody'",
    "no verdict": "it made 2 model calls, as many as it may",
}
"""Why a rule of that name could not decide."""
EVENTS = ["PreToolUse", "Stop"]


class Answers(BaseHTTPRequestHandler):
    """Says what the path names; to any other path nothing, as long as the test lasts."""

    over: threading.Event

    def do_POST(self) -> None:
        status, body = ANSWERS.get(self.path[1:], (0, b""))
        if not status:
            self.over.wait(20)
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        pass


@pytest.fixture
def address() -> Iterator[str]:
    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Answers,), {"over": over}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def rows(*evaluators: str) -> list[tuple[str, str, str, str, str]]:
    return [row for row in cases() if row[0] in evaluators]


def outcomes(machine: Ruled, event: str) -> dict[tuple[str, str, str], str]:
    """What each rule came to, by evaluator, dialect and name, in the words of the table."""
    arguments = ["--tool", "bash", "--input", '{"command": "ls"}'] if "Tool" in event else []
    machine.environment["INSTAR_TRUST"] = "all"
    done = machine.instar("hooks", "test", event, *arguments, "--json")
    assert done.returncode in (0, 1), done.stderr
    found = {}
    for one in json.loads(done.stdout)["rules"]:
        outcome = one["outcome"]
        word = outcome["action"]
        if outcome["undecided"]:
            assert re.search(SAYS[one["rule"]], outcome["error"]), "whoever reads of it is told why"
            word = f"undecided, {'deny' if word == 'deny' else 'allow'}"
        assert outcome["reason"] or word == "none" or word.endswith("allow"), one
        found[one["evaluator"], one["dialect"], one["rule"]] = word
    return found


@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS)
def test_programs_and_requests_that_fail_come_to_what_the_table_says(
    machine: Ruled, address: str, event: str
) -> None:
    wanted = rows("command", "http")
    for dialect, file in FILES.items():
        rules = [
            {"name": failure} | (PROGRAMS[failure] if evaluator == "command" else _request(address, failure))
            for evaluator, of, failure, *_ in wanted
            if of == dialect
        ]
        machine.rules({"hooks": {event: [{"hooks": rules}]}}, file)
    found = outcomes(machine, event)
    expected = {
        (evaluator, dialect, failure): at_gate if event in GATES else other
        for evaluator, dialect, failure, at_gate, other in wanted
    }
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "dialect"), [("PreToolUse", "instar"), ("UserPromptSubmit", "openhands"), ("Stop", "claude")]
)
def test_models_that_do_not_decide_come_to_what_the_table_says(
    machine: Ruled, event: str, dialect: str
) -> None:
    wanted = [row for row in rows("prompt", "agent") if row[1] == dialect]
    models = {}
    for failure, script in SCRIPTS.items():
        name = failure.replace(" ", "-")
        # Without turns: a call outside a turn has a section of its own.
        machine.write(f"{name}.txt", f"== generate\n{script}\n" + f"== turn\n{script}\n" * 5)
        models[name] = {"options": {"script": str(machine.project / f"{name}.txt")}}
    settings = {
        "provider": {"scripted": {"models": models}},
        "hook_settings": {"agent_pre_tool_use": True},
    }
    machine.write_home("instar.json", json.dumps(settings))
    rules = []
    for evaluator, _, failure, *_ in wanted:
        model = "nobody/none" if failure == "no model" else f"scripted/{failure.replace(' ', '-')}"
        one = {"type": evaluator, "prompt": "Decide.", "model": model, "name": failure}
        more = {"max_turns": 2} if evaluator == "agent" else {}
        rules.append(one | more | ({"timeout": 0.5} if failure == "time-out" else {}))
    machine.rules({"hooks": {event: [{"hooks": rules}]}}, FILES[dialect])
    found = outcomes(machine, event)
    assert found == {
        (evaluator, dialect, failure): at_gate if event in GATES else other
        for evaluator, _, failure, at_gate, other in wanted
    }


def _request(address: str, failure: str) -> dict[str, Any]:
    if failure == "no answer":
        address = "http://127.0.0.1:1"  # nobody listens there
    one = {"type": "http", "url": f"{address}/{failure.replace(' ', '-')}"}
    return one | ({"timeout": 0.3} if failure == "time-out" else {})
