"""Commands as a client runs them: from a name and arguments to an answer."""

from pathlib import Path
from typing import Any

import pytest

from instar.definitions.agent import UnknownAgent
from instar.message import FilePart, ModelRef, TextPart, User, WithParts
from instar.plugin import CommandBody, Invalid, NotFound, points
from instar.testing import Machine, said, users

pytest_plugins = ["tests.turn"]


def command(house: Machine, name: str, text: str) -> None:
    path = house.folder / ".opencode" / "command" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def agent(house: Machine, name: str, text: str) -> None:
    path = house.folder / ".opencode" / "agent" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


ANSWER = "== turn\ntext: done\n"


async def run(house: Machine, name: str, arguments: str = "", **body: Any) -> list[WithParts]:
    """Run a command in a session of its own and return the session's messages."""
    house.says(ANSWER)
    door = await house.open()
    session = await door.session()
    await door.client.command(session, CommandBody(command=name, arguments=arguments, **body))
    return await door.client.messages(session)


def user(history: list[WithParts]) -> User:
    assert isinstance(history[0].info, User)
    return history[0].info


async def test_a_command_becomes_a_prompt_and_is_told_about(house: Machine) -> None:
    command(house, "greet", "Greet $1 and $NAME.")
    house.says(ANSWER)
    door = await house.open()
    session = await door.session()
    answer = await door.client.command(session, CommandBody(command="greet", arguments="Ada NAME=Bob"))
    assert said(answer) == "done"
    assert users(await door.client.messages(session)) == ["Greet Ada and Bob."]
    (done,) = door.of("command.executed")
    assert (done.name, done.arguments, done.message_id) == ("greet", "Ada NAME=Bob", answer.info.id)
    assert done.session_id == session


async def test_a_shell_command_prints_into_the_prompt_and_arguments_reach_it_as_variables(
    house: Machine,
) -> None:
    command(house, "x", 'A !`printf \'%s|\' "$1" $2 "$NAME" "$ARGUMENTS"` B')
    history = await run(house, "x", "'a b' '; touch gone' NAME='$(touch gone)'")
    assert users(history) == ["A a b|;|touch|gone|$(touch gone)|'a b' '; touch gone'| B"]
    assert not (house.folder / "gone").exists()


async def test_a_shell_command_that_fails_is_told_with_its_errors_and_exit_code(house: Machine) -> None:
    command(house, "x", "A !`echo out; echo err >&2; exit 3` B")
    assert users(await run(house, "x")) == ["A out\nerr\n(echo out; echo err >&2; exit 3: exit code 3) B"]


async def test_long_output_of_a_shell_command_is_cut_and_the_model_is_told(house: Machine) -> None:
    command(house, "x", "!`yes | head -c 200000`")
    (text,) = users(await run(house, "x"))
    assert len(text) < 60_000
    assert text.endswith("(the output was longer and is cut here)")


