import json
import sys

import pytest


def sent(machine):
    record = machine.home / "record.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return [line["messages"] for line in lines if line["purpose"] == "turn"][-1]


def prepared(machine):
    machine.script("== turn\ntext: done\n")
    machine.environment["INSTAR_SCRIPT_RECORD"] = str(machine.home / "record.jsonl")
    machine.write_home("command/greet.md", "Greet $1 as $NAME.")


def test_a_command_is_run_by_its_name_with_the_message_as_its_arguments(machine):
    prepared(machine)
    done = machine.run("--command", "greet", "Ada", "NAME=Bob")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "Greet Ada as Bob." in str(sent(machine))


def test_a_command_needs_no_message(machine):
    prepared(machine)
    assert machine.run("--command", "greet").returncode == 0
    assert "Greet  as ." in str(sent(machine))


def test_a_message_with_a_slash_is_a_command_where_there_is_one(machine):
    prepared(machine)
    machine.run("/greet Ada NAME=Bob")
    assert "Greet Ada as Bob." in str(sent(machine))
    machine.run("/etc/hosts what is it")
    assert "/etc/hosts what is it" in str(sent(machine))


def test_an_unknown_command_is_one_line_with_the_nearest(machine):
    prepared(machine)
    done = machine.run("--command", "great", "x")
    assert done.returncode == 2
    assert done.stderr.startswith("instar: there is no command 'great'; there are: greet")


def test_the_words_of_a_message_mention_files_and_what_is_piped_in_does_not(machine):
    prepared(machine)
    machine.write("a.txt", "content of a")
    machine.write("b.txt", "content of b")
    machine.run("Look at @a.txt", stdin=b"and @b.txt")
    text = str(sent(machine))
    assert "content of a" in text
    assert "@b.txt" in text
    assert "content of b" not in text


@pytest.mark.slow
def test_a_person_at_a_terminal_is_asked_for_the_names_that_are_missing(machine, screen):
    prepared(machine)
    shown = screen("run", "-m", "scripted/test", "--command", "greet", "Ada")
    shown.wait_for("NAME: ")
    shown.type('it\'s "me"\n')
    assert shown.end() == 0
    assert 'Greet Ada as it\'s "me".' in json.dumps(sent(machine)).replace('\\"', '"')


@pytest.mark.slow
def test_a_skill_is_called_as_a_command_is(machine):
    prepared(machine)
    machine.write_home("skill/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\nPut $1 away.")
    machine.run("/tidy toys")
    assert "Put toys away." in str(sent(machine))
    machine.run("--command", "tidy", "books")
    assert "Put books away." in str(sent(machine))


PROMPTS = """
from mcp.server import MCPServer

server = MCPServer("polite")


@server.prompt()
def greet(name: str) -> str:
    "Greet somebody."
    return f"Say hello to {name}."


server.run()
"""


@pytest.mark.slow
def test_a_prompt_of_an_mcp_server_is_called_as_a_command_is(machine):
    prepared(machine)
    server = machine.write_home("polite.py", PROMPTS)
    block = {"type": "local", "command": [sys.executable, str(server)], "timeout": 60_000}
    machine.write_home("instar.json", json.dumps({"mcp": {"polite": block}}))
    machine.run("--command", "polite:greet", "Ada")
    assert "Say hello to Ada." in str(sent(machine))
    machine.run("/polite:greet Bob")
    assert "Say hello to Bob." in str(sent(machine))
    done = machine.run("--command", "polite:bow")
    assert (done.returncode, "there is no command 'polite:bow'" in done.stderr) == (2, True)
    machine.run("/polite:bow low")
    assert "/polite:bow low" in str(sent(machine))
