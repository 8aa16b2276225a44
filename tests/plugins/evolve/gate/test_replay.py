"""Replay: recorded calls met by real scripts in real sandboxes, on a real repository."""

import itertools
import json
import os
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.waiting import SOON

from instar.plugins.evolve.gate import replay as stage
from instar.plugins.evolve.gate.record import HookCallRecord
from instar.plugins.evolve.gate.replay import (
    BAD,
    ReplayPlan,
    ReplayReport,
    RunOutcome,
    Verdict,
    judge,
    of_hook,
    of_prompt,
)
from instar.plugins.evolve.history.checkout import ReplayCheckouts
from instar.plugins.evolve.trial import NoTrial, TrialFile, Trials
from instar.process import Processes
from instar.sandbox.level import Level
from instar.sandbox.probe import find_level

LIVE = """
    #!/bin/sh
    case "$1" in
    idle) echo '{"continue": "go on"}';;
    tool_after) echo '{}';;
    execute_tool) echo '{"result": "done", "actions": [{"type": "note"}]}';;
    *) echo '{"error": "unknown hook: '"$1"'"}'; exit 1;;
    esac
    """
PYTHON = "#!/usr/bin/env python3\nimport json, os, sys, time, datetime\ngiven = json.load(sys.stdin)\n"


def file(text: str) -> TrialFile:
    return TrialFile(textwrap.dedent(text).lstrip().encode(), 0o755)


def record(hook: str = "idle", at: int = 1_700_000_000_000, **fields: Any) -> HookCallRecord:
    stdin = json.dumps({"hook": hook, **fields}).encode()
    commit = fields.pop("commit", None)
    return HookCallRecord(script="a", hook=hook, at=at, stdin=stdin, duration=5, commit=commit)


Replay = Callable[..., Awaitable[ReplayReport]]


@pytest.fixture
async def trials(processes: Processes) -> Trials:
    level = await find_level(processes, os.environ)
    return Trials(processes, level, os.environ, unsafe=True)


@pytest.fixture
def head(root: Path, kit: Any) -> str:
    """The workspace's only commit."""
    (root / "said.txt").write_text("committed")
    kit.git(root, "init", "-q")
    kit.git(root, "add", "-A")
    kit.git(root, "commit", "-q", "-m", "one")
    return str(kit.git(root, "rev-parse", "HEAD")).strip()


@pytest.fixture
def run(processes: Processes, trials: Trials, root: Path, tmp_path: Path, head: str) -> Replay:
    """Replay records with a live and a candidate script."""
    checkouts = ReplayCheckouts(processes, root, tmp_path / "cache")

    async def begin(live: str, candidate: str, records: list[HookCallRecord], **fields: Any) -> ReplayReport:
        mine = [with_commit(one, head) for one in records]
        sides = of_hook("a", file(live), file(candidate))
        plan = ReplayPlan(live=sides[0], candidate=sides[1], **{"timeout": 5.0, **fields})
        return await stage.replay(trials, checkouts, mine, plan)

    return begin


def with_commit(one: HookCallRecord, commit: str) -> HookCallRecord:
    return msgspec.structs.replace(one, commit=one.commit or commit)


@pytest.mark.slow
async def test_a_candidate_that_answers_as_before_passes(run: Replay) -> None:
    calls = [record("idle"), record("tool_after"), record("execute_tool"), record("compacting")]
    report = await run(LIVE, LIVE + "# another comment\n", calls)
    assert report.refusal is None
    assert report.count("same") == report.replayed == report.total == 4
    assert report.text().startswith("Replayed 4 of 4 recorded calls.")
    assert report.new.actions == frozenset()


async def test_without_records_it_passes_and_says_so(run: Replay) -> None:
    report = await run(LIVE, LIVE, [])
    assert report.refusal is None
    assert report.text() == "No call has been recorded yet, so there was nothing to replay."


