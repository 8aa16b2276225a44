"""Command and http rules with real processes and real connections, down to the rows of hooks.md's table."""

import asyncio
import stat
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.plugins.hooks.making import event, rule
from tests.plugins.hooks.test_table import GATES, cases, words
from tests.running import lives
from tests.waiting import SOON, until

from instar.plugins.hooks.external import headers_of
from instar.plugins.hooks.outcome import RuleOutcome, settle
from instar.plugins.hooks.rule import EVENTS, HookEvent, HookRule, HttpRule
from instar.plugins.hooks.runner import EvaluationContext, evaluate
from instar.plugins.hooks.sources import ActiveRules
from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths

EVERY = sorted(EVENTS)
COMMANDS = {
    "exit 1": "exit 1",
    "signal": "kill -9 $$",
    "time-out": "sleep 60",
    "no JSON": "echo all is well",
    "wrong JSON": """echo '{"decision": 5}'""",
    "missing program": "./nowhere",
    "exit 2": "echo no >&2; exit 2",
}
ANSWERS = {
    "status 500": b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n",
    "no JSON": b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine",
    "wrong JSON": b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"decision": 5}',
    "time-out": b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n",
    "no answer": b"",
}


@pytest.fixture
async def means(tmp_path: Path, clean_environment: Mapping[str, str]) -> AsyncIterator[EvaluationContext]:
    processes = Processes()
    paths = Paths.from_environment(clean_environment)
    children = Children(processes, paths, clean_environment, at_most="none")
    yield EvaluationContext(children, ActiveRules(tmp_path, tmp_path, paths.home, clean_environment))
    await children.close()
    await processes.close()


@pytest.fixture
async def listening() -> AsyncIterator[Any]:
    """A server that answers with one text, and keeps what it was sent."""
    found = Listening()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    yield found
    found.over.set()
    server.close()
    await server.wait_closed()


class Listening:
    def __init__(self) -> None:
        self.url = ""
        self.answer = b""
        self.asked: list[bytes] = []
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.lower().splitlines() if line.startswith(b"content-length:")
        )
        self.asked.append(head + await reader.readexactly(length))
        writer.write(self.answer)
        await writer.drain()
        if self.answer.endswith(b"4\r\n\r\n"):
            await self.over.wait()
        writer.close()


def happened(name: str, folder: Path) -> HookEvent:
    tool = "bash" if EVENTS[name].tool else None
    return event(name, tool, directory=str(folder), **({"input": {"command": "ls"}} if tool else {}))


async def outcome_of(one: HookRule, means: EvaluationContext, name: str = "PreToolUse") -> RuleOutcome:
    found = await evaluate(one, happened(name, means.armed.project), means)
    return settle(found, one)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PreToolUse", "Evolve", "PostToolUse", "Stop"])
@pytest.mark.parametrize(
    ("dialect", "failure", "at_gate", "other"), [row[1:] for row in cases() if row[0] == "command"]
)
async def test_a_program_that_fails_comes_to_what_the_table_says(
    means: EvaluationContext, name: str, dialect: str, failure: str, at_gate: str, other: str
) -> None:
    more = {"timeout": 0.1} if failure == "time-out" else {}
    one = rule(name, dialect, command=COMMANDS[failure], **more)
    outcome = await outcome_of(one, means, name)
    assert words(outcome) == (at_gate if name in GATES else other)
    assert outcome.error or not outcome.undecided


@pytest.mark.slow
@pytest.mark.parametrize("name", ["UserPromptSubmit", "Notification"])
@pytest.mark.parametrize(
    ("dialect", "failure", "at_gate", "other"), [row[1:] for row in cases() if row[0] == "http"]
)
async def test_a_request_that_fails_comes_to_what_the_table_says(
    means: EvaluationContext,
    listening: Listening,
    name: str,
    dialect: str,
    failure: str,
    at_gate: str,
    other: str,
) -> None:
    listening.answer = ANSWERS[failure]
    more = {"timeout": 0.2} if failure == "time-out" else {}
    one = rule(name, dialect, "http", url=listening.url, **more)
    outcome = await outcome_of(one, means, name)
    assert words(outcome) == (at_gate if name in GATES else other)


async def test_an_answer_of_a_request_decides_and_its_headers_name_what_they_may(
    means: EvaluationContext, listening: Listening
) -> None:
    body = b'{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}'
    listening.answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    one = rule(
        "PreToolUse", "claude", "http", url=listening.url, headers={"X-Own": "$OWN"}, allowedEnvVars=["OWN"]
    )
    armed = msgspec.structs.replace(means.armed, environment={"OWN": "mine"})
    given = EvaluationContext(means.children, armed)
    outcome = await outcome_of(one, given)
    assert (outcome.action, outcome.reason, outcome.trace.code) == ("deny", "no", 200)
    (asked,) = listening.asked
    assert b"x-own: mine" in asked.lower()
    assert b'"tool_name": "Bash"' in asked


def test_a_header_gets_no_variable_that_the_rule_does_not_name() -> None:
    one = HttpRule("http://x", {"a": "Bearer $TOKEN", "b": "${OWN}/x"}, ("OWN",))
    assert headers_of(one, {"TOKEN": "secret", "OWN": "mine"}) == {"a": "Bearer ", "b": "mine/x"}


