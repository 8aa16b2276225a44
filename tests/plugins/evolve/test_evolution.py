"""Evolving a workspace: tested, installed whole, committed; one change at a time."""

import asyncio
import os
import re
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from tests.running import having
from tests.waiting import SOON

from instar.plugin import ToolFailure
from instar.plugins.evolve.attempt import Stage
from instar.plugins.evolve.evolution import Step

DOCS = Path(__file__).parents[3] / "docs" / "concepts" / "gate.md"

ADDED = '''
@tool(who="Whom to greet.")
def greet(who):
    """Greet somebody."""
    return {"result": f"Hello, {who}! $& costs \\\\1"}


# -- hooks'''
HEAD = "\n# -- hooks"


def test_the_picture_in_the_docs_shows_the_steps_of_the_code():
    picture = DOCS.read_text("utf-8").partition("stateDiagram-v2")[2].partition("```")[0]
    arrows = re.findall(r"(\w+) --> (\w+)", picture)
    steps = {step for kind in get_args(Step) for step in get_args(kind) or [kind]}
    assert {name for arrow in arrows for name in arrow} - {"gate"} == steps
    assert set(pairwise([*get_args(Stage), "permission"])) <= set(arrows)


async def refused(kit, running, root, tool: str, **args) -> str:
    """The failure's text; nothing in the workspace or its history may have changed."""
    before, log = kit.files(root), kit.git(root, "log", "--format=%H")
    with pytest.raises(ToolFailure) as error:
        await running.call(tool, **args)
    assert kit.files(root) == before
    assert kit.git(root, "log", "--format=%H") == log
    return str(error.value)


@pytest.mark.slow
async def test_the_registered_test_guards_a_script_that_was_broken_by_hand_also_after_a_restart(
    kit, start, hello
):
    text = (hello / "hooks" / "hello.py").read_text()
    running = await start(hello)
    (hello / "hooks" / "hello.py").write_text("#!/usr/bin/env python3\noops(\n")
    again = await start(hello, values=running.values)
    untested = text.replace('"test": "hello_test.py"', '"test": None')
    said = await refused(kit, again, hello, "evolve_hook_write", hook="hello.py", content=untested)
    assert "hooks/hello.py was changed, behind the gate" in said
    assert "a person must accept or restore it first" in said
    await again.accept()
    assert "hello_note_list" not in again.tools
    said = await refused(kit, again, hello, "evolve_hook_write", hook="hello.py", content=untested)
    assert "must keep the test 'hello_test.py'" in said
    await again.call("evolve_hook_write", hook="hello.py", content=text)
    assert "hello_note_list" in again.tools


@pytest.mark.slow
async def test_a_name_that_another_script_has_is_refused(kit, start, root):
    kit.shell(root, "a.sh", discover='{"name": "a"}')
    kit.script(root / "hooks", "b.sh", "#!/bin/sh\nexit 3\n")
    running = await start(root)
    said = await refused(
        kit, running, root, "evolve_hook_write", hook="b.sh", content='#!/bin/sh\necho \'{"name": "a"}\'\n'
    )
    assert "a.sh and b.sh both register the name 'a'" in said


@pytest.mark.slow
async def test_a_file_that_somebody_changes_while_its_candidate_is_tested_is_not_overwritten(
    kit, start, hello
):
    path = hello / "hooks" / "hello.py"
    text = path.read_text()
    test = hello / "tests" / "hello_test.py"
    test.write_text("#!/bin/sh\nsleep 1471.1\nexit 0\n")
    running = await start(hello)
    change = running.call("evolve_hook_edit", hook="hello.py", oldString=HEAD, newString=ADDED)
    changing = asyncio.create_task(change)
    while not (naps := await asyncio.to_thread(having, "sleep", "1471.1")):
        await asyncio.sleep(0.02)
    path.write_text(text + "# by hand\n")
    for nap in naps:
        os.kill(nap, signal.SIGKILL)
    with pytest.raises(
        ToolFailure, match=r"^nothing was changed: hooks/hello\.py was changed, behind the gate"
    ):
        await changing
    assert path.read_text() == text + "# by hand\n"
    last, *_ = running.engine.storage.audit_log.read().entries
    assert (last.kind, last.by, last.stage, last.files) == ("refused", "agent", "install", ["hooks/hello.py"])
    assert "hooks/hello.py was changed, behind the gate" in last.text
    (told,) = [one.properties for one in running.client.published if one.type == "evolve.refused"]
    assert (told.file, told.stage) == ("hooks/hello.py", "install")