@pytest.mark.slow
async def test_a_changed_answer_is_shown_and_refuses_only_when_strict(run: Replay) -> None:
    changed = LIVE.replace("go on", "stop\\\\nhere")
    calls = [record("idle", at) for at in range(7)] + [record("tool_after")]
    report = await run(LIVE, changed, calls)
    assert report.refusal is None
    text = report.text()
    assert "It would have changed 7 of 8 past answers:" in text
    assert text.count('- "continue": "go on"') == 5
    assert '+ "continue": "stop\\n\n+here"' in text
    assert "(2 more)" in text
    strict = await run(LIVE, changed, calls, strict=True)
    assert strict.refusal == 'it changes 7 of 8 past answers, and "evolve.replay" is "strict"'
    assert "Refused: it changes 7 of 8" in strict.text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "verdict", "said"),
    [
        ("echo oh no >&2; exit 3", "crash", "exit code 3; it printed:\noh no"),
        ("kill -9 $$", "crash", "signal 9"),
        ("echo 'not json'", "malformed", "line 1 of its output is not JSON"),
        ("echo '[]'", "malformed", "should be a JSON object, not a list"),
        ("echo '{}'; exit 1", "crash", "exit code 1"),
    ],
)
async def test_a_candidate_that_fails_where_the_live_one_answers_is_refused(
    run: Replay, body: str, verdict: Verdict, said: str
) -> None:
    bad = LIVE.replace('case "$1" in', f'case "$1" in\ntool_after) {body};;')
    report = await run(LIVE, bad, [record("idle"), record("tool_after")])
    assert report.count(verdict) == 1
    assert report.refusal is not None
    assert "a tool_after: " in report.refusal
    assert said in report.refusal
    assert "stopped at the first that fails" in report.text()


@pytest.mark.slow
async def test_a_candidate_that_hangs_is_refused_in_time(run: Replay) -> None:
    hanging = LIVE.replace('case "$1" in', 'case "$1" in\nidle) sleep 60;;')
    begun = time.monotonic()
    report = await run(LIVE, hanging, [record("idle", at) for at in range(20)], timeout=30.0, limit=6.0)
    assert time.monotonic() - begun < 2 * SOON
    assert report.refusal is not None
    assert (
        "it hangs on a recorded call that the live version answers: it took longer than 3.0 s"
        in report.refusal
    )


@pytest.mark.slow
async def test_a_hook_that_is_no_longer_answered_refuses(run: Replay) -> None:
    calls = [record("idle", at) for at in range(3)] + [record("execute_tool")]
    for quiet in ("echo '{}'", "true", """echo '{"error": "unknown hook: idle"}'; exit 1"""):
        report = await run(LIVE, LIVE.replace('case "$1" in', f'case "$1" in\nidle) {quiet};;'), calls)
        assert report.count("silent") == 3
        assert report.refusal == "a idle: the live version answers 3 recorded calls of it, the candidate none"


@pytest.mark.slow
async def test_a_hook_that_answers_less_often_is_a_change_and_no_refusal(run: Replay) -> None:
    less = PYTHON + "print(json.dumps({'continue': 'go on'} if given['n'] else {}))\n"
    more = PYTHON + "print(json.dumps({'continue': 'go on'}))\n"
    report = await run(more, less, [record("idle", n=0), record("idle", n=1)])
    assert (report.count("silent"), report.count("same"), report.refusal) == (1, 1, None)
    assert "It would have changed 1 of 2 past answers:" in report.text()


@pytest.mark.slow
async def test_what_the_live_version_fails_on_too_is_not_held_against_the_candidate(run: Replay) -> None:
    broken = LIVE.replace('case "$1" in', 'case "$1" in\nidle) exit 4;;')
    report = await run(broken, broken + "# still\n", [record("idle"), record("tool_after")])
    assert report.refusal is None
    assert report.count("both") == 1
    assert "1 recorded call left out: the live version fails in the replay too." in report.text()
    answered = msgspec.structs.replace(record("idle"), answer={"continue": "go on"})
    report = await run(broken, broken + "# still\n", [answered])
    assert "1 recorded call had an answer then, and the live version fails here" in report.text()
    mended = await run(broken, LIVE, [record("idle")])
    assert (mended.refusal, mended.count("mended")) == (None, 1)


NETWORK = "the network, which a replay does not have: ask for it in `sandbox`."
TOKEN = "the variable GH_TOKEN, which a replay does not have: ask for it in `sandbox`."
LACKING = [
    (PYTHON + "import urllib.request\nurllib.request.urlopen('http://example.com/')\n", NETWORK),
    (PYTHON + "import socket\nsocket.create_connection(('192.0.2.1', 80))\n", NETWORK),
    (PYTHON + "import socket\nsocket.create_connection(('127.0.0.1', 9))\n", NETWORK),
    ("#!/bin/sh\necho 'curl: (6) Could not resolve host: example.com' >&2; exit 1\n", NETWORK),
    (PYTHON + "os.environ['GH_TOKEN']\n", TOKEN),
    ("#!/bin/sh\nset -u\necho $GH_TOKEN\n", TOKEN),
    ("#!/bin/bash\necho ${GH_TOKEN:?}\n", TOKEN),
    (PYTHON + "open('FILE').read()\n", "FILE, which a replay does not see."),
    ("#!/bin/sh\ncat FILE || exit 1\n", "FILE, which a replay does not see."),
]


