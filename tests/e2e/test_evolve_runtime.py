"""Several turns and sessions in one process: what stays frozen, what is serialised, what an abort leaves."""

import asyncio
import json
import os

import pytest
from tests.running import having
from tests.waiting import SOON, until

from instar.plugin import PromptBody

NAP = f"4217.{os.getpid()}"
"""What this process's tests sleep: other ones' may sleep at the same time."""


def registering(name: str, test: str) -> str:
    return json.dumps({"name": name, "test": test, "tools": [{"name": "t"}]})


def call(name: str, **args: object) -> str:
    return f"tool: {name} {json.dumps(args)}\n"


@pytest.mark.slow
async def test_the_prompt_of_a_session_is_frozen_for_its_turns_and_another_session_gets_the_new_one(person):
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["first"]}')
    person.tell("== turn\ntext: one\n== turn\ntext: two\n")
    door = await person.open()
    session = await door.session()
    await door.ask(session)
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["second"]}')
    person.accept()
    await door.ask(session)
    await door.ask(await door.session())
    assert person.systems() == [["first"], ["first"], ["second"]]


@pytest.mark.slow
async def test_what_a_person_accepts_by_the_command_is_discovered_at_the_next_step_of_a_session_that_is_open(
    person,
):
    person.shell("a.sh", discover='{"tools": [{"name": "old"}]}')
    person.tell("".join(f"== turn\ntext: {number}\n" for number in range(4)))
    door = await person.open()
    session = await door.session()
    await door.ask(session)
    person.shell("a.sh", discover='{"tools": [{"name": "new"}]}')
    person.shell("b.sh", discover='{"tools": [{"name": "late"}]}')
    await door.ask(session)
    person.accept()
    await door.ask(session)
    (person.root / "hooks" / "a.sh").unlink()
    person.accept("hooks/a.sh")
    await door.ask(session)
    offered = [{name for name in person.tools(at) if name[:2] in ("a_", "b_")} for at in range(4)]
    assert offered == [{"a_old"}, {"a_old"}, {"a_new", "b_late"}, {"b_late"}]


@pytest.mark.slow
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
            + call("evolve_hook_edit", hook=f"{name}.sh", oldString='"t"', newString=f'"{text}"')
            + call("evolve_prompt_edit", prompt="chat.md", oldString=old, newString=text)
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


@pytest.mark.slow
@pytest.mark.parametrize("at", ["the test", "discover"])
async def test_an_abort_in_the_middle_of_a_validation_installs_nothing_and_leaves_nothing_behind(person, at):
    hang = f"#!/bin/sh\nsleep {NAP} & sleep {NAP}\n"
    path = person.shell("a.sh", discover=registering("a", "a_test.sh"))
    person.write("tests/a_test.sh", hang, 0o755)
    person.commit_all()
    before = person.files()
    content = path.read_text() + "# more\n" if at == "the test" else hang
    person.tell("== turn\n" + call("evolve_hook_write", hook="a.sh", content=content) + "== turn\ntext: no\n")
    door = await person.open()
    session = await door.session()
    await door.runtime.session.prompt_async(session, PromptBody.text("hi"))
    await until(lambda: having("sleep", NAP))
    async with asyncio.timeout(SOON):
        await door.runtime.session.abort(session)
    await until(lambda: not person.copies())
    assert not having("sleep", NAP)
    assert person.files() == before
    (part,) = await door.calls(session)
    assert part.state.__struct_config__.tag == "error"
    person.write("tests/a_test.sh", "#!/bin/sh\nexit 0\n", 0o755)
    person.accept("tests/a_test.sh")
    other = await door.session()
    person.tell("== turn\n" + call("evolve_hook_validate", hook="a.sh", content=path.read_text() + "#\n")
                + "== turn\ntext: yes\n")  # fmt: skip
    assert await door.ask(other) == "yes"
    assert "would be installed" in person.results()[-1]


@pytest.mark.slow
async def test_what_an_aborted_tool_had_changed_is_committed(person):
    person.shell("a.sh", discover='{"tools": [{"name": "t"}]}', execute_tool="$ echo x >>own.md; sleep 60")
    person.write("prompts/chat.md", "x")
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
        "== turn\n" + call("evolve_prompt_write", prompt="chat.md", content="y") + "== turn\ntext: yes\n"
    )
    await door.ask(await door.session())
    committed = person.git("log", "--format=", "--name-only").split()
    assert committed.count("own.md") == committed.count("bash.md") == 1
    assert person.git("status", "--porcelain", "own.md", "bash.md") == ""
    assert set(person.subjects()) >= {"a_t, bash"} or set(person.subjects()) & {"a_t", "bash"}


@pytest.mark.slow
async def test_a_deleted_session_leaves_nothing_of_its_prompt(person):
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["first"]}')
    person.tell("== turn\ntext: one\n")
    door = await person.open()
    session = await door.session()
    await door.ask(session)
    kept = door.runtime.instance.store
    assert await kept.values("evolve", "system:")
    await door.runtime.session.delete(session)

    async def gone():
        return not await kept.values("evolve", "system:")

    await until(gone)