async def test_a_shell_command_that_does_not_end_refuses_the_command(
    house: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.turn.command.TIMEOUT", 0.05)
    command(house, "x", "!`sleep 60`")
    with pytest.raises(Invalid, match=r"'sleep 60' did not end within 0\.05 s"):
        await run(house, "x")


async def test_a_shell_command_has_the_environment_that_plugins_give(house: Machine) -> None:
    command(house, "x", "!`echo $FROM_PLUGIN`")
    house.says(ANSWER)
    door = await house.open()

    async def env(given: Any, output: Any) -> None:
        output.env["FROM_PLUGIN"] = f"here in {Path(given.cwd).name}"

    door.plugin({"shell.env": env})
    session = await door.session()
    await door.client.command(session, CommandBody(command="x", arguments=""))
    assert users(await door.client.messages(session)) == ["here in project"]


async def test_files_and_agents_that_are_mentioned_become_parts_and_printed_ones_do_not(
    house: Machine,
) -> None:
    (house.folder / "a.txt").write_text("content of a")
    (house.folder / "b.txt").write_text("content of b")
    (house.folder / "c.txt").write_text("content of c")
    command(house, "x", "See @a.txt and @$1 with @general. !`echo @c.txt`")
    history = await run(house, "x", "b.txt")
    names = [part.filename for part in history[0].parts if isinstance(part, FilePart)]
    assert names == ["a.txt", "b.txt"]
    text = users(history)[0]
    assert "content of a" in text
    assert "content of c" not in text
    assert "call the task tool with subagent_type 'general'" in text


async def test_files_of_the_request_go_with_the_prompt(house: Machine) -> None:
    (house.folder / "a.txt").write_text("content of a")
    command(house, "x", "Read it.")
    part = {"type": "file", "mime": "text/plain", "url": (house.folder / "a.txt").as_uri()}
    assert "content of a" in users(await run(house, "x", parts=[part]))[0]


async def test_the_commands_agent_and_model_answer_before_those_of_the_request(house: Machine) -> None:
    agent(house, "poet", "---\nmode: primary\nmodel: scripted/poets\n---\nRhyme.")
    command(house, "plain", "x")
    command(house, "byagent", "---\nagent: poet\n---\nx")
    command(house, "bymodel", "---\nagent: poet\nmodel: scripted/own\nvariant: high\n---\nx")
    plain = user(await run(house, "plain", agent="poet", model="scripted/given"))
    assert (plain.agent, plain.model) == ("poet", ModelRef(provider_id="scripted", model_id="given"))
    by_agent = user(await run(house, "byagent", agent="build", model="scripted/given"))
    assert (by_agent.agent, by_agent.model.model_id) == ("poet", "poets")
    by_model = user(await run(house, "bymodel"))
    assert (by_model.model.model_id, by_model.model.variant) == ("own", "high")


async def test_the_next_prompt_is_answered_by_the_sessions_own_agent(house: Machine) -> None:
    agent(house, "poet", "---\nmode: primary\n---\nRhyme.")
    command(house, "rhyme", "---\nagent: poet\n---\nx")
    house.says('== when ""\ntext: done\n')
    door = await house.open()
    session = await door.session()
    await door.client.command(session, CommandBody(command="rhyme", arguments=""))
    await door.ask(session, "and now?")
    asked = [one.info.agent for one in await door.client.messages(session) if isinstance(one.info, User)]
    assert asked == ["poet", "build"]


async def test_the_hook_of_a_prompt_is_told_the_agent_and_model_of_a_command_and_the_id_of_a_subtasks(
    house: Machine,
) -> None:
    command(house, "plain", "x")
    command(house, "check", "---\nagent: general\nsubtask: true\n---\nCheck it.")
    house.says('== when ""\ntext: done\n')
    door = await house.open()
    told: list[points.ChatMessageInput] = []

    async def message(given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        told.append(given)

    door.plugin({"chat.message": message})
    session = await door.session()
    for name in ("plain", "check"):
        await door.client.command(session, CommandBody(command=name, arguments=""))
    model = ModelRef(provider_id="scripted", model_id="x")
    assert [(one.agent, one.model) for one in told] == [
        ("build", model),
        ("build", model),
        ("general", model),
    ]
    assert [one.message_id is not None for one in told] == [False, False, True]
    (child,) = await door.client.children(session)
    assert (await door.client.messages(child.id))[0].info.id == told[-1].message_id
    (call,) = [
        part for one in await door.client.messages(session) for part in one.parts if part.type == "tool"
    ]
    assert call.state.metadata["model"] == {"modelID": "x", "providerID": "scripted"}


@pytest.mark.parametrize(
    ("text", "said", "error"),
    [
        ("---\nagent: biuld\n---\nx", "there is no agent 'biuld'; there are: build", Invalid),
        ("---\nmodel: nobody/x\n---\nx", "unknown provider 'nobody'", Invalid),
        ("---\nmodel: scripted/\n---\nx", "a model is named as provider/model, not 'scripted/'", Invalid),
        ("see @general x\n@big.bin", "larger than", Invalid),
    ],
)
async def test_a_command_that_cannot_be_carried_out_is_refused_and_nothing_is_saved(
    house: Machine, text: str, said: str, error: type[Exception]
) -> None:
    (house.folder / "big.bin").write_bytes(b"x" * (6 << 20))
    command(house, "x", text)
    house.says(ANSWER)
    door = await house.open()
    session = await door.session()
    with pytest.raises(error, match=said):
        await door.client.command(session, CommandBody(command="x", arguments=""))
    assert await door.client.messages(session) == []
    assert door.of("command.executed") == []


async def test_an_unknown_command_or_session_is_refused(house: Machine) -> None:
    door = await house.open()
    session = await door.session()
    with pytest.raises(Invalid, match="there is no command 'reviwe'; there are: review"):
        await door.client.command(session, CommandBody(command="reviwe", arguments=""))
    with pytest.raises(NotFound):
        await door.client.command("ses_gone", CommandBody(command="init", arguments=""))


async def test_a_hook_changes_the_parts_and_may_refuse_the_command(house: Machine) -> None:
    command(house, "x", "text")
    house.says(ANSWER)
    door = await house.open()
    seen: list[tuple[str, str, str]] = []

    async def before(given: Any, output: Any) -> None:
        seen.append((given.command, given.arguments, given.session_id))
        if given.arguments == "no":
            raise ValueError("not today")
        output.parts.append({"type": "text", "text": "and more"})

    door.plugin({"command.execute.before": before})
    session = await door.session()
    await door.client.command(session, CommandBody(command="x", arguments="yes"))
    assert seen == [("x", "yes", session)]
    assert "and more" in users(await door.client.messages(session))[0]
    with pytest.raises(Invalid, match="the plugin test refused the command x: not today"):
        await door.client.command(session, CommandBody(command="x", arguments="no"))


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (["text"], "refused the command init: what it left in `parts` cannot be used"),
        (None, "a prompt needs at least one part"),
        ([{"type": "text"}], "a part of the prompt is malformed"),
    ],
)
async def test_a_hook_that_breaks_the_parts_refuses_the_command(house: Machine, left: Any, why: str) -> None:
    door = await house.open()

    async def before(given: Any, output: Any) -> None:
        output.parts = left

    door.plugin({"command.execute.before": before})
    session = await door.session()
    with pytest.raises(Invalid, match=why):
        await door.client.command(session, CommandBody(command="init", arguments=""))


