"""Evals: real programs in real sandboxed copies, with the reference and with the candidate."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugin import process, sandbox
from instar.plugins.evolve.gate.paired import risk_of
from instar.plugins.evolve.gate.score import (
    MAX_RUNS,
    Contest,
    Failed,
    ProgramEval,
    ScoreLimits,
    ScoreReport,
    find,
    read,
    score,
)
from instar.plugins.evolve.trial import Changes, TrialFile, Trials

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
        self,
        candidate: str,
        *,
        timeout: float = 20,
        limits: ScoreLimits | None = None,
        reference: Changes | None = None,
    ) -> ScoreReport:
        changes = {FILE: TrialFile(f"#!/bin/sh\n{candidate}\n".encode(), 0o755)}
        names = find(self.root)
        evals = [ProgramEval(name, self.trials, self.root, FILE, timeout) for name in names]
        against = dict.fromkeys(names, reference or {})
        contest = Contest(changes, against, evals, risk_of(1), 1_000_000)
        return await score(contest, limits or ScoreLimits())


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
async def test_a_candidate_may_be_worse_than_the_reference_by_what_its_run_says_and_no_more(
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
        ("echo '{\"result\": 1}'", "its object must hold either score or scores"),
        ('echo \'{"score": 1, "scores": [1]}\'', "must hold either score or scores"),
        ('echo \'{"score": 1, "range": [2, 2]}\'', "the range not empty"),
        ('echo \'{"score": 1, "tolerance": -1}\'', "its tolerance must be 0 or more"),
        ('echo \'{"score": 1, "runs": 5000}\'', f"its runs 1 to {MAX_RUNS}"),
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
    assert "with the reference" not in str(report.refusal)


async def test_an_eval_that_fails_with_the_reference_is_named_and_does_not_count(evals: Evals) -> None:
    evals.write("evals/a", "#!/bin/sh\nexit 7\n")
    evals.write("evals/b", "#!/no/such/program\n")
    evals.write("evals/c", PASS_ON)
    report = await evals.compare("echo 2")
    assert report.refusal is None
    first, second, third = report.lines
    assert first.ignored == "with the reference it ended with exit code 7"
    assert "with the reference it could not be started" in str(second.ignored)
    assert (third.reference, third.candidate, third.verdict) == (1.0, 2.0, "better")


def noisy(statement: str) -> str:
    """An eval whose scores are the script's number and some chance that each seed fixes, whoever is measured."""
    return f"""#!/usr/bin/env python3
import json, random, subprocess, sys
given = json.load(sys.stdin)
level = float(subprocess.run(["hooks/x.sh"], capture_output=True, text=True).stdout)
scores = [level + random.Random(seed).uniform(-0.1, 0.1) for seed in given["seeds"]]
print(json.dumps({{"scores": scores, {statement}}}))
"""


async def test_where_chance_plays_a_part_pairs_are_taken_until_they_decide(evals: Evals) -> None:
    evals.write("evals/noisy", noisy('"tolerance": 0.1'))
    evals.write(FILE, "#!/bin/sh\necho 0.5\n")
    for candidate, verdict in (("0.8", "better"), ("0.5", "no worse"), ("0.2", "worse")):
        [line] = (await evals.compare(f"echo {candidate}")).lines
        assert (line.verdict, line.margin) == (verdict, 0.1), line.text()
        assert line.pairs < 200
        assert line.candidate - line.reference == pytest.approx(float(candidate) - 0.5)
    report = await evals.compare("echo 0.2")
    assert "worse than the reference by more than 0.1" in str(report.refusal)


async def test_what_the_pairs_do_not_decide_is_for_a_person(evals: Evals) -> None:
    evals.write("evals/noisy", noisy('"runs": 16'))
    evals.write(FILE, "#!/bin/sh\necho 0.5\n")
    report = await evals.compare("echo 0.5")
    assert (report.refusal, report.undecided) == (None, ["noisy"])
    assert "not shown to be no worse by more than 0.02: 16 pairs are all that may be taken" in report.text()
    evals.write("evals/noisy", noisy('"tokens": 10'))
    report = await evals.compare("echo 0.5", limits=ScoreLimits(tokens=30))
    assert "the evals used up their 30 tokens" in report.text()
    assert report.lines[0].pairs == 16