async def test_the_test_of_a_candidate_that_is_refused_before_is_ended(kit, start, root):
    kit.script(root / "tests", "a_test.sh", "#!/bin/sh\nexec sleep 1471.2\n")
    kit.shell(root, "a.sh", discover='{"name": "a", "test": "a_test.sh"}')
    running = await start(root)
    other = '#!/bin/sh\nsleep 0.5\necho \'{"name": "b", "test": "a_test.sh"}\'\n'
    began = time.monotonic()
    said = await refused(kit, running, root, "evolve_hook_write", hook="a.sh", content=other)
    assert "it must keep the name 'a'" in said
    assert time.monotonic() - began < SOON
    assert not having("sleep", "1471.2")


@pytest.mark.slow
async def test_changes_at_the_same_time_are_made_one_after_another(kit, start, hello):
    running = await start(hello)
    results = await asyncio.gather(
        running.call(
            "evolve_hook_edit", hook="hello.py", oldString="There are no notes yet.", newString="No notes."
        ),
        running.call("evolve_prompt_write", prompt="chat.md", content="x"),
        running.call("hello_note_write", name="n", text="t"),
    )
    assert len(results) == 3
    assert kit.git(hello, "status", "--porcelain") == ""
    assert "No notes." in (hello / "hooks" / "hello.py").read_text()


@pytest.mark.slow
async def test_a_change_is_installed_also_when_git_cannot_commit_it(kit, start, hello):
    running = await start(hello)
    (hello / ".git" / "index.lock").write_text("")
    result = await running.call("evolve_prompt_write", prompt="chat.md", content="x")
    assert "not committed: git failed" in result.output
    assert (hello / "prompts" / "chat.md").read_text() == "x"
    assert any("index.lock" in problem for problem in running.problems)


@pytest.mark.slow
async def test_what_somebody_changed_while_its_commit_was_owed_is_not_committed(kit, start, hello):
    running = await start(hello)
    lock, prompt = hello / ".git" / "index.lock", hello / "prompts" / "chat.md"
    lock.write_text("")
    await running.call("evolve_prompt_write", prompt="chat.md", content="by the gate")
    lock.unlink()
    prompt.write_text("by hand")
    await running.call("hello_note_write", name="n", text="t")
    assert kit.git(hello, "show", "--name-only", "--format=").split() == ["notes/n.md"]
    prompt.write_text("by the gate")
    await running.call("hello_note_write", name="n", text="u")
    shown = kit.git(hello, "log", "-2", "--name-only", "--format=%s").split()
    assert shown == ["hello_note_write", "notes/n.md", "evolve_prompt_write", "chat.md", "prompts/chat.md"]


@pytest.mark.slow
async def test_a_cancelled_tool_run_ends_at_once_and_what_it_changed_is_committed_with_the_next_one(
    kit, start, root
):
    text = """\
    #!/bin/sh
    case "$1" in
    discover) echo '{"tools": [{"name": "slow"}, {"name": "quick"}]}';;
    *) grep -q quick && exit 0; echo 1 >half.md; sleep 60;;
    esac
    """
    kit.script(root / "hooks", "a.sh", text)
    kit.script(root / "prompts", "chat.md", "1", mode=0o644)
    running = await start(root)
    task = asyncio.ensure_future(running.call("a_slow"))
    while not (root / "half.md").exists():
        await asyncio.sleep(0.005)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=SOON)
    assert done == {task}
    assert task.cancelled()
    assert kit.git(root, "status", "--porcelain") == "?? half.md\n"
    await running.call("a_quick")
    assert kit.git(root, "show", "--name-only", "--format=%s").split() == ["a_slow", "half.md"]


@pytest.mark.slow
async def test_a_tool_run_that_fails_is_committed_too(kit, start, root):
    text = """#!/bin/sh\n[ $1 = discover ] && echo '{"tools": [{"name": "t"}]}' && exit; echo 1 >half.md; exit 3\n"""
    kit.script(root / "hooks", "a.sh", text)
    running = await start(root)
    with pytest.raises(ToolFailure, match="exit code 3"):
        await running.call("a_t")
    assert kit.git(root, "show", "--name-only", "--format=%s").split() == ["a_t", "half.md"]


@pytest.mark.slow
async def test_what_the_person_staged_before_an_evolution_stays_staged(kit, start, hello):
    running = await start(hello)
    (hello / "mine.md").write_text("mine")
    (hello / "hooks" / "hello.py").write_text((hello / "hooks" / "hello.py").read_text() + "\n# mine\n")
    kit.git(hello, "add", "mine.md")
    await running.call("evolve_prompt_write", prompt="chat.md", content="x")
    assert kit.git(hello, "show", "--name-only", "--format=").split() == ["prompts/chat.md"]
    assert kit.git(hello, "status", "--porcelain").splitlines() == [" M hooks/hello.py", "A  mine.md"]
