"""Agents and commands from Markdown files: where they are found, how they are read, what a stranger's may do."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from instar.definitions.agent import Agents
from instar.definitions.markdown import complete, untrusted_places
from instar.git.project import Project
from instar.settings.load import Settings, read_settings
from instar.settings.paths import Paths
from instar.settings.permission import decide
from instar.settings.rules import AGENTS
from instar.settings.trust import Trust

REVIEW_AGENT = """\
---
description: Reviews code for quality and best practices
mode: subagent
model: anthropic/claude-sonnet-4-5
temperature: 0.1
tools:
  write: false
  edit: false
  bash: true
  "mymcp_*": no
permission:
  edit: deny
  bash: ask
  bash "git push": deny
  bash "git *": allow
  webfetch: deny
disable: false
reasoningEffort: high
---

You review code.
"""


class Place:
    """A person's home and a project."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.project = root / "project"
        self.project.mkdir()
        (self.project / ".git").mkdir()
        self.environment = dict(environment)
        self.paths = Paths.from_environment(environment)
        self.home = self.paths.config
        self.mistakes: list[str] = []

    def write(self, name: str, text: str, *, home: bool = False) -> Path:
        path = (self.home if home else self.project) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def read(self, *, trusted: bool = True, directory: str = ".") -> Settings:
        environment = {**self.environment, **({"INSTAR_TRUST": "all"} if trusted else {})}
        trust = Trust(self.paths, environment)
        here = (self.project / directory).resolve()
        project = Project("p", self.project.resolve(), here, "git")
        read = read_settings(here, project, self.paths, environment, {}, trust)
        found, mistakes = complete(read, project, self.paths, trust)
        self.mistakes = [str(mistake).replace(str(self.project), "P") for mistake in mistakes]
        return found

    def agents(self, **options: Any) -> Agents:
        return Agents(self.read(**options).config)


@pytest.fixture
def place(tmp_path: Path, clean_environment: Mapping[str, str]) -> Place:
    return Place(tmp_path, clean_environment)


def test_an_agent_file_is_read_with_every_field_and_decides_as_written(place: Place) -> None:
    place.write(".opencode/agent/review.md", REVIEW_AGENT)
    agent = place.agents().get("review")
    assert place.mistakes == []
    assert agent.description == "Reviews code for quality and best practices"
    assert (agent.mode, agent.temperature, agent.prompt) == ("subagent", 0.1, "You review code.")
    assert agent.model is not None
    assert (agent.model.provider_id, agent.model.model_id) == ("anthropic", "claude-sonnet-4-5")
    assert agent.options == {"reasoningEffort": "high"}

    def action(permission: str, pattern: str = "*") -> str:
        return decide([permission], [pattern], agent.permission).action

    assert action("edit", "a.py") == "deny"
    assert action("webfetch", "https://x") == "deny"
    assert action("mymcp_find") == "deny"
    assert action("bash", "ls") == "ask"
    assert action("bash", "git log") == "allow"
    # The last rule that matches decides: `git *` stands after `git push`.
    assert action("bash", "git push") == "allow"
    assert action("grep") == "allow"


def test_every_field_of_an_agent_reaches_it(place: Place) -> None:
    head = 'mode: primary\ntop_p: 0.5\nsteps: 3\nhidden: yes\ncolor: "#ff00aa"\nvariant: 1\nname: other'
    place.write(".opencode/agent/x.md", f"---\n{head}\n---\nHi")
    agent = place.agents().get("other")
    assert (agent.mode, agent.top_p, agent.steps, agent.hidden) == ("primary", 0.5, 3, True)
    assert (agent.color, agent.variant, agent.prompt) == ("#ff00aa", "1", "Hi")


def test_an_agent_that_is_disabled_is_gone(place: Place) -> None:
    place.write(".opencode/agent/plan.md", "---\ndisable: yes\n---\n")
    assert "plan" not in {agent.name for agent in place.agents().all()}