async def test_reference_and_candidate_get_the_same_fresh_seeds_and_take_turns(
    evals: Evals, tmp_path: Path
) -> None:
    order = tmp_path / "order"
    evals.write(
        "evals/noisy",
        f'#!/bin/sh\nread given; echo "$(hooks/x.sh) $given" >> {order}; echo \'{{"score": 0.5, "runs": 4}}\'\n',
    )
    evals.write(FILE, "#!/bin/sh\necho reference\n")
    await evals.compare("echo candidate")
    lines = [line.split(" ", 1) for line in order.read_text().splitlines()]
    a, b = "reference", "candidate"
    assert [name for name, _ in lines] == [a, b, a, b, b, a, a, b]
    given = [json.loads(one) for _, one in lines]
    assert given[0] == given[1] == {"file": FILE, "seeds": list(range(1_000_000, 1_000_008))}
    assert [one["seeds"] for one in given[2:]] == [
        [1_000_001],
        [1_000_001],
        [1_000_002],
        [1_000_002],
        [1_000_003],
        [1_000_003],
    ]


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        ("echo 1.4", "with the candidate its score"),
        ("echo -0.5", "is not in the range, which is 0 to 1"),
        ("exit 1", "with the candidate it ended with exit code 1"),
    ],
)
async def test_a_score_out_of_the_range_refuses_where_chance_plays_a_part(
    evals: Evals, candidate: str, said: str
) -> None:
    evals.write("evals/noisy", noisy('"better": "higher"'))
    evals.write(FILE, "#!/bin/sh\necho 0.5\n")
    assert said in str((await evals.compare(candidate)).refusal)


async def test_as_many_scores_as_seeds_are_wanted(evals: Evals) -> None:
    evals.write("evals/quality", PASS_ON)
    evals.write(FILE, """#!/bin/sh\necho '{"scores": [1, 1]}'\n""")
    assert (await evals.compare("echo 1")).lines[
        0
    ].ignored == "with the reference it printed 2 scores for 8 seeds"


async def test_the_reference_need_not_be_what_is_live(evals: Evals) -> None:
    evals.write("evals/quality", PASS_ON)
    evals.write(FILE, "#!/bin/sh\necho 1\n")
    better = {FILE: TrialFile(b"#!/bin/sh\necho 3\n", 0o755)}
    assert "worse by 1" in str((await evals.compare("echo 2", reference=better)).refusal)


async def test_what_a_run_leaves_in_its_copy_reaches_neither_the_next_run_nor_the_workspace(
    evals: Evals,
) -> None:
    evals.write("evals/a", PASS_ON)
    evals.write("evals/b", "#!/bin/sh\n[ -e state/left ] && echo 9 || echo 1\n")
    spoil = "touch state/left; printf '#!/bin/sh\\necho 9\\n' > hooks/c; chmod +x hooks/c; echo 1"
    report = await evals.compare(spoil)
    assert [line.candidate for line in report.lines] == [1.0, 1.0]
    assert sorted(path.name for path in (evals.root / "state").iterdir()) == []


@pytest.mark.parametrize(
    "spoil", ["echo exit 0 > evals/a", "echo x >> hooks/x.sh", "rm evals/a", "echo x > evals/json.py"]
)
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
    assert (tmp_path / "told").read_text().startswith('{"file":"hooks/x.sh","seeds":[')
    assert (tmp_path / "where").read_text().strip() != str(evals.root)


async def test_evals_that_do_not_finish_in_the_time_for_all_of_them_refuse(evals: Evals) -> None:
    evals.write("evals/slow", "#!/bin/sh\nsleep 60; echo 1\n")
    report = await evals.compare("echo 1", limits=ScoreLimits(seconds=0.5))
    assert "did not finish within 0.5 s" in str(report.refusal)
    assert report.seconds < 10
    assert "did not finish within 0.01 s" in str(
        (await evals.compare("echo 1", limits=ScoreLimits(seconds=0.01))).refusal
    )


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
    assert report.text() == "evals/quality: reference 1, candidate 3 (higher is better) better"
    assert outside.exists() == (level.name == "none")
    assert "exit code 4" in str((await evals.compare("exit 4")).refusal)


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
    assert said.found
    assert all(abs(one) < float("inf") for one in said.found)
    assert said.tolerance is None or 0 <= said.tolerance < float("inf")


def test_deep_and_long_output_is_a_failure_and_no_traceback() -> None:
    for line in (b"[" * 500_000, b"9" * 500_000, b'{"score":' * 100_000):
        with pytest.raises(Failed):
            read(process.Output(0, None, line, b"", False, False, 0.1), 1)
