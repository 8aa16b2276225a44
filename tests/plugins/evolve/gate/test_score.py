"""Evals: real programs in real sandboxed copies, with the live file and with the candidate."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugin import process, sandbox
from instar.plugins.evolve.gate.score import MAX_RUNS, Contest, Failed, ScoreReport, find, margin, read, score
from instar.plugins.evolve.trial import TrialFile, Trials

FILE = "hooks/x.sh"


class Evals:
    """A workspace whose script prints what the evals pass on, and a way to try a candidate there."""

    def __init__(self, root: Path, trials: Trials) -> None:
        self.root, self.trials = root, trials
        for folder in ("hooks", "evals", "state"):
            (root / folder).mkdir(parents=True)
        self.write(FILE, "#!/bin/sh\necho 1\n")

    def write(self, path: str, text: str, mode: int = 0o755) -> None:
        (self.root / path).write_text(text)
        (self.root / path).chmod(mode)

    async def compare(
        self, candidate: str, *, timeout: float = 20, seconds: float = 60, file: str = FILE
    ) -> ScoreReport:
        changes = {file: TrialFile(f"#!/bin/sh\n{candidate}\n".encode(), 0o755)}
        contest = Contest(self.root, FILE, changes, {}, find(self.root))
        return await score(self.trials, contest, timeout=timeout, seconds=seconds)


@pytest.fixture
async def processes() -> AsyncIterator[process.Processes]:
    made = process.Processes()
    yield made
    await made.close()


@pytest.fixture
def evals(tmp_path: Path, processes: process.Processes) -> Evals:
    """Where nothing is confined: what evals mean is the same at each level, and this is the quickest."""
    return Evals(tmp_path / "ws", Trials(processes, sandbox.Level("none"), os.environ, unsafe=True))


PASS_ON = "#!/bin/sh\nexec hooks/x.sh\n"


@pytest.mark.parametrize(
    ("live", "candidate", "refused"),
    [
        ("1", "1", None),
        ("1", "2", None),
        ("1", "0.999", "worse by 0.001, and no more than 0 is allowed"),
        ('{"score": 1, "tolerance": 0.02}', "0.98", None),
        ('{"score": 1, "tolerance": 0.02}', "0.97", "worse by 0.03, and no more than 0.02 is allowed"),
        ('{"score": 1, "better": "lower"}', "0.5", None),
        ('{"score": 1, "better": "lower", "cases": 9}', "1.5", "worse by 0.5"),
        ("1", '{"score": 0.5, "tolerance": 9}', "worse by 0.5, and no more than 0 is allowed"),
        ("1", '{"score": 0.5, "better": "lower"}', "worse by 0.5"),
        ("-3", "-3.5", "worse by 0.5"),
        ('{"score": 0.83, "tolerance": 0.02}', "0.81", None),
    ],
)
async def test_a_candidate_may_be_no_worse_than_live_by_more_than_live_says(
    evals: Evals, live: str, candidate: str, refused: str | None
) -> None:
    evals.write("evals/quality", PASS_ON)
    evals.write(FILE, f"#!/bin/sh\necho '{live}'\n")
    report = await evals.compare(f"echo 'working'; echo '{candidate}'; echo")
    if refused is None:
        assert report.refusal is None, report.text()
    else:
        assert refused in str(report.refusal)
        assert "evals/quality" in str(report.refusal)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        ("echo broken >&2; exit 3", "with the candidate it ended with exit code 3; it printed:\nbroken"),
        ("kill -9 $$", "it died by signal 9"),
        ("echo well", "its last line is neither a number nor a score's object; it printed:\nwell"),
        ("echo NaN", "neither a number"),
        ("echo 1e999", "neither a number"),
        ("echo true", "neither a number"),
        ("echo '{\"result\": 1}'", "neither a number"),
        ('echo \'{"score": 1, "tolerance": -1}\'', "its tolerance must be 0 or more"),
        ('echo \'{"score": 1, "runs": 1000}\'', f"its runs 1 to {MAX_RUNS}"),
        (":", "it printed no score"),
        ("sleep 60", "it took longer than 3 s"),
        ("head -c 2000000 /dev/zero; echo; echo 1", "it printed more than"),
    ],
)
async def test_an_eval_that_gives_no_score_refuses_the_candidate_and_says_what_it_printed(
    evals: Evals, candidate: str, said: str
) -> None:
    evals.write("evals/quality", PASS_ON)
    report = await evals.compare(candidate, timeout=3 if candidate == "sleep 60" else 20)
    assert said in str(report.refusal)
    assert "with the live file" not in str(report.refusal)


async def test_an_eval_that_fails_with_the_live_file_is_named_and_does_not_count(evals: Evals) -> None:
    evals.write("evals/a", "#!/bin/sh\nexit 7\n")
    evals.write("evals/b", "#!/no/such/program\n")
    evals.write("evals/c", PASS_ON)
    report = await evals.compare("echo 2")
    assert report.refusal is None
    first, second, third = report.lines
    assert first.ignored == "with the live file it ended with exit code 7"
    assert "with the live file it could not be started" in str(second.ignored)
    assert (third.live, third.candidate) == ((1.0,), (2.0,))


NOISY = """#!/bin/sh
# Its score comes from the script; how often it is run and how much worse one may be, from here.
echo "{\\"score\\": $(hooks/x.sh), \\"tolerance\\": 0.1, \\"runs\\": 4}"
"""


async def test_an_eval_where_chance_plays_a_part_is_run_as_often_as_it_says_and_medians_are_compared(
    evals: Evals,
) -> None:
    evals.write("evals/noisy", NOISY)
    report = await evals.compare("echo 0.95")
    assert report.refusal is None
    assert report.text() == ("evals/noisy: live 1, candidate 0.95 (higher is better, medians of 4 runs)")
    [line] = report.lines
    assert (len(line.live), len(line.candidate), line.margin) == (4, 4, 0.1)
    assert "worse by 0.15" in str((await evals.compare("echo 0.85")).refusal)


async def test_a_candidate_does_not_earn_a_wider_margin_by_scoring_at_random(
    evals: Evals, tmp_path: Path
) -> None:
    evals.write("evals/noisy", NOISY)
    turn = tmp_path / "turn"
    candidate = (
        f"n=$(cat {turn} 2>/dev/null || echo 0); echo $((n + 1)) > {turn}; echo $((n % 2 * 1000 - 999))"
    )
    report = await evals.compare(candidate)
    assert sorted(set(report.lines[0].candidate)) == [-999.0, 1.0]
    assert "no more than 0.1 is allowed" in str(report.refusal)


async def test_live_and_candidate_take_turns_in_pairs(evals: Evals, tmp_path: Path) -> None:
    order = tmp_path / "order"
    evals.write("evals/noisy", NOISY)
    evals.write(FILE, f"#!/bin/sh\necho live >> {order}; echo 1\n")
    await evals.compare(f"echo candidate >> {order}; echo 1")
    a, b = "live", "candidate"
    assert order.read_text().split() == [a, b, b, a, a, b, b, a]


async def test_what_a_run_leaves_in_its_copy_reaches_neither_the_next_run_nor_the_workspace(
    evals: Evals,
) -> None:
    evals.write("evals/a", PASS_ON)
    evals.write("evals/b", "#!/bin/sh\n[ -e state/left ] && echo 9 || echo 1\n")
    spoil = "touch state/left; printf '#!/bin/sh\\necho 9\\n' > evals/c; chmod +x evals/c; echo 1"
    report = await evals.compare(spoil)
    assert [line.candidate for line in report.lines] == [(1.0,), (1.0,)]
    assert sorted(path.name for path in (evals.root / "state").iterdir()) == []


@pytest.mark.parametrize("spoil", ["echo exit 0 > evals/a", "echo x >> hooks/x.sh", "rm evals/a"])
async def test_a_score_counts_for_nothing_if_code_was_changed_while_the_eval_ran(
    evals: Evals, spoil: str
) -> None:
    evals.write("evals/a", PASS_ON)
    report = await evals.compare(f"{spoil}; echo 5")
    assert report.refusal is not None
    assert "was changed while it ran" in report.refusal


async def test_the_first_eval_that_refuses_is_the_last_one_that_is_run(evals: Evals, tmp_path: Path) -> None:
    evals.write("evals/a", PASS_ON)
    evals.write("evals/b", f"#!/bin/sh\ntouch {tmp_path}/ran; echo 1\n")
    report = await evals.compare("echo 0")
    assert len(report.lines) == 1
    assert not (tmp_path / "ran").exists()


async def test_an_eval_is_told_which_file_is_to_be_changed(evals: Evals, tmp_path: Path) -> None:
    evals.write("evals/told", f"#!/bin/sh\ncat > {tmp_path}/told; pwd > {tmp_path}/where; echo 1\n")
    assert (await evals.compare("echo 1")).refusal is None
    assert (tmp_path / "told").read_text() == '{"file":"hooks/x.sh"}'
    assert (tmp_path / "where").read_text().strip() != str(evals.root)


async def test_evals_that_do_not_finish_in_the_time_for_all_of_them_refuse(evals: Evals) -> None:
    evals.write("evals/slow", "#!/bin/sh\nsleep 60; echo 1\n")
    report = await evals.compare("echo 1", seconds=0.5)
    assert "did not finish within 0.5 s" in str(report.refusal)
    assert report.seconds < 10
    assert "did not finish within 0.01 s" in str((await evals.compare("echo 1", seconds=0.01)).refusal)


async def test_a_candidate_may_not_change_an_eval(evals: Evals) -> None:
    evals.write("evals/quality", PASS_ON)
    for path in ("evals/quality", "./evals/new", "hooks/../evals/x", "EVALS/quality"):
        assert "evals are a person's" in str((await evals.compare("echo 9", file=path)).refusal)


async def test_executable_files_of_evals_are_evals_and_nothing_else_is(evals: Evals) -> None:
    assert (await evals.compare("echo 1")).text() == "no evals"
    evals.write("evals/b.py", PASS_ON)
    evals.write("evals/a.sh", PASS_ON)
    evals.write("evals/cases.json", "[]", 0o644)
    evals.write("evals/.hidden", PASS_ON)
    evals.write("evals/__init__.py", PASS_ON)
    (evals.root / "evals" / "folder").mkdir()
    (evals.root / "evals" / "link").symlink_to("b.py")
    assert find(evals.root) == ["a.sh", "b.py"]
    assert find(evals.root / "hooks") == []


async def test_without_a_sandbox_no_eval_is_run_and_the_candidate_is_refused(
    evals: Evals, processes: process.Processes
) -> None:
    evals.write("evals/quality", PASS_ON)
    evals.trials = Trials(
        processes, sandbox.Level("none", missing="Landlock", todo="a newer kernel"), os.environ
    )
    assert "there is no sandbox on this machine (Landlock)" in str((await evals.compare("echo 9")).refusal)


async def test_in_a_sandbox_an_eval_reaches_nothing_outside_its_copy(
    evals: Evals, processes: process.Processes, tmp_path: Path
) -> None:
    level = await sandbox.find_level(processes, os.environ)
    evals.trials = Trials(processes, level, os.environ, unsafe=level.name == "none")
    evals.write("evals/quality", PASS_ON)
    outside = tmp_path / "outside"
    report = await evals.compare(f"(echo > {outside}) 2>/dev/null; echo 3")
    assert report.text() == "evals/quality: live 1, candidate 3 (higher is better)"
    assert outside.exists() == (level.name == "none")
    assert "exit code 4" in str((await evals.compare("exit 4")).refusal)


@pytest.mark.parametrize(
    ("live", "tolerance", "allowed"),
    [
        ([5.0], 0.1, 0.1),
        ([5.0, 5.0, 5.0], 0.1, 0.1),
        ([0.0, 2.0], 0.0, 3.5449),
        ([0.0, 2.0], 0.1, 3.6449),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.0, 2.5066),
    ],
)
def test_two_standard_errors_of_the_difference_of_medians_are_chance(
    live: list[float], tolerance: float, allowed: float
) -> None:
    assert margin(live, tolerance) == pytest.approx(allowed, abs=1e-3)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=MAX_RUNS), st.floats(0, 100), st.floats(-1e6, 1e6))
def test_the_margin_is_the_tolerance_and_grows_with_the_spread_of_live_alone(
    live: list[float], tolerance: float, shift: float
) -> None:
    assert margin(live, tolerance) >= tolerance
    assert margin([one + shift for one in live], tolerance) == pytest.approx(
        margin(live, tolerance), abs=1e-6, rel=1e-6
    )
    assert margin([one * 2 for one in live], 0) == pytest.approx(2 * margin(live, 0))
    assert margin([live[0]] * len(live), tolerance) == pytest.approx(tolerance, abs=1e-6)


@given(
    st.binary(max_size=200)
    | st.text(alphabet='0123456789.eE+-{}[]":,scoretlan NaIfy', max_size=60).map(str.encode)
)
def test_whatever_an_eval_prints_is_a_finite_score_or_a_failure(printed: bytes) -> None:
    output = process.Output(0, None, printed, b"", False, False, 0.1)
    try:
        said = read(output, 1)
    except Failed:
        return
    assert abs(said.score) < float("inf")
    assert 0 <= said.tolerance < float("inf")


def test_deep_and_long_output_is_a_failure_and_no_traceback() -> None:
    for line in (b"[" * 500_000, b"9" * 500_000, b'{"score":' * 100_000):
        with pytest.raises(Failed):
            read(process.Output(0, None, line, b"", False, False, 0.1), 1)
