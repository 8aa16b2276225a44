"""Published plugins of Claude Code, as npm carries them, are installed and do their work:
docs/guides/plugin-folders.md.

The versions are pinned. Nothing but npm's registry is on the network, and what they would run of other programs is not
there: what they bring is looked at, and the rules of one of them run.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

PLUGINS = {
    "agent-reviews@0.7.0": ("agent-reviews", ["skill agent-reviews:agent-reviews;"]),
    "@coo-quack/sensitive-canary@0.8.1": (
        "sensitive-canary",
        ["rule PreToolUse Read|NotebookRead|Bash|Grep|mcp__.*:"],
    ),
    "ecc-universal@2.0.0": ("ecc", ["MCP server ecc:github:", "skill ecc:x-api", "rule SessionStart *:"]),
    "selfish-pipeline@1.3.0": ("selfish", ["command selfish:plan;", "agent selfish:selfish-architect;"]),
    "claude-dev-environment-setup@1.4.0": (
        "dev-environment-setup",
        ["skill dev-environment-setup:environment-check"],
    ),
}
"""Each package with the plugin's name, and what adding it says among others."""
PATIENCE = 120.0


class Person:
    """Somebody with a home, a project, and the plugins' packages unpacked."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project, self.packages = folder / "home", folder / "project", folder / "packages"
        for made in (self.home, self.project, self.packages):
            made.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}

    def unpack(self, package: str) -> Path:
        """Fetch a package and return its folder."""
        done = subprocess.run(
            ["npm", "pack", "--silent", "--pack-destination", str(self.packages), package],
            cwd=self.packages,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        folder = self.packages / package.replace("/", "_")
        with tarfile.open(self.packages / done.stdout.split()[-1]) as archive:
            archive.extractall(folder, filter="data")
        return folder / "package"

    def instar(self, *words: str) -> str:
        """Run a command to its end and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "instar", *words],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person(tmp_path_factory.mktemp("person"))


@pytest.mark.parametrize("package", PLUGINS)
def test_a_published_plugin_is_added_and_says_what_it_brings(person: Person, package: str) -> None:
    name, wanted = PLUGINS[package]
    told = person.instar("plugin", "add", "--yes", str(person.unpack(package)))
    assert f"added: {name} (content " in told
    assert [line for line in wanted if line not in told] == []
    assert "left out" not in told
    assert name in {one["name"] for one in json.loads(person.instar("plugin", "list", "--json"))}


def test_the_rules_and_commands_of_a_published_plugin_work_in_a_session(person: Person) -> None:
    for name in ("ecc", "sensitive-canary", "agent-reviews"):
        person.instar("plugin", "remove", name)
    script = person.home / "script.txt"
    script.write_text(
        "== turn\nexpect: (?s)Implementation Design.*big feature\n"
        'tool: bash {"command": "git push --force"}\n'
        "== turn\nexpect: SELFISH GUARD: git push --force is blocked\ntext: then not\n"
        '== turn\nexpect: SELFISH GATE\ntool: bash {"command": "rm .claude/.selfish-active"}\n'
        "== turn\ntext: done\n"
    )
    (person.project / ".claude").mkdir()
    (person.project / ".claude/.selfish-active").write_text("feature")
    person.environment["INSTAR_SCRIPT"] = str(script)
    assert person.instar("run", "-m", "scripted/test", "/selfish:plan a big feature").endswith("done\n")
    armed = person.instar("hooks", "check")
    assert "plugin selfish: hooks/hooks.json" in armed
    shown = json.loads(person.instar("agent", "show", "selfish:selfish-security", "--json"))
    assert {"permission": "edit", "pattern": "*", "action": "deny"} in shown["permission"]
