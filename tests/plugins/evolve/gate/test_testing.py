"""The test stage: a test that the candidate changed while it ran proves nothing, at each level of confinement."""

import os
from pathlib import Path

import msgspec
import pytest

from instar.plugin import process, sandbox
from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.gate import stages
from instar.plugins.evolve.trial import TrialFile, Trials

TEST = "#!/bin/bash\nset -e\nhooks/bot.sh\n[ -e state/never ]\n"


@pytest.fixture
async def processes():
    made = process.Processes()
    yield made
    await made.close()


@pytest.fixture(params=["overlay", "copy", "none"])
async def trials(request, processes):
    level = await sandbox.find_level(processes, os.environ)
    if request.param == "none":
        level = sandbox.Level("none")
    elif request.param == "copy":
        level = msgspec.structs.replace(level, overlay=False)
    return Trials(processes, level, os.environ, unsafe=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for path, text in (("hooks/bot.sh", "#!/bin/sh\n"), ("tests/bot_test.sh", TEST), ("state/log", "")):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    return root


async def run(trials: Trials, root: Path, code: str) -> str:
    changes = {"hooks/bot.sh": TrialFile(f"#!/bin/sh\n{code}\n".encode(), 0o755)}
    async with trials.copy(root, changes) as trial:
        return await stages.test(trial, root, "bot_test.sh", 10)


WEAK = "exit 0\\n" * 60


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        f"printf '{WEAK}' > tests/bot_test.sh",
        f"printf '{WEAK}' 1<> tests/bot_test.sh",
        f"cp -p tests/bot_test.sh kept; printf '{WEAK}' > tests/bot_test.sh; cp -p kept tests/bot_test.sh",
        "rm tests/bot_test.sh; touch state/never",
        "mv tests old; mkdir tests; cp -p old/* tests; touch state/never",
        "mv tests old; ln -s old tests; touch state/never",
        "echo '#' >> hooks/bot.sh; touch state/never",
        "touch state/never; chmod 700 tests/bot_test.sh",
    ],
)
async def test_a_candidate_that_changes_code_while_its_test_runs_is_refused(trials, workspace, code):
    with pytest.raises(CandidateRefused, match="so the test proves nothing") as refused:
        await run(trials, workspace, code)
    assert refused.value.stage == "test"
    assert (workspace / "tests" / "bot_test.sh").read_text() == TEST


async def test_a_candidate_may_write_new_files_and_whatever_is_no_code(trials, workspace):
    code = "touch state/never tests/new hooks/new; echo x >> state/log; mkdir -p hooks/__pycache__ evals/deep"
    await run(trials, workspace, code)
    with pytest.raises(CandidateRefused, match="failed: exit code 1"):
        await run(trials, workspace, "true")
