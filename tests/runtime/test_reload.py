"""A running instance takes up what changed in its files; what cannot be read leaves what was there."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.turn import reload
from tests.waiting import until

from instar.plugin import Value
from instar.plugin import door as plugins
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.testing import Machine, RuntimeUnderTest, answer_of, results, said

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'
TAGS = """
    from pathlib import Path

    async def mine(input, options):
        async def complete(given, output):
            output.text += " TAG"

        async def dispose():
            with open(input.directory / "gone", "a") as file:
                file.write("TAG ")

        return {"text.complete": complete, "dispose": dispose}
"""
BASH = """
    == turn
    tool: bash {"command": "echo loud"}

    == turn
    text: done
"""


def tag(house: Machine, text: str, name: str = "mine") -> None:
    house.plugin(TAGS.replace("TAG", text), name)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


async def says(door: RuntimeUnderTest, text: str = "hello", **fields: Any) -> str:
    return said(await door.ask(await door.session(), text, **fields))


def rules(house: Machine, command: str, name: str = ".instar/hooks.json") -> Path:
    text = json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]}})
    return write(house.folder / name, text)


async def ran(house: Machine, door: RuntimeUnderTest) -> str:
    """What the model reads of a command that it runs."""
    house.says(BASH)
    session = await door.session()
    await door.ask(session, "go")
    return " ".join(results(await door.stored(session)))


# -- what is defined ---------------------------------------------------------------------------------------


async def test_nothing_is_published_where_nothing_changed(house: Machine) -> None:
    tag(house, "one")
    write(house.folder / ".instar/agents/poet.md", "---\ndescription: Writes\n---\nYou write.")
    write(house.folder / ".instar/tools/add.py", '"""Adds."""\nasync def execute(args, context): return "2"')
    rules(house, "exit 2")
    door = await house.open()
    loaded, models = door.runtime.instance.plugins.loaded, door.runtime.instance.models
    assert await reload(door) == ([], [])
    assert door.of("instance.reloaded") == []
    assert [*map(id, loaded)] == [*map(id, door.runtime.instance.plugins.loaded)]
    assert door.runtime.instance.models is models


@pytest.mark.parametrize(
    ("name", "text", "word", "look"),
    [
        (
            ".instar/agents/poet.md",
            "---\ndescription: Writes\n---\nYou write.",
            "agents",
            lambda one: [agent.name for agent in one.agents.all()][-1] == "poet",
        ),
        (".opencode/command/hi.md", "Say hi.", "commands", lambda one: one.commands.get("hi").template),
        (
            ".instar/skills/sing/SKILL.md",
            "---\nname: sing\ndescription: Sings\n---\nSing.",
            "skills",
            lambda one: "sing" in one.tools["skill"].description,
        ),
        ("instar.json", '{"instructions": ["a.md"]}', "instructions", lambda one: one.config.instructions),
        ("instar.json", '{"max_iterations": 3}', "limits", lambda one: one.config.max_iterations == 3),
        (
            "opencode.json",
            '{"permission": {"bash": "deny"}}',
            "permission",
            lambda one: one.agents.get("build").permission[-1].action == "deny",
        ),
        (
            "opencode.jsonc",
            '{"provider": {"own": {"models": {"m": {}}, "options": {"baseURL": "http://127.0.0.1:1"}}}}',
            "models",
            lambda one: one.models.find("own/m"),
        ),
        ("instar.jsonc", '{"username": "ada"}', "settings", lambda one: one.config.username == "ada"),
    ],
)
async def test_each_kind_of_definition_is_taken_up(
    house: Machine, name: str, text: str, word: str, look: Any
) -> None:
    door = await house.open()
    path = write(house.folder / name, text)
    assert await reload(door) == ([word], [])
    assert look(door.runtime.instance)
    path.unlink()
    assert await reload(door) == ([word], [])


async def test_many_changes_at_once_are_one_event(house: Machine) -> None:
    door = await house.open()
    write(house.folder / ".instar/agents/poet.md", "You write.")
    write(house.folder / ".instar/commands/hi.md", "Say hi.")
    house.settings(limits={"steps": 4})
    tag(house, "one")
    assert await reload(door) == (["agents", "commands", "limits", "plugin:mine"], [])


@pytest.mark.parametrize(
    ("name", "good", "bad", "place"),
    [
        (
            ".instar/agents/poet.md",
            "---\nmode: all\n---\nYou write.",
            "---\nmode: king\n---\nYou write.",
            "poet.md:2",
        ),
        (
            ".instar/commands/hi.md",
            "---\nagent: build\n---\nSay hi.",
            "---\nagent: [build\n---\nSay hi.",
            "hi.md:3",
        ),
        ("instar.json", '{"username": "ada"}', '{\n  "username": 4}', "instar.json:2:"),
        (
            ".instar/skills/sing/SKILL.md",
            "---\nname: sing\ndescription: Sings\n---\nSing.",
            "---\nname: sing\n---\nSing.",
            "SKILL.md:1: description",
        ),
    ],
)
async def test_a_file_with_a_mistake_holds_as_it_was_until_it_is_mended(
    house: Machine, name: str, good: str, bad: str, place: str
) -> None:
    path = write(house.folder / name, good)
    door = await house.open()

    def state() -> object:
        one = door.runtime.instance
        return one.config.agent, one.config.command, one.config.username, one.skills

    before = state()
    write(path, bad)
    what, (problem,) = await reload(door)
    assert (what, state()) == ([], before)
    assert str(house.folder) in problem
    assert place in problem
    assert await reload(door) == ([], []), "it is said once"
    write(path, good)
    assert await reload(door) == ([], [])
    assert door.of("instance.reloaded")[-1].problems == []
    assert len(door.of("instance.reloaded")) == 2


async def test_what_else_changed_is_taken_up_beside_a_definition_with_a_mistake(house: Machine) -> None:
    poet = write(house.folder / ".instar/agents/poet.md", "You write.")
    door = await house.open()
    write(poet, "---\nmode: king\n---\nYou write.")
    write(house.folder / ".instar/agents/baker.md", "You bake.")
    what, problems = await reload(door)
    assert (what, len(problems)) == (["agents"], 1)
    names = [agent.name for agent in door.runtime.instance.agents.all()]
    assert {"poet", "baker"} <= set(names)


async def test_a_running_turn_has_the_new_rules_at_its_next_step_and_the_systems_prompt_it_began_with(
    house: Machine,
) -> None:
    house.says("""
        == turn
        tool: bash {"command": "touch begun; while test ! -e go; do sleep 0.01; done; echo first"}

        == turn
        tool: bash {"command": "echo second"}

        == turn
        text: done
    """)
    agent = write(house.folder / ".instar/agents/poet.md", "You write poems.")
    door = await house.open()
    session = await door.session()
    await door.start(session, "go", agent="poet")
    await until((house.folder / "begun").exists)
    write(agent, "---\npermission:\n  bash: deny\n---\nYou bake.")
    assert await reload(door) == (["agents"], [])
    write(house.folder / "go", "")
    await door.idle(session)
    first, second = results(await door.stored(session))
    assert "first" in first
    assert "second" not in second
    requests = house.requests()
    assert len({json.dumps(one["system"]) for one in requests}) == 1
    assert "You write poems." in json.dumps(requests[-1]["system"])


async def test_a_new_session_has_the_new_prompt_of_an_agent(house: Machine) -> None:
    house.says(ECHO)
    agent = write(house.folder / ".instar/agents/poet.md", "You write poems.")
    door = await house.open()
    await says(door, agent="poet")
    write(agent, "You bake.")
    await reload(door)
    await says(door, agent="poet")
    assert "You bake." in json.dumps(house.requests()[-1]["system"])


async def test_a_turn_that_began_before_keeps_its_connection_until_it_ends(house: Machine) -> None:
    house.says("""
        == turn
        tool: bash {"command": "touch begun; while test ! -e go; do sleep 0.01; done"}

        == turn
        text: done
    """)
    door = await house.open()
    old = door.runtime.instance.models
    closed: list[bool] = []
    old.close, close = (lambda: _noted(closed, close)), old.close  # type: ignore[method-assign]
    session = await door.session()
    await door.start(session, "go")
    await until((house.folder / "begun").exists)
    house.settings(username="ada")
    await reload(door)
    assert door.runtime.instance.models is not old
    assert closed == []
    write(house.folder / "go", "")
    await door.idle(session)
    assert answer_of((await door.stored(session))[-1]).error is None
    await door.runtime.close()
    assert closed == [True]


async def _noted(closed: list[bool], close: Any) -> None:
    closed.append(True)
    await close()


# -- plugins -----------------------------------------------------------------------------------------------


async def test_a_plugin_that_changed_is_loaded_anew_in_its_place_and_the_others_stay(house: Machine) -> None:
    house.says(ECHO)
    for name in ("a", "b", "c"):
        tag(house, name, name)
    door = await house.open()
    before = door.runtime.instance.plugins.loaded
    assert await says(door) == "hello a b c"
    tag(house, "B", "b")
    assert await reload(door) == (["plugin:b"], [])
    assert await says(door) == "hello a B c"
    after = door.runtime.instance.plugins.loaded
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert (house.folder / "gone").read_text() == "b "


async def test_a_plugin_of_the_same_size_in_the_same_second_is_read_anew(house: Machine) -> None:
    house.says(ECHO)
    tag(house, "1")
    door = await house.open()
    for number in range(2, 5):
        tag(house, str(number))
        await reload(door)
        assert await says(door) == f"hello {number}"


async def test_a_plugin_that_is_gone_is_told_so_and_a_new_one_takes_part(house: Machine) -> None:
    house.says(ECHO)
    tag(house, "old", "old")
    door = await house.open()
    (house.folder / ".instar/plugins/old.py").unlink()
    tag(house, "new", "new")
    assert await reload(door) == (["plugin:new", "plugin:old"], [])
    assert await says(door) == "hello new"
    assert (house.folder / "gone").read_text() == "old "


@pytest.mark.parametrize("bad", ["this is no python", "async def mine(input, options): raise OSError('no')"])
async def test_a_plugin_that_does_not_load_anew_stays_as_it_was_until_it_is_mended(
    house: Machine, bad: str
) -> None:
    house.says(ECHO)
    tag(house, "one")
    door = await house.open()
    house.plugin(bad)
    what, (problem,) = await reload(door)
    assert what == []
    assert "mine.py is not loaded again, and stays as it was" in problem
    assert await says(door) == "hello one"
    assert not (house.folder / "gone").exists()
    tag(house, "two")
    assert await reload(door) == (["plugin:mine"], [])
    assert await says(door) == "hello two"


async def test_a_plugin_whose_end_hangs_does_not_hold_the_reload_up(
    house: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "DISPOSE", 0.05)
    monkeypatch.setattr(plugins, "GRACE", 0.01)
    house.says(ECHO)
    house.plugin("""
        import asyncio

        async def mine(input, options):
            async def dispose():
                await asyncio.sleep(1000)

            return {"dispose": dispose}
    """)
    door = await house.open()
    tag(house, "two")
    assert await reload(door) == (["plugin:mine"], [])
    assert await says(door) == "hello two"
    (error,) = door.of("plugin.error")
    assert (error.plugin, error.hook) == ("mine", "dispose")


async def test_a_plugin_hears_events_from_its_reload_on_and_the_one_before_it_no_more(house: Machine) -> None:
    house.says(ECHO)
    hearing = """
        async def mine(input, options):
            async def event(event):
                with open(input.directory / "heard", "a") as file:
                    file.write("NAME:" + event.type + " ")

            return {"event": event}
    """
    door = await house.open()
    house.plugin(hearing.replace("NAME", "one"))
    await reload(door)
    await says(door)
    heard = house.folder / "heard"
    await until(lambda: heard.exists() and "one:session.idle" in heard.read_text())
    house.plugin(hearing.replace("NAME", "two"))
    await reload(door)
    write(heard, "")
    await says(door)
    await until(lambda: "two:session.idle" in heard.read_text())
    assert "one:" not in heard.read_text()


async def test_what_a_plugin_contributed_is_replaced_and_stays_where_its_successor_fails(
    house: Machine,
) -> None:
    view = """
        from instar.plugin import Value, View

        async def mine(input, options):
            told = Value(doc="It.", read=lambda session_id: "TEXT", scope="instance")
            input.registry.add_view(View("mine", "Mine.", {"it": told}))
            FAIL
            return {}
    """

    def read() -> str:
        told = door.runtime.registry.views["mine"].children["it"]
        assert isinstance(told, Value)
        return str(told.read(""))

    house.plugin(view.replace("TEXT", "one").replace("FAIL", ""))
    door = await house.open()
    house.plugin(view.replace("TEXT", "two").replace("FAIL", ""))
    assert await reload(door) == (["plugin:mine"], [])
    assert read() == "two"
    house.plugin(view.replace("TEXT", "three").replace("FAIL", "raise OSError('no')"))
    await reload(door)
    assert read() == "two"
    (house.folder / ".instar/plugins/mine.py").unlink()
    await reload(door)
    assert "mine" not in door.runtime.registry.views


async def test_what_a_plugins_config_hook_says_holds_for_the_new_settings(house: Machine) -> None:
    house.plugin("""
        async def mine(input, options):
            async def config(config):
                config["username"] = config.get("username", "") + "!"

            return {"config": config}
    """)
    door = await house.open()
    house.settings(username="ada")
    assert await reload(door) == (["settings"], [])
    assert door.runtime.instance.config.username == "ada!"
    assert await reload(door) == ([], [])


async def test_a_tool_of_a_file_is_replaced_and_one_with_a_mistake_stays(house: Machine) -> None:
    text = '"""Says it."""\n\nasync def execute(args, context):\n    return "WORD"\n'
    house.says("== turn\ntool: say {}\n\n== turn\ntext: done\n")
    path = write(house.folder / ".instar/tools/say.py", text.replace("WORD", "one"))
    door = await house.open()

    async def called() -> list[str]:
        session = await door.session()
        await door.ask(session, "go")
        return results(await door.stored(session))

    assert await called() == ["one"]
    write(path, text.replace("WORD", "two"))
    assert await reload(door) == (["tools"], [])
    assert await called() == ["two"]
    write(path, "no python")
    what, (problem,) = await reload(door)
    assert (what, "say.py is skipped: SyntaxError" in problem) == (["tools"], True)
    assert await called() == ["two"]
    path.unlink()
    assert await reload(door) == (["tools"], [])
    assert "say" not in await door.runtime.tools()


async def test_an_mcp_server_whose_entry_changed_is_another_one_and_the_others_stay(house: Machine) -> None:
    def servers(**commands: str) -> None:
        house.settings(mcp={name: {"type": "local", "command": [one]} for name, one in commands.items()})

    door = await house.open()
    servers(a="true", b="true")
    assert await reload(door) == (["mcp:a", "mcp:b"], [])
    mcp = door.runtime.mcp
    assert mcp is not None
    assert door.runtime.instance.plugins.names[0] == "mcp"
    kept = mcp._servers["b"]
    servers(b="true", c="true")
    assert await reload(door) == (["mcp:a", "mcp:c"], [])
    assert [status.server for status in mcp.status()] == ["b", "c"]
    assert mcp._servers["b"] is kept


# -- trust and gates ---------------------------------------------------------------------------------------


async def test_trust_takes_effect_and_so_does_its_end(house: Machine) -> None:
    del house.environment["INSTAR_TRUST"]
    house.says(ECHO)
    tag(house, "one")
    write(house.folder / ".instar/tools/add.py", '"""Adds."""\nasync def execute(args, context): return "2"')
    door = await house.open()
    trust = Trust(Paths.from_environment(house.environment), house.environment)
    assert await says(door) == "hello"
    tag(house, "two")
    assert await reload(door) == ([], []), "what an untrusted folder says of code changes nothing"
    assert await says(door) == "hello"
    house.trust()
    assert await reload(door) == (["tools", "plugin:mine"], [])
    assert await says(door) == "hello two"
    trust.remove(house.folder)
    what, problems = await reload(door)
    assert what == ["tools", "plugin:mine"]
    assert any("mine.py was left out" in one for one in problems)
    assert await says(door) == "hello"
    assert (house.folder / "gone").read_text() == "two "


async def test_code_of_a_folder_that_is_trusted_no_more_ends_though_its_settings_cannot_be_read(
    house: Machine,
) -> None:
    del house.environment["INSTAR_TRUST"]
    house.says(ECHO)
    tag(house, "one")
    trust = house.trust()
    door = await house.open()
    write(house.folder / "instar.json", "{")
    trust.remove(house.folder)
    what, problems = await reload(door)
    assert what == ["plugin:mine"]
    assert "instar.json:1:2" in problems[0]
    assert await says(door) == "hello"


async def test_an_untrusted_project_loosens_no_permission_by_a_reload(house: Machine) -> None:
    del house.environment["INSTAR_TRUST"]
    house.settings(permission={"bash": "deny"})
    door = await house.open()
    write(house.folder / "opencode.json", '{"permission": {"bash": "allow"}}')
    write(house.folder / ".opencode/agents/build.md", "---\npermission:\n  bash: allow\n---\n")
    _, problems = await reload(door)
    assert problems
    assert not (await ran(house, door)).startswith("loud")


async def test_rules_of_hooks_hold_from_the_reload_on(house: Machine) -> None:
    door = await house.open()
    assert (await ran(house, door)).startswith("loud")
    path = rules(house, "echo not here >&2; exit 2")
    assert await reload(door) == (["plugin:hooks"], [])
    assert door.runtime.instance.plugins.names[-1] == "hooks"
    assert "not here" in await ran(house, door)
    path.unlink()
    assert await reload(door) == (["plugin:hooks"], [])
    assert (await ran(house, door)).startswith("loud")
    assert not path.exists(), "what is guarded no more is not put there for a shield"


async def test_rules_that_a_person_accepted_hold_until_they_accept_others(house: Machine) -> None:
    del house.environment["INSTAR_TRUST"]
    trust = Trust(Paths.from_environment(house.environment), house.environment)
    path = rules(house, "echo not here >&2; exit 2")
    trust.add(house.folder)
    door = await house.open()
    rules(house, "true")
    what, (said,) = await reload(door)
    assert what == []
    assert ".instar/hooks.json (changed): not as accepted" in said
    assert "not here" in await ran(house, door)
    path.unlink()
    await reload(door)
    assert "not here" in await ran(house, door)
    rules(house, "true")
    trust.add(house.folder)
    assert await reload(door) == (["plugin:hooks"], [])
    assert (await ran(house, door)).startswith("loud")


async def test_a_rule_that_nobody_accepted_is_not_heard_until_somebody_does(house: Machine) -> None:
    del house.environment["INSTAR_TRUST"]
    trust = Trust(Paths.from_environment(house.environment), house.environment)
    trust.add(house.folder)
    door = await house.open()
    rules(house, "echo not here >&2; exit 2")
    what, (said,) = await reload(door)
    assert what == []
    assert ".instar/hooks.json (new): not as accepted" in said
    assert (await ran(house, door)).startswith("loud")
    trust.add(house.folder)
    assert await reload(door) == (["plugin:hooks"], [])
    assert "not here" in await ran(house, door)


async def test_a_gate_is_there_while_its_successor_is_made_and_stays_where_that_fails(house: Machine) -> None:
    rules(house, "echo not here >&2; exit 2")
    door = await house.open()
    house.plugin("""
        import asyncio

        async def slow(input, options):
            (input.directory / "loading").touch()
            while not (input.directory / "go").exists():
                await asyncio.sleep(0.01)
            return {}
    """)
    rules(house, "echo nor here >&2; exit 2")
    reloading = asyncio.create_task(reload(door))
    await until((house.folder / "loading").exists)
    assert "not here" in await ran(house, door)
    write(house.folder / "go", "")
    assert await reloading == (["plugin:mine", "plugin:hooks"], [])
    assert "nor here" in await ran(house, door)


async def test_a_gate_that_cannot_be_loaded_keeps_the_whole_reload_from_being_taken_up(
    house: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await house.open()
    monkeypatch.setattr("instar.plugins.hooks.server.server", None)
    rules(house, "exit 2")
    tag(house, "one")
    house.settings(username="ada")
    what, (problem,) = await reload(door)
    assert what == []
    assert "hooks is skipped" in problem
    assert door.runtime.instance.config.username is None
    assert door.runtime.instance.plugins.names == []
    assert (house.folder / "gone").read_text() == "one "


async def test_a_switch_in_the_settings_turns_it_off_and_a_person_may_still_ask(house: Machine) -> None:
    house.settings(reload=False)
    door = await house.open()
    door.runtime.watch()
    write(house.folder / ".instar/agents/poet.md", "You write.")
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "reload"] == []
    assert await reload(door) == (["agents"], [])