async def test_a_hook_may_give_the_parts_of_a_command_as_objects(house: Machine) -> None:
    house.says('== when ""\ntext: ok\n')
    door = await house.open()

    async def before(given: Any, output: Any) -> None:
        output.parts = [TextPart(id="prt_1", session_id="", message_id="", text="do this instead")]

    door.plugin({"command.execute.before": before})
    session = await door.session()
    await door.client.command(session, CommandBody(command="init", arguments=""))
    assert users(await door.stored(session)) == ["do this instead"]


async def test_a_strangers_command_shows_files_of_its_project_only_and_runs_nothing(house: Machine) -> None:
    del house.environment["INSTAR_TRUST"]
    (house.folder / "a.txt").write_text("content of a")
    (house.folder.parent / "private.txt").write_text("private")
    (house.folder / "link").symlink_to(house.folder.parent / "private.txt")
    command(house, "inside", "See @a.txt")
    command(house, "outside", "See @../private.txt")
    command(house, "linked", "See @link")
    command(house, "shell", "!`touch ran`")
    assert "content of a" in users(await run(house, "inside"))[0]
    for name in ("outside", "linked"):
        with pytest.raises(
            Invalid, match=f"the command {name} stands in a folder that is not trusted, and @"
        ):
            await run(house, name)
    with pytest.raises(Invalid, match="there is no command 'shell'"):
        await run(house, "shell")
    assert not (house.folder / "ran").exists()


async def test_a_file_that_a_command_names_is_not_read_once_it_is_a_link_that_leads_out(
    house: Machine,
) -> None:
    private = house.folder.parent / "private.txt"
    private.write_text("private")
    notes = house.folder / "notes.txt"
    notes.write_text("of the project")
    (house.folder / "inner").symlink_to(notes)
    command(house, "look", "See @notes.txt and @inner $ARGUMENTS")
    command(house, "there", f"See @{private}")
    assert "of the project" in users(await run(house, "look"))[0]
    assert "private" in users(await run(house, "there"))[0]
    notes.unlink()
    notes.symlink_to(private)
    with pytest.raises(
        Invalid, match=r"the command look names a link, and @notes.txt leads to .*write there where"
    ):
        await run(house, "look")
    # What the person types is theirs.
    command(house, "look", "See $ARGUMENTS")
    assert "private" in users(await run(house, "look", "@notes.txt"))[0]


async def test_mistakes_in_definitions_are_told_when_the_runtime_opens(house: Machine) -> None:
    command(house, "bad", "---\nsubtask: maybe\n---\nx")
    agent(house, "worse", "---\nmode: no\n---\nx")
    door = await house.open()
    assert [notice.rpartition("/")[2] for notice in door.runtime.notices] == [
        "bad.md:2: subtask: expected true or false, found a string",
        "worse.md:2: mode: expected one of subagent, primary, all, found 'no'",
    ]
    with pytest.raises(UnknownAgent):
        door.runtime.instance.agents.get("worse")


async def test_a_skill_is_offered_to_the_model_and_loaded_when_asked_for(house: Machine) -> None:
    path = house.folder / ".claude/skills/pdf/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: pdf\ndescription: Fills forms\n---\nTake care.")
    house.says('== turn\ntool: skill {"name": "pdf"}\n== turn\ntext: done\n')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    last = house.requests()[-1]
    assert "pdf: Fills forms" in str(last["tools"])
    assert "Take care." in str(last["messages"])


def skill(house: Machine, name: str, text: str) -> Path:
    path = house.folder / ".claude/skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: A skill\n---\n{text}")
    return path


async def test_a_person_asks_for_a_skill_as_for_a_command_and_a_command_of_its_name_comes_first(
    house: Machine,
) -> None:
    path = skill(house, "tidy", "Put $1 away.")
    skill(house, "greet", "The skill.")
    command(house, "greet", "The command.")
    assert users(await run(house, "tidy", "toys")) == [
        f"Put toys away.\n\nThis skill's folder: {path.parent}"
    ]
    assert users(await run(house, "greet")) == ["The command."]


async def test_a_strangers_skill_runs_nothing_when_it_is_asked_for(house: Machine) -> None:
    del house.environment["INSTAR_TRUST"]
    skill(house, "tidy", "Say !`touch ran`")
    with pytest.raises(Invalid, match="the command tidy runs shell commands, and its folder is not trusted"):
        await run(house, "tidy")
    assert not (house.folder / "ran").exists()
