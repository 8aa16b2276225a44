"""Bisect: a planted culprit is found by sandboxed runs, and nothing is left behind."""

import asyncio
import math
import os

import pytest
from tests.running import having

from instar.plugin import sandbox
from instar.plugins.evolve.history.bisect import Bisect
from instar.plugins.evolve.history.repository import NoSuchChange
from instar.plugins.evolve.history.trailers import Trailers, write
from instar.plugins.evolve.trial import NoTrial, Trials


class Bench:
    """A workspace whose commits the test writes, and a folder in which nothing may be left."""

    def __init__(self, kit, root, processes, scratch):
        self.kit, self.root, self.processes, self.scratch = kit, root, processes, scratch
        (root / "prompts").mkdir()
        kit.git(root, "init", "--quiet")
        self.looks = []

    def commit(self, message, **files):
        for path, text in files.items():
            file = self.root / path.replace("__", "/")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        self.kit.git(self.root, "add", "--all")
        self.kit.git(self.root, "commit", "-q", "--allow-empty", "-m", message)
        return self.kit.git(self.root, "rev-parse", "HEAD").strip()

    async def run(self, command, level=None, unsafe=True, timeout=20.0, **ends):
        level = level or await sandbox.find_level(self.processes, os.environ)
        trials = Trials(self.processes, level, os.environ, unsafe=unsafe)
        bisect = Bisect(self.processes, self.root, trials, timeout=timeout, progress=self.looks.append)
        try:
            return await bisect.run(command, **ends)
        finally:
            assert list(self.scratch.iterdir()) == []