def test_definitions_are_found_in_every_folder_home_first_and_the_later_wins(place: Place) -> None:
    place.write("agent/a.md", "home", home=True)
    place.write("agents/only/home.md", "---\nmode: all\n---\nx", home=True)
    place.write(".opencode/agents/team/rev.md", "team")
    place.write(".opencode/mode/m.md", "mode")
    place.write(".instar/agent/a.md", "worktree")
    place.write("inner/.opencode/agent/a.md", "inner")
    place.write("inner/.opencode/agent/.hidden.md", "no")
    place.write("inner/.opencode/agent/notes.txt", "no")
    found = place.agents(directory="inner")
    names = {agent.name for agent in found.all() if not agent.native}
    assert names == {"a", "only/home", "team/rev", "m"}
    assert found.get("a").prompt == "inner"
    assert found.get("m").mode == "primary"
    assert place.agents().get("a").prompt == "worktree"


def test_a_file_and_a_block_of_the_configuration_are_one_agent_and_the_file_wins(place: Place) -> None:
    place.write("opencode.json", '{"agent": {"a": {"description": "json", "steps": 2}}}')
    place.write(".opencode/agent/a.md", "---\ndescription: file\n---\nx")
    agent = place.agents().get("a")
    assert (agent.description, agent.steps) == ("file", 2)


def test_the_origin_of_what_a_file_says_is_the_file(place: Place) -> None:
    path = place.write(".opencode/agent/a.md", "---\nsteps: 2\n---\nx")
    assert place.read().origins["agent.a.steps"] == str(path)


