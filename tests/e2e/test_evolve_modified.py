"""Modified: files that a hook names are committed with what it belongs to, and published once."""

import asyncio
import json

import pytest

WRITES = '{"tools": [{"name": "write", "description": "Writes."}]}'
STORY = """\
== when "write it" once
tool: a_write {}
== when "."
text: done
"""


def edited(door):
    """The names of the files that are published, relative to nothing."""
    heard = []
    door.runtime.instance.bus.observe(
        lambda one: (
            heard.append(one.properties.file.rpartition("/ws/")[2]) if one.type == "file.edited" else 0
        )
    )
    return heard


def writer(person, names, hook="execute_tool", code=""):
    """A script that answers `hook` with `modified`, after shell code that changes files."""
    answer = json.dumps(
        {"modified": names, "result": "written"} if hook == "execute_tool" else {"modified": names}
    )
    answers = {"execute_tool": '{"result": "written"}', hook: f"$ {code or ':'}\necho '{answer}'"}
    person.shell("a.sh", discover=WRITES, **answers)
    person.tell(STORY)


@pytest.mark.slow
async def test_what_a_hook_names_is_committed_with_the_call_and_published_once(person):
    person.write("earlier.md", "as it was\n")
    writer(person, ["new.md", "earlier.md", "./new.md"], code="echo new >new.md")
    door = await person.open()
    # A change from before the call, which may be the person's own work.
    person.write("earlier.md", "changed\n")
    heard = edited(door)
    await door.ask(await door.session(), "write it")
    assert sorted(heard) == ["earlier.md", "new.md"]
    assert person.subjects() == ["a_write", "initial"]
    assert person.git("show", "--format=", "--name-only", "HEAD").split() == ["new.md"]
    assert person.git("status", "--porcelain", "--", "earlier.md") == " M earlier.md\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "hook", ["observe_message", "idle", "mutate_request", "tool_before", "tool_after", "compacting"]
)
async def test_any_hook_may_name_what_it_changed(person, hook):
    writer(person, ["state.md"], hook, code="date +%N >state.md")
    door = await person.open()
    heard = edited(door)
    session = await door.session()
    await door.ask(session, "write it")
    if hook == "compacting":
        await door.runtime.session.summarize(session)
    assert set(heard) == {"state.md"}
    assert person.git("show", "--format=", "--name-only", "HEAD").split() == ["state.md"]
    assert person.git("status", "--porcelain", "--", "state.md") == ""
    commits = [line for line in person.subjects() if line != "initial"]
    assert len(heard) == len(commits)


@pytest.mark.slow
async def test_a_file_that_git_is_to_ignore_is_published_and_not_committed(person):
    person.write(".gitignore", "*.tmp\n")
    writer(person, ["a.tmp"], code="echo x >a.tmp")
    door = await person.open()
    heard = edited(door)
    await door.ask(await door.session(), "write it")
    assert heard == ["a.tmp"]
    assert person.subjects() == ["initial"]


@pytest.mark.slow
async def test_a_file_that_was_deleted_counts(person):
    person.write("old.md", "old\n")
    writer(person, ["old.md"], code="rm -f old.md")
    door = await person.open()
    heard = edited(door)
    await door.ask(await door.session(), "write it")
    assert heard == ["old.md"]
    assert person.git("show", "--format=", "--name-status", "HEAD").split() == ["D", "old.md"]


@pytest.mark.slow
async def test_names_that_lead_elsewhere_change_nothing_and_are_named(person, caplog):
    (person.folder / "outside.md").write_text("theirs")
    (person.root / "out").symlink_to(person.folder)
    names = [
        "../outside.md",
        "/etc/passwd",
        "out/outside.md",
        "a\0b",
        "",
        7,
        {"a": 1},
        ".git/config",
        "hooks",
        "x/../y",
    ]
    writer(person, ["ok.md", *names], code="echo ok >ok.md")
    door = await person.open()
    heard = edited(door)
    await door.ask(await door.session(), "write it")
    assert heard == ["ok.md"]
    assert person.git("show", "--format=", "--name-only", "HEAD").split() == ["ok.md"]
    assert len([one for one in caplog.records if "modified=refused" in one.getMessage()]) == len(names)


@pytest.mark.slow
async def test_a_guarded_file_that_was_changed_behind_the_gate_is_not_committed_by_naming_it(person):
    person.write("prompts/chat.md", "mine\n")
    writer(person, ["prompts/chat.md"])
    door = await person.open()
    person.write("prompts/chat.md", "changed\n")
    heard = edited(door)
    await door.ask(await door.session(), "write it")
    assert heard == []
    assert person.git("show", "HEAD:prompts/chat.md") == "mine\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "hook", ["execute_tool", "mutate_request", "heartbeat", "recover", "format_notification"]
)
async def test_naming_a_file_that_a_person_has_changed_does_not_commit_their_work(person, hook):
    person.write("mine.md", "as it was\n")
    names = json.dumps({"modified": ["mine.md", "state.md"], "user": "go"})
    answers = {
        "execute_tool": '{"notify": ["told"]}',
        "mutate_request": "$ exit 3" if hook == "recover" else "{}",
        hook: f"$ date +%N >state.md\necho '{names}'",
    }
    person.shell("a.sh", discover=WRITES, **answers)
    person.config(agent={"evolve": {"prompt": "p"}}, model="scripted/x")
    person.tell(STORY)
    door = await person.open()
    person.write("mine.md", "changed\n")
    heard = edited(door)
    if hook == "heartbeat":
        await asyncio.to_thread(person.instar, "heartbeat", "now")
    else:
        if hook == "format_notification":
            await door.ask(await door.session(), "hello")
        await door.ask(await door.session(), "write it")
    async with asyncio.timeout(10):
        while "state.md" not in person.git("log", "--format=", "--name-only").split() or len(heard) < 2:
            await asyncio.sleep(0.01)
    assert sorted(set(heard)) == ["mine.md", "state.md"]
    assert len(heard) == len(set(heard)) or hook in ("mutate_request", "recover"), "asked at each session"
    assert person.git("show", "HEAD:mine.md") == "as it was\n"
    assert person.git("status", "--porcelain", "--", "mine.md") == " M mine.md\n"
