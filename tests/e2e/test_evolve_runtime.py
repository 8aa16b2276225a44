"""Several turns and sessions in one process: what stays frozen, what is serialised, what an abort leaves."""

import asyncio
import json
from pathlib import Path

import pytest

from instar.plugin import PromptBody

BUSY = 20.0


async def until(wanted) -> None:
    """Wait for a condition that another process brings about."""
    async with asyncio.timeout(BUSY):
        while not wanted():
            await asyncio.sleep(0.01)


def running(needle: str) -> bool:
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes()
        except OSError:
            continue
    return needle.encode() in found


def registering(name: str, test: str) -> str:
    return json.dumps({"name": name, "test": test, "tools": [{"name": "t"}]})


def call(name: str, **args: object) -> str:
    return f"tool: {name} {json.dumps(args)}\n"


async def test_the_prompt_of_a_session_is_frozen_for_its_turns_and_another_session_gets_the_new_one(person):
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["first"]}')
    person.tell("== turn\ntext: one\n== turn\ntext: two\n")
    door = await person.open()
    session = await door.session()
    await door.ask(session)
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["second"]}')
    await door.ask(session)
    await door.ask(await door.session())
    assert person.systems() == [["first"], ["first"], ["second"]]


async def test_a_script_that_a_person_changes_is_discovered_again_at_the_next_step(person):
    person.shell("a.sh", discover='{"tools": [{"name": "old"}]}')
    person.tell("== turn\ntext: one\n== turn\ntext: two\n== turn\ntext: three\n")
    door = await person.open()
    session = await door.session()
    await door.ask(session)
    person.shell("a.sh", discover='{"tools": [{"name": "new"}]}')
    person.shell("b.sh", discover='{"tools": [{"name": "late"}]}')
    await door.ask(session)
    (person.root / "hooks" / "a.sh").unlink()
    await door.ask(session)
    offered = [{name for name in person.tools(at) if name[:2] in ("a_", "b_")} for at in range(3)]
    assert offered == [{"a_old"}, {"a_new", "b_late"}, {"b_late"}]


async def test_two_sessions_that_edit_at_once_are_serialised_and_nothing_is_lost(person):
    for name in ("one", "two"):
        person.shell(f"{name}.sh", discover=registering(name, f"{name}_test.sh"))
        person.write(
            f"tests/{name}_test.sh",
            """\
            #!/bin/sh
            # Two validations at once would find each other's mark.
            mkdir "LOCK" || { echo together; exit 1; }
            sleep 0.1
            rmdir "LOCK"
            """.replace("LOCK", str(person.folder / "testing")),
            0o755,
        )
    person.write("prompts/chat.md", "A\nB\n")
    person.commit_all()
    door = await person.open()
    sessions = [await door.session(), await door.session()]
    person.tell(
        "".join(
            f'== when "{text}" once\n'
            + call("evolve_hook_edit", file=f"{name}.sh", oldString='"t"', newString=f'"{text}"')
            + call("evolve_prompt_edit", file="chat.md", oldString=old, newString=text)
            for name, text, old in (("one", "first", "A"), ("two", "second", "B"))
        )
        + "== turn\ntext: done\n"
    )
    await asyncio.gather(
        *(door.ask(session, text) for session, text in zip(sessions, ("first", "second"), strict=True))
    )
    for session in sessions:
        assert [one.state.__struct_config__.tag for one in await door.calls(session)] == ["completed"] * 2
    assert '"first"' in (person.root / "hooks" / "one.sh").read_text()
    assert '"second"' in (person.root / "hooks" / "two.sh").read_text()
    assert (person.root / "prompts" / "chat.md").read_text() == "first\nsecond\n"
    assert sorted(person.subjects()) == [
        "before",
        "evolve_hook_edit one.sh",
        "evolve_hook_edit two.sh",
        "evolve_prompt_edit chat.md",
        "evolve_prompt_edit chat.md",
    ]
    assert person.git("status", "--porcelain") == ""
    assert person.copies() == []