ACTION = "expected allow, ask or deny (or a map of them), found"
COLOUR = (
    "expected #RRGGBB in quotes or one of primary, secondary, accent, success, warning, error, info, found"
)
COMMENT = "nothing (a # begins a comment: put it in quotes)"
MODES = "subagent, primary, all"


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("permission:\n  edit: no", f":3: permission.edit: {ACTION} 'no'; write deny"),
        ("permission:\n  edit: true", f":3: permission.edit: {ACTION} true or false; write allow"),
        ('permission:\n  bash "x": maybe', f":3: permission.bash \"x\": {ACTION} 'maybe'"),
        ("temperature: 0.0-1.0", ":2: temperature: expected a number, found a string"),
        ("steps: 0", ":2: steps: expected an integer >= 1, found 0"),
        ("mode: subagent | primary | all", f":2: mode: expected one of {MODES}, found 'subagent | primary | all'"),
        ("tools: all", ":2: tools: expected a map, found a string"),
        ("tools:\n  write: maybe", ":3: tools.write: expected true or false, found a string"),
        ("tempreature: 1", ":2: tempreature: there is no such field; did you mean temperature?"),
        ("color: #fff000", f":2: color: {COLOUR} {COMMENT}"),
        ("color: red", f":2: color: {COLOUR} 'red'"),
        ("description: [a", ":3: expected YAML: did not find expected ',' or ']'"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_file_line_and_field_and_its_neighbours_load(
    place: Place, head: str, said: str
) -> None:
    place.write(".opencode/agent/bad.md", f"---\n{head}\n---\nx")
    place.write(".opencode/agent/good.md", "fine")
    found = place.agents()
    assert place.mistakes == [f"P/.opencode/agent/bad.md{said}"]
    assert {agent.name for agent in found.all() if not agent.native} == {"good"}


def test_a_file_that_is_no_text_or_too_large_is_a_mistake(place: Place) -> None:
    (place.write(".opencode/agent/a.md", "")).write_bytes(b"\xff\xfe")
    place.write(".opencode/agent/b.md", "x" * 300_000)
    place.read()
    assert place.mistakes == [
        "P/.opencode/agent/a.md:1: expected UTF-8 text, found the byte 0xff",
        "P/.opencode/agent/b.md:1: expected at most 256 KiB",
    ]


def test_a_command_without_a_text_is_a_mistake_and_others_are_settings(place: Place) -> None:
    place.write(".opencode/command/empty.md", "---\ndescription: x\n---\n")
    place.write(".opencode/command/team/go.md", "---\ndescription: 7\nsubtask: yes\nagent: plan\n---\nGo $1")
    found = place.read().config.command
    assert place.mistakes == [
        "P/.opencode/command/empty.md:4: expected the command's text below the front matter"
    ]
    command = found["team/go"]
    assert (command.description, command.subtask, command.template) == ("7", True, "Go $1")


def test_an_untrusted_folders_agent_says_its_text_and_only_tightens(place: Place) -> None:
    place.write("instar.json", '{"permission": {"bash": "deny"}}', home=True)
    text = '---\nsecret: x\npermission:\n  bash: allow\n  edit: deny\n  bash "ls": ask\n---\nHello'
    place.write(".opencode/agent/theirs.md", text)
    read = place.read(trusted=False)
    agent = Agents(read.config).get("theirs")
    assert agent.prompt == "Hello"
    assert agent.options == {}
    assert decide(["edit"], ["a"], agent.permission).action == "deny"
    assert decide(["bash"], ["ls"], agent.permission).action == "deny"
    assert any("agent.theirs.permission.bash" in sentence for sentence in read.dropped)
    assert place.read(trusted=True).dropped == []


def test_an_untrusted_folder_does_not_replace_the_prompt_of_an_agent_that_is_there(place: Place) -> None:
    place.write("agent/mine.md", "---\nmode: all\n---\nMine", home=True)
    place.write(".opencode/agent/build.md", "Evil")
    place.write(".opencode/agent/mine.md", "Evil")
    read = place.read(trusted=False)
    found = Agents(read.config)
    assert found.get("mine").prompt == "Mine"
    assert {agent.name for agent in found.all() if agent.native} == AGENTS
    assert [one.prompt for one in found.all() if "Evil" in (one.prompt or "")] == []
    assert [word for word in ("build", "mine") if f"agent.{word}.prompt" in str(read.dropped)] == [
        "build",
        "mine",
    ]
    assert Agents(place.read(trusted=True).config).get("build").prompt == "Evil"


def test_an_untrusted_block_does_not_loosen_an_agent_of_the_home_folder(place: Place) -> None:
    place.write("agent/mine.md", "---\npermission:\n  edit: deny\n---\nx", home=True)
    place.write("opencode.json", '{"agent": {"mine": {"permission": {"edit": "ask"}}}}')
    found = place.agents(trusted=False).get("mine")
    assert decide(["edit"], ["a"], found.permission).action == "deny"
    trusting = place.agents().get("mine")
    assert decide(["edit"], ["a"], trusting.permission).action == "ask"


def test_an_untrusted_block_does_not_loosen_what_a_built_in_agent_may_not_do(place: Place) -> None:
    place.write(".opencode/agent/plan.md", "---\npermission:\n  edit: ask\n---\nx")
    assert decide(["edit"], ["a"], place.agents(trusted=False).get("plan").permission).action == "deny"
    assert decide(["edit"], ["a"], place.agents().get("plan").permission).action == "ask"


def test_an_untrusted_folders_link_out_of_the_project_is_not_read(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere" / "secret.md"
    secret.parent.mkdir()
    secret.write_text("---\ndescription: private\n---\nprivate")
    place.write(".opencode/agent/a.md", "fine")
    (place.project / ".opencode/agent/b.md").symlink_to(secret)
    (place.project / ".opencode/agents").symlink_to(secret.parent)
    names = {agent.name for agent in place.agents(trusted=False).all() if not agent.native}
    assert names == {"a"}
    assert {"b", "secret"} <= {agent.name for agent in place.agents().all()}


def test_folders_that_link_to_each_other_are_entered_once(place: Place) -> None:
    place.write(".opencode/agent/a.md", "x")
    (place.project / ".opencode/agent/again").symlink_to(place.project / ".opencode/agent")
    assert {agent.name for agent in place.agents().all() if not agent.native} == {"a"}


def test_an_untrusted_command_keeps_its_text_but_not_its_shell(place: Place) -> None:
    place.write(".opencode/command/shell.md", "Look: !`id`")
    place.write(".opencode/command/text.md", "Look: $ARGUMENTS")
    read = place.read(trusted=False)
    assert set(read.config.command) == {"text"}
    assert any("command.shell" in sentence and "may not run code" in sentence for sentence in read.dropped)
    assert untrusted_places(read)("command.text.template")
    assert not untrusted_places(place.read())("command.text.template")


def test_without_definitions_the_settings_stay_as_they_are(place: Place) -> None:
    trust = Trust(place.paths, place.environment)
    project = Project("p", place.project.resolve(), place.project.resolve(), "git")
    read = read_settings(place.project, project, place.paths, place.environment, {}, trust)
    assert complete(read, project, place.paths, trust) == (read, [])
