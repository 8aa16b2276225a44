import json

import pytest

WRITTEN = json.dumps(
    {
        "name": "docs-writer",
        "description": 'Use this agent when: docs are "wanted".\nAlways.',
        "prompt": "You write docs.\n---\nAnd check them.",
    }
)


@pytest.mark.slow
def test_agents_are_listed_the_default_one_first_and_hidden_ones_when_asked_for(machine):
    machine.write_home("agent/rev.md", "---\ndescription: Reviews\nmode: subagent\nmodel: a/b\n---\nx")
    done = machine.instar("agent", "list")
    assert done.returncode == 0
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == ["build", "explore", "general", "plan", "rev"]
    assert "rev      subagent  Reviews (a/b)" in done.stdout
    everything = json.loads(machine.instar("agent", "list", "--all", "--json").stdout)
    assert {agent["name"] for agent in everything} == {*names, "title", "summary", "compaction"}


def test_an_agent_is_shown_with_its_rules_and_its_prompt(machine):
    machine.write_home(
        "agent/rev.md", "---\ntemperature: 0.2\nfoo: bar\npermission:\n  edit: deny\n---\nBe kind."
    )
    shown = machine.instar("agent", "show", "rev").stdout
    assert "temperature: 0.2\n" in shown
    assert 'options: {"foo": "bar"}\n' in shown
    assert '  edit "*": deny\n\nBe kind.\n' in shown
    data = json.loads(machine.instar("agent", "show", "rev", "--json").stdout)
    assert (data["mode"], data["prompt"], data["native"]) == ("all", "Be kind.", False)
    assert data["permission"][-1] == {"permission": "edit", "pattern": "*", "action": "deny"}


def test_an_unknown_agent_is_one_line(machine):
    done = machine.instar("agent", "show", "biuld")
    assert done.returncode == 2
    assert done.stderr.startswith("instar: there is no agent 'biuld'; there are: build")
    assert done.stderr.count("\n") == 1


def test_an_agent_is_written_by_a_model_and_can_be_read(machine):
    machine.script(f"== generate\ntext: Here it is: {WRITTEN}\n")
    done = machine.instar("agent", "create", "-m", "scripted/x", "--mode", "subagent", "writes", "docs")
    path = machine.project / ".instar/agent/docs-writer.md"
    assert (done.returncode, done.stdout) == (0, f"made: {path}\n"), done.stderr
    data = json.loads(machine.instar("agent", "show", "docs-writer", "--json").stdout)
    assert data["mode"] == "subagent"
    assert data["description"] == 'Use this agent when: docs are "wanted". Always.'
    assert data["prompt"] == "You write docs.\n---\nAnd check them."


def test_an_agent_is_not_written_over_another(machine):
    machine.script(f"== generate\ntext: {WRITTEN}\n")
    path = machine.write_home("agent/mine.md", "as it was")
    done = machine.instar("agent", "create", "-m", "scripted/x", "--home", "--name", "mine", "docs")
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert path.read_text() == "as it was"


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("text: no idea", (), "the model did not answer with a JSON object but 'no idea'"),
        ('text: {"name": "a"}', (), "the model's answer has no text for 'description'"),
        (f"text: {WRITTEN}", ("--name", "../up"), "an agent's name is small letters"),
        (f"text: {WRITTEN.replace('docs-writer', '../../up')}", (), "an agent's name is small letters"),
        ("error: 400 nonsense", (), "no agent was made: "),
    ],
)
def test_what_cannot_become_an_agent_is_one_line_and_no_file(machine, text, arguments, said):
    machine.script(f"== generate\n{text}\n")
    done = machine.instar("agent", "create", "-m", "scripted/x", *arguments, "docs")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (machine.project / ".instar").exists()


def test_a_plugin_may_change_what_the_model_is_told_when_it_writes_an_agent(machine):
    machine.write_home(
        "plugins/mine.py",
        "async def mine(input, options):\n"
        "    async def system(given, output):\n"
        "        assert (given.session_id, given.purpose) == (None, 'agent')\n"
        "        output.system.append('Only agents that rhyme.')\n"
        "    return {'chat.system.transform': system}\n",
    )
    answer = '{"name": "poet", "description": "rhymes", "prompt": "Rhyme."}'
    machine.script(f"== generate\ntext: {answer}\n")
    machine.environment["INSTAR_SCRIPT_RECORD"] = str(machine.home / "record.jsonl")
    done = machine.instar("agent", "create", "-m", "scripted/x", "rhymes")
    assert done.returncode == 0, done.stderr
    assert "Only agents that rhyme." in (machine.home / "record.jsonl").read_text()
