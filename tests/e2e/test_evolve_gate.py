"""The gate in sessions and commands: what a person sees of it, and what the model reads."""

import itertools
import json
import re
import socket

import pytest

TEST = "#!/bin/sh\nexit 0\n"
DISCOVER = {"name": "bot", "test": "bot_test.sh", "tools": [{"name": "greet"}]}


def script(execute: str = """echo '{"result": "hello"}'""", **fields: object) -> str:
    said = json.dumps({**DISCOVER, **fields})
    return (
        f"#!/bin/sh\ncase $1 in\ndiscover) echo '{said}';;\nexecute_tool) {execute};;\n"
        """*) echo '{"error": "unknown hook: '$1'"}'; exit 1;;\nesac\n"""
    )


def tool(name: str, **args: object) -> str:
    return f"== turn\ntool: {name} {json.dumps(args)}\n"


@pytest.fixture
def bot(person):
    """A workspace with one script, its test and a prompt, in a repository of its own."""
    person.script("bot.sh", script())
    person.write("tests/bot_test.sh", TEST, 0o755)
    person.write("prompts/chat.md", "Be kind.\n")
    person.commit_all()
    return person


@pytest.mark.slow
async def test_a_late_crasher_is_rolled_back_and_the_session_that_goes_on_reads_why(bot):
    broken = script("""[ -e late ] && exit 3; echo '{"result": "hello"}'""")
    bot.config(evolve={"probation_failures": 1})
    bot.tell(
        tool("bot_greet")
        + tool("evolve_hook_write", hook="bot.sh", content=broken)
        + "== turn\ntext: done\n"
        + tool("bot_greet") * 2
        + tool("bot_greet")
        + "== turn\ntext: I see\n"
    )
    door = await bot.open()
    session = await door.session()
    assert await door.ask(session) == "done"
    assert (bot.root / "hooks" / "bot.sh").read_text() == broken
    (bot.root / "late").write_text("")
    assert await door.ask(session) == "I see"
    assert bot.subjects()[:2] == ["roll back hooks/bot.sh", "evolve_hook_write bot.sh"]
    assert (bot.root / "hooks" / "bot.sh").read_text() == script()
    assert bot.results()[-1] == "hello"
    assert len(bot.requests()) == 7
    told = [one for one in bot.said() if "[evolve] hooks/bot.sh was rolled back" in one]
    assert len(told) == 1
    texts = [part for found in await door.history(session) for part in found.parts if part.type == "text"]
    (kept,) = [part for part in texts if part.text.startswith("[evolve]")]
    assert kept.synthetic
    assert "execute_tool crash" in kept.text


@pytest.mark.slow
def test_what_would_reach_more_waits_also_with_auto_and_is_installed_by_the_persons_command(bot):
    held = script(sandbox={"write": ["state"]})
    bot.run(tool("evolve_hook_write", hook="bot.sh", content=held) + "== turn\ntext: done\n", "--auto")
    bot.run(tool("evolve_hook_write", hook="bot.sh", content=script()) + "== turn\ntext: done\n", "--auto")
    said = bot.results()[-1]
    found = re.search(r"instar evolve approve ([0-9a-f]{8})", said)
    assert found is not None, said
    assert (bot.root / "hooks" / "bot.sh").read_text() == held
    assert found[1] in bot.instar("evolve", "pending").stdout
    bot.instar("evolve", "approve", found[1])
    assert (bot.root / "hooks" / "bot.sh").read_text() == script()
    assert found[1] not in bot.instar("evolve", "pending").stdout


@pytest.mark.slow
def test_a_file_changed_by_hand_is_told_at_the_end_of_a_run_and_not_run(bot):
    bot.run(tool("bot_greet") + "== turn\ntext: done\n")
    (bot.root / "hooks" / "bot.sh").write_text(script("""echo '{"result": "by hand"}'"""))
    ran = bot.run(tool("bot_greet") + "== turn\ntext: done\n")
    assert bot.results()[-1] == "hello"
    assert "hooks/bot.sh was changed" in ran.stderr
    bot.instar("evolve", "accept", "--yes", "hooks/bot.sh")
    bot.run(tool("bot_greet") + "== turn\ntext: done\n")
    assert bot.results()[-1] == "by hand"