@pytest.fixture
def bench(kit, root, processes, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    return Bench(kit, root, processes, scratch)


@pytest.mark.slow
async def test_the_change_after_which_a_command_fails_is_found_across_hooks_and_prompts(bench):
    bench.commit("initial", hooks__bot="good\n", prompts__chat="good 0\n")
    for number in range(1, 12):
        word = "good" if number < 7 else "bad"
        said = Trailers(session="ses_1", call=f"call_{number}", epoch=number)
        if number % 2:
            bench.commit(write("evolve_prompt_write chat", said), prompts__chat=f"{word} {number}\n")
        else:
            bench.commit(write("evolve_hook_edit bot", said), hooks__bot=f"good {number}\n")
    (bench.root / "hooks" / "bot").write_text("loose")
    found = await bench.run("cat prompts/chat; grep -q good prompts/chat")
    assert [(one.subject, one.call) for one in found.suspects] == [("evolve_prompt_write chat", "call_7")]
    assert found.suspects[0].files == ["prompts/chat"]
    assert len(found.runs) <= math.ceil(math.log2(11)) + 2
    assert found.said == "bad 7\nexit code 1"
    assert found.notes[0] == "what is not committed is not part of it: hooks/bot"
    assert [look.verdict for look in bench.looks[:4]] == ["", "bad", "", "good"]
    assert bench.looks[0].line().endswith("evolve_prompt_write chat: running (about 5 more)")
    assert [look.number for look in found.runs] == list(range(1, len(found.runs) + 1))
    text = found.text().split("\n")
    assert text[0] == "the command began to fail with this change:"
    assert text[-1] == f"{len(found.runs)} runs"
    assert "  bad 7" in text


@pytest.mark.slow
async def test_the_test_is_each_commits_own_and_that_is_said(bench):
    bench.commit("initial", tests__check="#!/bin/sh\nexit 0\n")
    bench.commit("stricter", tests__check="#!/bin/sh\nexit 1\n")
    found = await bench.run("tests/check")
    assert [one.subject for one in found.suspects] == ["stricter"]
    assert "files in tests/ were each commit's own, not today's" in found.notes


@pytest.mark.slow
async def test_exit_code_125_is_looked_around(bench):
    states = ["good", "good", "untold", "good", "untold", "untold", "bad", "bad", "bad"]
    for number, state in enumerate(states):
        bench.commit(f"c{number}", hooks__bot=f"{state}{number}")
    command = "case $(cat hooks/bot) in good*) exit 0;; untold*) exit 125;; *) exit 3;; esac"
    found = await bench.run(command)
    assert [one.subject for one in found.suspects] == ["c4", "c5", "c6"]
    assert found.text().startswith("the command began to fail with one of these changes; at the others")
    assert "unknown" in [look.verdict for look in found.runs]


@pytest.mark.slow
async def test_commits_that_change_nothing_and_files_that_were_run_before_cost_no_run(bench):
    bench.commit("initial", hooks__bot="1")
    bench.commit("bad", hooks__bot="2")
    bench.commit("back", hooks__bot="1")
    for _ in range(5):
        bench.commit("empty")
    bench.commit("bad again", hooks__bot="2")
    bench.commit("worse", hooks__bot="3")
    found = await bench.run("test $(cat hooks/bot) = 1")
    assert [one.subject for one in found.suspects] in (["bad"], ["bad again"])
    assert len(found.runs) == 3


async def test_a_command_that_passes_at_the_newest_commit_is_said_so(bench):
    bench.commit("initial", hooks__bot="1")
    last = bench.commit("second", hooks__bot="2")
    found = await bench.run("true")
    assert found.problem.startswith(f"the command passes at the newest commit, {last[:7]} (second)")
    assert (found.suspects, len(found.runs)) == ([], 1)


@pytest.mark.slow
async def test_a_command_that_fails_at_the_initial_commit_too_is_said_so(bench):
    bench.commit("initial", hooks__bot="1")
    bench.commit("second", hooks__bot="2")
    found = await bench.run("echo nope; false")
    assert "fails at the oldest commit too" in found.problem
    assert "name a later one at which it passed" in found.text()
    assert found.said == "nope\nexit code 1"
    assert [look.verdict for look in found.runs] == ["bad", "bad"]
    assert "cannot be told at" in (await bench.run("exit 125")).problem


@pytest.mark.slow
async def test_the_ends_can_be_named_and_must_be_in_order(bench):
    ids = [bench.commit(f"c{number}", hooks__bot=str(number)) for number in range(6)]
    command = "test $(cat hooks/bot) -ge 1 && test $(cat hooks/bot) -lt 3"
    assert "fails at the oldest" in (await bench.run(command)).problem
    found = await bench.run(command, good=ids[1][:8], bad="HEAD~1")
    assert [one.subject for one in found.suspects] == ["c3"]
    late = await bench.run(command, good="HEAD", bad=ids[1])
    assert late.problem.startswith(f"{ids[1]} is not later than HEAD")
    with pytest.raises(NoSuchChange):
        await bench.run(command, good="--all")


@pytest.mark.slow
async def test_a_run_that_does_not_end_in_time_counts_as_failed(bench):
    bench.commit("initial", hooks__bot="#!/bin/sh\n")
    bench.commit("endless", hooks__bot="#!/bin/sh\nexec sleep 60\n")
    found = await bench.run("hooks/bot", timeout=3)
    assert [one.subject for one in found.suspects] == ["endless"]
    assert found.said == "it did not end within 3 s"


@pytest.mark.slow
@pytest.mark.parametrize("most", ["bubblewrap", "landlock", "none"])
async def test_runs_cannot_reach_outside_their_copy(bench, tmp_path, most):
    level = await sandbox.find_level(bench.processes, os.environ, most)
    outside = tmp_path / "outside"
    bench.commit("initial", hooks__bot="1")
    bench.commit("second", hooks__bot="2")
    before = bench.kit.files(bench.root)
    command = (
        f"(echo x > {outside}) 2>/dev/null; test $(cat hooks/bot) = 1 && echo x > hooks/bot && ! test -e .git"
    )
    found = await bench.run(command, level=level)
    assert [one.subject for one in found.suspects] == ["second"]
    assert outside.exists() == (level.name == "none")
    assert bench.kit.files(bench.root) == before


@pytest.mark.slow
async def test_without_a_sandbox_nothing_is_run(bench):
    bench.commit("initial", hooks__bot="1")
    bench.commit("second", hooks__bot="2")
    none = sandbox.Level("none", missing="Landlock", todo="use a newer kernel")
    with pytest.raises(NoTrial, match="no sandbox on this machine"):
        await bench.run("true", level=none, unsafe=False)
    assert "the command ran as you" in (await bench.run("false", level=none)).text()


@pytest.mark.slow
async def test_an_interrupt_in_a_run_ends_it_and_leaves_nothing(bench):
    bench.commit("initial", hooks__bot="1")
    bench.commit("second", hooks__bot="2")
    seconds = f"6{os.getpid()}"
    bisecting = asyncio.ensure_future(bench.run(f"exec sleep {seconds}", timeout=600))
    async with asyncio.timeout(20):
        while not having("sleep", seconds):
            await asyncio.sleep(0.01)
    bisecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bisecting
    assert not having("sleep", seconds)


@pytest.mark.slow
@pytest.mark.parametrize("event", [1, 2, 3, 4])
async def test_an_interrupt_between_runs_leaves_nothing(bench, event):
    bench.commit("initial", **{f"hooks__bot{number}": "1" for number in range(50)})
    for number in range(4):
        bench.commit("more", hooks__bot=str(number))
    begun = asyncio.Event()

    class Watch(list):
        def append(self, look):
            super().append(look)
            if len(self) == event:
                begun.set()

    bench.looks = Watch()
    bisecting = asyncio.ensure_future(bench.run("test ! -e hooks/bot"))
    await asyncio.wait_for(begun.wait(), 20)
    bisecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bisecting


@pytest.mark.slow
async def test_an_interrupt_while_a_checkout_is_written_leaves_nothing_of_it(bench):
    bench.commit("initial", **{f"hooks__bot{number}": "1" for number in range(800)})
    bench.commit("second", hooks__bot="2")
    bisecting = asyncio.ensure_future(bench.run("true"))
    async with asyncio.timeout(20):
        while not list(bench.scratch.glob("*/.new-*/workspace/hooks")):
            await asyncio.sleep(0)
    bisecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bisecting
    await asyncio.get_running_loop().shutdown_default_executor()
    assert list(bench.scratch.iterdir()) == []