async def test_a_redirect_is_not_followed(means: EvaluationContext, listening: Listening) -> None:
    listening.answer = (
        b"HTTP/1.1 302 Found\r\nlocation: " + listening.url.encode() + b"\r\ncontent-length: 0\r\n\r\n"
    )
    outcome = await outcome_of(rule("PreToolUse", "instar", "http", url=listening.url), means)
    assert (outcome.action, len(listening.asked)) == ("deny", 1)
    assert "answered 302" in outcome.reason


@pytest.mark.slow
async def test_the_time_is_wall_clock_and_takes_the_whole_group(means: EvaluationContext) -> None:
    one = rule(command="(sleep 60 & echo $! > child; wait) & wait", timeout=3)
    started = time.monotonic()
    outcome = await outcome_of(one, means)
    assert time.monotonic() - started < SOON
    assert "longer than 3 s" in outcome.error
    pid = int((means.armed.project / "child").read_text())
    await until(lambda: not lives(pid))


async def test_cancelling_the_caller_ends_the_program(means: EvaluationContext) -> None:
    task = asyncio.create_task(outcome_of(rule(command="echo $$ > pid; sleep 60"), means))
    while not (means.armed.project / "pid").exists() or not (means.armed.project / "pid").read_text():
        await asyncio.sleep(0.005)
    pid = int((means.armed.project / "pid").read_text())
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < SOON
    await until(lambda: not lives(pid))


async def test_a_background_child_that_holds_the_output_holds_nobody_up(means: EvaluationContext) -> None:
    started = time.monotonic()
    outcome = await outcome_of(rule(command="sleep 60 & echo no >&2; exit 2"), means)
    assert (outcome.action, outcome.reason) == ("deny", "no")
    assert time.monotonic() - started < SOON


async def test_arguments_are_given_without_a_shell(means: EvaluationContext) -> None:
    one = rule(command="/bin/echo", args=["$(touch made)", "${CLAUDE_PROJECT_DIR}/x", "${HOME}"])
    outcome = await outcome_of(one, means)
    assert outcome.trace.output == f"$(touch made) {means.armed.project}/x ${{HOME}}"
    assert not (means.armed.project / "made").exists()


@pytest.mark.parametrize("kind", ["nowhere", "no run bit", "no interpreter"])
@pytest.mark.parametrize("with_args", [True, False])
async def test_a_program_that_cannot_be_run_is_one_clear_sentence(
    means: EvaluationContext, kind: str, with_args: bool
) -> None:
    script = means.armed.project / "check.sh"
    if kind != "nowhere":
        script.write_text("#!/no/such/interpreter\n" if kind == "no interpreter" else "#!/bin/sh\n")
        script.chmod(stat.S_IRUSR | (stat.S_IXUSR if kind == "no interpreter" else 0))
    outcome = await outcome_of(rule(command=str(script), **({"args": []} if with_args else {})), means)
    assert outcome.action == "deny"
    assert "check.sh" in outcome.reason
    assert "hooks.json" in outcome.reason, "where the rule stands"


async def test_bytes_that_are_no_text_megabytes_and_a_list_change_no_decision_of_the_exit_code(
    means: EvaluationContext,
) -> None:
    for output in (r"printf '\377\376'", "head -c 5000000 /dev/zero", 'echo \'[{"decision": "allow"}]\''):
        outcome = await outcome_of(rule(command=f"{output}; echo no >&2; exit 2"), means)
        assert (outcome.action, outcome.reason) == ("deny", "no"), output


async def test_an_answer_that_is_longer_than_can_be_read_may_have_refused(means: EvaluationContext) -> None:
    # Characters of two bytes: fewer characters than bytes are read.
    command = (
        """awk 'BEGIN { for (i = 0; i < 400000; i++) printf "éé" }'; echo; echo '{"decision": "deny"}'"""
    )
    outcome = await outcome_of(rule(command=command), means)
    assert (outcome.action, outcome.undecided) == ("deny", True)


async def test_a_program_that_never_reads_its_stdin_decides(means: EvaluationContext) -> None:
    one = rule(command="exit 2")
    big = event("PreToolUse", "write", directory=str(means.armed.project), input={"content": "x" * 5_000_000})
    assert (await evaluate(one, big, means)).action == "deny"


async def test_a_patch_is_put_to_a_foreign_rule_file_by_file_and_the_most_severe_counts(
    means: EvaluationContext,
) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+a\n*** Update File: b.env\n@@\n-a\n+b\n*** End Patch"
    one = rule(
        "PreToolUse", "claude", command="grep -q 'b.env\"' && { echo no secrets >&2; exit 2; }; exit 0"
    )
    use = event("PreToolUse", "apply_patch", directory=str(means.armed.project), input={"patchText": patch})
    assert (await evaluate(one, use, means)).reason == "no secrets"


async def test_commands_of_claude_codes_files_are_written_for_bash(means: EvaluationContext) -> None:
    outcome = await outcome_of(rule("PreToolUse", "claude", command='[[ -n "$BASH" ]] && exit 2'), means)
    assert outcome.action == "deny"


async def test_a_rule_whose_evaluator_needs_a_session_is_undecided_without_one(
    means: EvaluationContext,
) -> None:
    outcome = await outcome_of(rule("PreToolUse", evaluator="prompt"), means)
    assert (outcome.action, outcome.undecided) == ("deny", True)