@pytest.mark.parametrize("at", ["the test", "discover"])
async def test_an_abort_in_the_middle_of_a_validation_installs_nothing_and_leaves_nothing_behind(person, at):
    began = person.folder / "began"
    hang = f"#!/bin/sh\ntouch {began}\nsleep 4217 & sleep 4217\n"
    path = person.shell("a.sh", discover=registering("a", "a_test.sh"))
    person.write("tests/a_test.sh", hang, 0o755)
    person.commit_all()
    before = person.files()
    content = path.read_text() + "# more\n" if at == "the test" else hang
    person.tell("== turn\n" + call("evolve_hook_write", file="a.sh", content=content) + "== turn\ntext: no\n")
    door = await person.open()
    session = await door.session()
    await door.runtime.session.prompt_async(session, PromptBody.text("hi"))
    await until(began.exists)
    async with asyncio.timeout(1.0):
        await door.runtime.session.abort(session)
    await until(lambda: not person.copies())
    assert not running("sleep\0004217")
    assert person.files() == before
    (part,) = await door.calls(session)
    assert part.state.__struct_config__.tag == "error"
    person.write("tests/a_test.sh", "#!/bin/sh\nexit 0\n", 0o755)
    other = await door.session()
    person.tell("== turn\n" + call("evolve_hook_validate", file="a.sh", content=path.read_text() + "#\n")
                + "== turn\ntext: yes\n")  # fmt: skip
    assert await door.ask(other) == "yes"
    assert "would be installed" in person.results()[-1]


async def test_an_abort_while_the_workspace_is_copied_leaves_no_copy_behind(person):
    path = person.shell("a.sh", discover="{}")
    for number in range(3000):
        (person.root / f"{number}.md").write_text("x")
    story = call("evolve_hook_write", file="a.sh", content=path.read_text() + "# more\n")
    person.tell(f"== turn\n{story}== turn\ntext: no\n")
    door = await person.open()
    session = await door.session()
    await door.runtime.session.prompt_async(session, PromptBody.text("hi"))
    await until(lambda: list((person.folder / "tmp").glob("*/workspace/1*.md")))
    await door.runtime.session.abort(session)
    await until(lambda: not person.copies())


async def test_what_an_aborted_tool_had_changed_goes_into_the_next_commit(person):
    person.shell("a.sh", discover='{"tools": [{"name": "t"}]}', execute_tool="$ echo x >>own.md; sleep 60")
    person.commit_all()
    person.config(permission={"external_directory": "allow"})
    bash = call("bash", command=f"echo x >>{person.root}/bash.md; sleep 60")
    person.tell(f"== turn\n{call('a_t')}{bash}== turn\ntext: no\n")
    door = await person.open()
    session = await door.session()
    await door.runtime.session.prompt_async(session, PromptBody.text("hi"))
    await until(lambda: (person.root / "own.md").exists() and (person.root / "bash.md").exists())
    await door.runtime.session.abort(session)
    person.tell(
        "== turn\n" + call("evolve_prompt_write", file="chat.md", content="y") + "== turn\ntext: yes\n"
    )
    person.write("prompts/chat.md", "x")
    await door.ask(await door.session())
    committed = person.git("show", "--format=", "--name-only", "HEAD").split()
    assert committed == ["bash.md", "own.md", "prompts/chat.md"]


async def test_a_deleted_session_leaves_nothing_of_its_prompt(person):
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["first"]}')
    person.tell("== turn\ntext: one\n")
    door = await person.open()
    session = await door.session()
    await door.ask(session)
    kept = door.runtime.instance.store
    assert await kept.values("evolve", "system:")
    await door.runtime.session.delete(session)
    async with asyncio.timeout(BUSY):
        while await kept.values("evolve", "system:"):
            await asyncio.sleep(0.01)