@pytest.mark.slow
@pytest.mark.parametrize("most", ["bubblewrap", "landlock"])
@pytest.mark.parametrize(("script", "need"), LACKING)
async def test_what_a_past_call_needed_that_a_sandbox_lacks_is_told(
    run: Replay, trials: Trials, tmp_path: Path, most: Any, script: str, need: str
) -> None:
    trials._level = await find_level(trials.processes, os.environ, most)
    secret = tmp_path / "secret.txt"
    secret.write_text("x")
    live = script.replace("FILE", str(secret))
    calls = [msgspec.structs.replace(record(at=at), answer={"continue": "x"}) for at in (1, 2)]
    report = await run(live, live + "# more\n", calls)
    assert (
        f"On 2 of 2 recorded calls the live version needs {need.replace('FILE', str(secret))}"
        in report.text()
    )
    assert "fails here" not in report.text()


@pytest.mark.slow
async def test_chance_is_not_called_a_change(run: Replay) -> None:
    chance = PYTHON + "print(json.dumps({'continue': os.urandom(8).hex()}))\n"
    report = await run(chance, chance + "# more\n", [record("idle", at) for at in range(3)], strict=True)
    assert report.count("noise") == 3
    assert report.refusal is None
    assert "3 recorded calls left out: the live version does not answer the same way twice." in report.text()


async def test_chance_does_not_hide_that_a_candidate_answers_nothing(run: Replay) -> None:
    chance = PYTHON + "print(json.dumps({'continue': os.urandom(8).hex()}))\n"
    report = await run(chance, PYTHON, [record("idle")])
    assert report.refusal is not None
    assert "the candidate none" in report.refusal


@pytest.mark.slow
async def test_a_run_sees_the_input_and_the_files_of_its_record(
    run: Replay, root: Path, kit: Any, head: str
) -> None:
    (root / "said.txt").write_text("later")
    kit.git(root, "commit", "-q", "-a", "-m", "two")
    (root / "said.txt").write_text("not committed")
    body = "print(json.dumps({'user': [given['n'], open('said.txt').read()]}))\n"
    records = [record(n=1, commit=head), record(n=2, commit=kit.git(root, "rev-parse", "HEAD").strip())]
    report = await run(PYTHON, PYTHON + body, records)
    answers = {tuple(one.candidate.answer["user"]) for one in report.judged}
    assert answers == {(1, "committed"), (2, "later")}


async def test_an_answer_with_the_time_in_it_is_left_out(run: Replay) -> None:
    clocked = PYTHON + "print(json.dumps({'continue': str(time.time_ns())}))\n"
    report = await run(clocked, clocked + "# more\n", [record()])
    assert (report.count("noise"), report.refusal) == (1, None)


@pytest.mark.slow
async def test_what_one_run_writes_no_other_sees(run: Replay, root: Path, kit: Any) -> None:
    before = kit.files(root)
    body = "n = len(os.listdir('.')); open('made', 'w').write('x'); print(json.dumps({'continue': str(n)}))\n"
    report = await run(PYTHON + body, PYTHON + body + "# more\n", [record(at=at) for at in range(4)])
    assert len({one.candidate.answer["continue"] for one in report.judged}) == 1
    assert kit.files(root) == before


async def test_a_hook_that_finds_nothing_to_answer_with_in_the_replay_is_said(
    run: Replay, root: Path
) -> None:
    (root / "state.txt").write_text("not committed")
    body = "print(json.dumps({'continue': 'x'} if os.path.exists('state.txt') else {}))\n"
    given = record()
    answered = HookCallRecord(
        script="a", hook="idle", at=1, stdin=given.stdin, duration=1, answer={"continue": "x"}
    )
    report = await run(PYTHON + body, PYTHON + body, [answered])
    assert "1 recorded call had an answer then, and none from the live version here" in report.text()


@pytest.mark.slow
async def test_what_a_candidate_prints_does_not_steer_a_terminal(run: Replay) -> None:
    steering = PYTHON + "print(json.dumps({'continue': 'a\\x9b2Jb\\u202ec'}))\n"
    assert "a\ufffd2Jb\ufffdc" in (await run(LIVE, steering, [record()])).text()
    crashing = PYTHON + "sys.exit('\\x1b[2J')\n"
    assert "\x1b" not in (await run(LIVE, crashing, [record()])).text()


@pytest.mark.slow
async def test_new_actions_are_named_for_the_stage_that_weighs_authority(run: Replay) -> None:
    sending = LIVE.replace('{"type": "note"}', '{"type": "note"}, {"type": "send"}, "create_session"')
    report = await run(LIVE, sending, [record("execute_tool")])
    assert report.new.actions == {"send", "create_session"}
    assert "Its answers hold actions that the live version's do not: create_session, send." in report.text()
    back = await run(sending, LIVE, [record("execute_tool")])
    assert back.new.actions == frozenset()