@pytest.mark.slow
async def test_an_install_changes_what_a_running_session_sends_before_its_messages_once_at_most(bot):
    grown = script(tools=[{"name": "greet"}, {"name": "wave"}])
    bot.tell(
        tool("bot_greet")
        + tool("evolve_hook_write", hook="bot.sh", content=grown)
        + tool("bot_wave")
        + tool("evolve_prompt_write", prompt="chat.md", content="Be brief.\n")
        + tool("bot_greet")
        + "== turn\ntext: done\n"
    )
    door = await bot.open()
    await door.ask(await door.session())
    heads = [json.dumps([request["system"], request["tools"]]) for request in bot.requests()]
    assert len(heads) == 6
    assert [one != other for one, other in itertools.pairwise(heads)] == [
        False,
        True,  # the new tool
        False,
        False,
        False,
    ]


@pytest.mark.slow
def test_new_scripts_come_only_where_the_person_allows_it_in_their_own_settings(bot):
    fresh = script(name="fresh", test="fresh_test.sh")
    call = tool("evolve_hook_write", hook="fresh.sh", content=fresh, test=TEST) + "== turn\ntext: done\n"
    bot.run(call)
    assert not (bot.root / "hooks" / "fresh.sh").exists()
    bot.config(evolve={"create": "allow"})
    bot.run(call)
    assert "Installed hooks/fresh.sh" in bot.results()[-1]
    assert (bot.root / "tests" / "fresh_test.sh").read_text() == TEST


def test_a_project_that_nobody_trusts_cannot_loosen_the_gate(bot):
    (bot.project / "instar.json").write_text(json.dumps({"evolve": {"create": "allow", "unsafe": True}}))
    fresh = script(name="fresh", test="fresh_test.sh")
    call = tool("evolve_hook_write", hook="fresh.sh", content=fresh, test=TEST) + "== turn\ntext: done\n"
    bot.run(call)
    assert not (bot.root / "hooks" / "fresh.sh").exists()


VETO = """
async def veto(input, options=None):
    async def candidate(given, output):
        if "forbidden" in given.after:
            raise ValueError(f"{given.path} by {given.tool}: we do not say {given.diff.count('forbidden')} time")

    return {"evolve.candidate": candidate}
"""


@pytest.mark.slow
async def test_another_plugin_may_refuse_a_candidate_that_passed_its_trials(bot, caplog):
    (bot.home / ".config" / "instar" / "plugin").mkdir(parents=True)
    (bot.home / ".config" / "instar" / "plugin" / "veto.py").write_text(VETO)
    wanted = script("""echo '{"result": "forbidden"}'""")
    fine = script("""echo '{"result": "allowed"}'""")
    bot.tell(
        tool("evolve_hook_write", hook="bot.sh", content=wanted)
        + tool("evolve_hook_write", hook="bot.sh", content=fine)
        + "== turn\ntext: done\n"
    )
    door = await bot.open()
    assert await door.ask(await door.session()) == "done"
    said = bot.results()[0]
    assert (
        "hooks/bot.sh was not changed: the plugin veto refused it: hooks/bot.sh by evolve_hook_write: "
        in said
    )
    assert "(refused at the stage hooks)" in said
    assert (bot.root / "hooks" / "bot.sh").read_text() == fine
    assert bot.subjects()[0] == "evolve_hook_write bot.sh"
    assert "unknown hook" not in caplog.text


NEEDY = """\
#!/usr/bin/env python3
import json, os, socket, sys

if sys.argv[1] == "discover":
    print(json.dumps({"tools": [{"name": name, "description": "Say it."} for name in ("greet", "home")]}))
elif sys.argv[1] == "execute_tool":
    given = json.load(sys.stdin)
    if given["tool"] == "greet":
        socket.create_connection(("127.0.0.1", PORT)).close()
    print(json.dumps({"result": "hello " + (os.environ["SHIP"] if given["tool"] == "home" else "")}))
else:
    print(json.dumps({"error": f"unknown hook: {sys.argv[1]}"}))
    sys.exit(1)
"""


@pytest.mark.slow
def test_the_replay_tells_which_past_calls_used_the_network_or_a_variable(person):
    with socket.create_server(("127.0.0.1", 0)) as server:
        person.script("bot.py", NEEDY.replace("PORT", str(server.getsockname()[1])))
        person.commit_all()
        calls = tool("bot_greet") * 2 + tool("bot_home")
        edit = tool("evolve_hook_edit", hook="bot.py", oldString='"hello "', newString='"hi "')
        person.run(calls + edit + "== turn\ntext: done\n", SHIP="Argo")
    *answers, told = person.results()
    assert answers == ["hello ", "hello ", "hello Argo"]
    assert re.search(
        r"On 2 of \d+ recorded calls the live version needs the network, which a replay does not", told
    )
    assert re.search(
        r"On 1 of \d+ recorded calls the live version needs the variable SHIP, which a replay does not", told
    )
    assert "ask for it in `sandbox`" in told