@pytest.mark.slow
async def test_when_the_time_is_over_the_newest_of_each_hook_were_replayed(run: Replay) -> None:
    slow = PYTHON + "time.sleep(0.3)\nprint(json.dumps({'continue': 'x'}))\n"
    calls = [record(hook, at) for hook in ("idle", "tool_after") for at in range(200)]
    begun = time.monotonic()
    report = await run(slow, slow, calls, limit=5.5)
    assert time.monotonic() - begun < 2 * SOON
    assert report.refusal is None
    assert 0 < report.replayed < 400
    assert (
        f"Replayed {report.replayed} of 400 recorded calls in 5.5 s, the newest of each hook."
        in report.text()
    )
    # Which of two that run side by side ends first is left to the machine.
    judged = {(one.record.hook, one.record.at) for one in report.judged}
    assert {("idle", 199), ("tool_after", 199)} <= judged
    assert min(at for _, at in judged) >= 200 - report.replayed


@pytest.mark.slow
async def test_a_lost_commit_is_said_once(run: Replay) -> None:
    report = await run(LIVE, LIVE, [record(commit="d" * 40), record(commit="d" * 40)])
    assert report.count("same") == 2
    assert report.text().count("could not be restored") == 1


@pytest.mark.slow
async def test_a_prompt_is_replayed_with_the_hooks_that_read_it(
    processes: Processes, trials: Trials, root: Path, tmp_path: Path, head: str
) -> None:
    body = (
        "text = given['prompts']['chat']\nprint(json.dumps({'system': [text]} if len(text) < 9 else 1/0))\n"
    )
    hooks = {"a": file(PYTHON + body)}
    given = record("mutate_request", prompts={"chat": "recorded", "preamble": "p"})
    checkouts = ReplayCheckouts(processes, root, tmp_path / "cache")

    async def tried(new: str) -> ReplayReport:
        live, candidate = of_prompt("chat", "old", new, hooks)
        plan = ReplayPlan(live=live, candidate=candidate, timeout=5.0)
        return await stage.replay(trials, checkouts, [with_commit(given, head)], plan)

    changed = await tried("new")
    assert changed.refusal is None
    assert '-  "old"' in changed.text()
    assert '+  "new"' in changed.text()
    crashing = await tried("much too long")
    assert crashing.refusal is not None
    assert "ZeroDivisionError" in crashing.refusal


async def test_records_of_other_scripts_are_not_replayed(run: Replay) -> None:
    other = HookCallRecord(script="b", hook="idle", at=1, stdin=b"{}", duration=1)
    report = await run(LIVE, LIVE, [other, record()])
    assert report.total == 1


async def test_where_nothing_can_be_tried_nothing_passes(
    processes: Processes, root: Path, tmp_path: Path, head: str
) -> None:
    none = Trials(processes, Level("none", missing="nothing", todo="much"), os.environ)
    sides = of_hook("a", file(LIVE), file(LIVE))
    plan = ReplayPlan(live=sides[0], candidate=sides[1], timeout=5.0)
    with pytest.raises(NoTrial, match="no sandbox"):
        await stage.replay(none, ReplayCheckouts(processes, root, tmp_path / "cache"), [record()], plan)


async def test_the_report_is_json_too(run: Replay) -> None:
    report = await run(LIVE, LIVE.replace("go on", "else"), [record()])
    plain = json.loads(json.dumps(report.plain()))
    assert plain["verdicts"]["changed"] == 1
    assert plain["changed"][0]["hook"] == "idle"
    assert plain["refusal"] is None


SAID = [
    RunOutcome("answer", {"continue": "x"}),
    RunOutcome("answer", {"continue": "y"}),
    RunOutcome("answer"),
    RunOutcome("unknown"),
    RunOutcome("crash"),
    RunOutcome("timeout"),
    RunOutcome("malformed"),
    RunOutcome("cut"),
]


@pytest.mark.parametrize(("live", "candidate"), list(itertools.product(SAID, SAID)))
def test_a_failure_counts_only_against_a_candidate_whose_live_version_has_none(
    live: RunOutcome, candidate: RunOutcome
) -> None:
    for again in SAID:
        verdict = judge(live, candidate, again)
        assert verdict in get_args(Verdict) or verdict in BAD
        alone = candidate.failed and not live.failed and live.kind != "cut"
        assert (verdict in BAD) is alone
        if live == candidate and not live.failed and live.kind != "cut":
            assert verdict == "same"
        if verdict == "changed":
            assert live.answer == again.answer != candidate.answer
        if verdict == "silent":
            assert live.answer
            assert again.answer
            assert not candidate.answer
