"""Plugin folders: what `instar plugin` shows, asks and keeps, and what a session has of them."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Screen

FOLDERS = Path(__file__).parent.parent / "data/plugin-folders"


def copy(machine: Machine, name: str) -> Path:
    """A plugin folder of the tests' data, as a folder of the person's."""
    return shutil.copytree(FOLDERS / name, machine.home / "plugins" / name)


def add(machine: Machine, *words: str) -> str:
    """Add a plugin, and return what was printed."""
    done = machine.instar("plugin", "add", "--yes", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    return done.stdout.strip()


def repository(folder: Path) -> str:
    """Make a repository of a folder; return its commit."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return git(folder, "rev-parse", "HEAD")


def installed(machine: Machine) -> list[dict[str, str]]:
    return json.loads(machine.instar("plugin", "list", "--json").stdout)


def accepted_root(machine: Machine, name: str) -> Path:
    """Where the accepted files of a plugin stand."""
    (found,) = machine.home.rglob(f"instar/accepted/*/*/**/plugins/{name}")
    return found


def call(tool: str, **arguments: object) -> str:
    return f"tool: {tool} {json.dumps(arguments)}\n"


# -- adding -------------------------------------------------------------------------------------------


def test_adding_shows_what_a_plugin_brings_and_pins_its_content(machine: Machine) -> None:
    folder = copy(machine, "guard")
    told = add(machine, str(folder))
    assert told.splitlines()[:-1] == [
        "guard 1.0.0 Refuses commands that push by force",
        "command guard:release:check; unasked while it is at work: bash echo, read; it runs echo v$1",
        "command guard:extra",
        'rule PreToolUse Bash: command python3 "${CLAUDE_PLUGIN_ROOT}/scripts/refuse.py"',
        "rule TeammateIdle *: command false",
    ]
    (one,) = installed(machine)
    assert told.splitlines()[-1] == f"added: guard (content {one['digest'][:12]})"
    assert (one["name"], one["source"], one["state"]) == ("guard", str(folder), "as accepted")


@pytest.mark.slow
def test_what_cannot_be_used_of_a_plugin_is_said(machine: Machine) -> None:
    told = add(machine, str(FOLDERS / "weather"))
    assert "not taken: output styles" in told
    assert "mcpServers.odd: type: instar has no transport 'ws'; it was left out" in told
    assert "left out" in machine.instar("doctor").stdout


@pytest.mark.slow
def test_without_a_terminal_a_plugin_is_added_only_if_yes_is_said(machine: Machine) -> None:
    done = machine.instar("plugin", "add", str(FOLDERS / "guard"))
    assert done.returncode == 1
    assert "say --yes" in done.stderr
    assert installed(machine) == []
    machine.environment["INSTAR_RUN"] = "1"
    done = machine.instar("plugin", "add", "--yes", str(FOLDERS / "guard"))
    assert done.returncode == 1
    assert "instar plugin is a person's" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "kept"), [("y\n", True), ("n\n", False), ("\x03", False)])
def test_a_person_is_asked_and_an_interrupt_leaves_nothing(
    machine: Machine, screen: Callable[..., Screen], typed: str, kept: bool
) -> None:
    shown = screen("plugin", "add", str(FOLDERS / "guard"), TMPDIR=str(machine.project))
    shown.wait_for("Use guard? What it brings may then run on this machine. [y/n/show]")
    shown.type("show\n")
    shown.wait_for("+{")
    shown.type(typed)
    assert (shown.end() == 0) == kept
    assert len(installed(machine)) == kept
    assert not list(machine.project.glob("instar-plugin-*"))


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("nowhere", "nowhere is no folder, and no URL of a git repository"),
        (".", "is no plugin: it has neither .claude-plugin/plugin.json nor plugin.json"),
        ("ext::sh -c touch% ran", "is no folder, and no URL of a git repository"),
        ("https://--upload-pack=x/y", ""),
        (str(FOLDERS / "market"), "has more than one plugin: name one; there are: beyond, lint, local"),
    ],
)
def test_a_source_that_holds_no_plugin_is_named(machine: Machine, source: str, why: str) -> None:
    machine.write("readme.md", "nothing")
    done = machine.instar("plugin", "add", "--yes", source)
    assert done.returncode == 1
    assert why in done.stderr
    assert not (machine.project / "ran").exists()


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("{", ".claude-plugin/plugin.json:"),
        ('{"name": "../x"}', "name: expected small letters"),
        ('{"name": "x", "commands": "../up"}', "names ../up, which does not lie in its folder"),
    ],
)
def test_a_manifest_with_a_mistake_adds_nothing(machine: Machine, manifest: str, why: str) -> None:
    machine.write(".claude-plugin/plugin.json", manifest)
    done = machine.instar("plugin", "add", "--yes", ".")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert why in done.stderr
    assert installed(machine) == []


@pytest.mark.slow
def test_a_link_inside_a_plugin_is_its_file_and_one_that_leads_out_refuses_it(machine: Machine) -> None:
    folder = copy(machine, "guard")
    (folder / "commands/again.md").symlink_to("release/check.md")
    assert "command guard:again" in add(machine, str(folder))
    (folder / "commands/secret.md").symlink_to("/etc/hostname")
    done = machine.instar("plugin", "update", "--yes", "guard")
    assert done.returncode == 1
    assert "commands/secret.md is a link to /etc/hostname, which is no file of the plugin" in done.stderr


# -- git ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_repository_is_pinned_to_its_commit_and_updated_when_asked(machine: Machine) -> None:
    folder = copy(machine, "guard")
    first = repository(folder)
    git(folder, "tag", "v1")
    hook = folder / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {machine.home}/ran\n")
    hook.chmod(0o755)
    url = folder.as_uri()
    assert f"added: guard (commit {first[:12]})" in add(machine, url)
    (folder / "scripts/why.txt").write_text("Not so.\n")
    second = git(folder, "commit", "-qam", "two") or git(folder, "rev-parse", "HEAD")
    assert (accepted_root(machine, "guard") / "scripts/why.txt").read_text() == "No push by force.\n"
    done = machine.instar("plugin", "update", "--yes", "--json")
    assert json.loads(done.stdout)["commit"] == second
    assert "changed: scripts/why.txt" in done.stderr
    assert json.loads(machine.instar("plugin", "update", "--json").stdout)["changed"] is False
    machine.instar("plugin", "remove", "guard")
    assert f"commit {first[:12]}" in add(machine, url, "--ref", "v1")
    assert not (machine.home / "ran").exists()


@pytest.mark.slow
def test_an_agent_plugin_of_a_repository_keeps_which_files_may_be_run(machine: Machine) -> None:
    folder = copy(machine, "portable")
    repository(folder)
    add(machine, folder.as_uri())
    root = accepted_root(machine, "acme.counter")
    assert os.access(root / "skills/count/scripts/count.sh", os.X_OK)
    assert (root / "plugin.json").stat().st_mode & 0o777 == 0o444


@pytest.mark.slow
def test_nothing_outside_of_a_repository_is_brought_along_with_it(machine: Machine) -> None:
    folder = copy(machine, "guard")
    inner = copy(machine, "reviewer")
    repository(inner)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    repository(folder)
    add(machine, folder.as_uri())
    assert not (accepted_root(machine, "guard") / "inner").exists()
    (folder / "up").symlink_to("../../../.bashrc")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "two")
    done = machine.instar("plugin", "update", "--yes")
    assert done.returncode == 1
    assert "up is a link to ../../../.bashrc" in done.stderr


def test_a_repository_that_is_not_there_is_said_without_a_question(machine: Machine) -> None:
    done = machine.instar("plugin", "add", "--yes", f"file://{machine.home}/none")
    assert done.returncode == 1
    assert "cannot be read" in done.stderr


# -- marketplaces -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("beyond", "outside of its marketplace"),
        ("local", "which is not taken"),
        ("packaged", "which is not taken"),
        ("nothing", "has no plugin 'nothing'; there are: beyond, lint, local, other, packaged"),
    ],
)
def test_a_marketplace_names_no_file_of_the_machine(machine: Machine, name: str, why: str) -> None:
    done = machine.instar("plugin", "add", "--yes", str(FOLDERS / "market"), name)
    assert done.returncode == 1
    assert why in done.stderr


@pytest.mark.slow
def test_a_plugin_of_a_marketplace_is_described_by_its_entry(machine: Machine) -> None:
    told = add(machine, str(FOLDERS / "market"), "lint")
    assert "command lint:long" in told
    assert "rule SessionStart *: command echo lint is here" in told
    machine.script("== turn\nexpect: lint is here\ntext: seen\n")
    assert machine.run("hello").stdout == "seen\n"


@pytest.mark.slow
def test_a_marketplace_in_a_repository_has_its_plugins_pinned_to_the_commit(machine: Machine) -> None:
    folder = copy(machine, "market")
    first = repository(folder)
    assert f"added: other (commit {first[:12]})" in add(machine, folder.as_uri(), "other")
    (folder / "plugins/other/SKILL.md").write_text("new")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "two")
    told = machine.instar("plugin", "update", "--yes", "other").stdout
    assert "changed: SKILL.md" in told
    assert f"commit {git(folder, 'rev-parse', 'HEAD')[:12]}" in told


# -- in a session -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plugins_rule_refuses_a_call_and_finds_its_own_files(machine: Machine) -> None:
    add(machine, str(FOLDERS / "guard"))
    machine.script(
        f"== turn\n{call('bash', command='git push --force')}\n== turn\nexpect: No push by force\ntext: no\n"
    )
    done = machine.run("push it")
    assert done.stdout == "no\n"
    assert "TeammateIdle" not in done.stderr
    (seen,) = machine.home.rglob("plugin-data/guard/seen")
    assert seen.read_text() == "git push --force\n"
    machine.instar("plugin", "remove", "guard")
    assert not seen.exists()
    assert installed(machine) == []


@pytest.mark.slow
def test_a_plugins_command_runs_its_shell_and_what_it_allows_ends_with_the_turn(machine: Machine) -> None:
    add(machine, str(FOLDERS / "guard"))
    machine.write_home("instar.json", '{"permission": {"bash": "ask"}}')
    machine.script(
        f"== turn\nexpect: Check version 2. The tag is v2\n{call('bash', command='echo released')}\n"
        f"== turn\nexpect: released\n{call('bash', command='echo a && touch b')}\n"
        "== turn\nexpect: needs a person's answer\ntext: checked\n"
        f"== turn\n{call('bash', command='echo again')}\n== turn\nexpect: needs a person's answer\ntext: asked\n"
    )
    assert machine.run("/guard:release:check 2").stdout == "checked\n"
    assert machine.run("-c", "and now").stdout == "asked\n"


@pytest.mark.slow
def test_a_skill_says_its_files_and_allows_nothing_that_a_rule_denies(machine: Machine) -> None:
    add(machine, str(FOLDERS / "reviewer"))
    machine.write_home("instar.json", '{"permission": {"bash": {"*": "ask", "echo no*": "deny"}}}')
    rules = accepted_root(machine, "reviewer") / "skills/review/references/rules.md"
    machine.script(
        "== turn\nexpect_tool: skill\n"
        f"{call('skill', name='reviewer:review')}\n"
        "== turn\nexpect: (?s)Its other files.*references/rules.md.*Read references/rules.md in /\n"
        f"{call('read', filePath=str(rules))}\n== turn\nexpect: Names are nouns\n"
        f"{call('bash', command='echo yes')}\n== turn\nexpect: yes\n{call('bash', command='echo no')}\n"
        f"== turn\nexpect: specified a rule which prevents\n{call('skill', name='reviewer:notes')}\n"
        "== turn\nexpect: There is no skill\ntext: done\n"
    )
    done = machine.run("review it")
    assert done.stdout == "done\n", done.stderr
    machine.script("== turn\nexpect: Write notes since May\ntext: written\n")
    assert machine.run("/reviewer:notes May").stdout == "written\n"


@pytest.mark.slow
def test_a_repositorys_skill_allows_nothing_and_ones_own_does(machine: Machine) -> None:
    text = "---\nname: {}\ndescription: Says hi\nallowed-tools: Bash(echo:*)\n---\nSay hi.\n"
    machine.write(".claude/skills/theirs/SKILL.md", text.format("theirs"))
    own = machine.home / ".claude/skills/mine/SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text(text.format("mine"))
    machine.instar("trust")
    machine.write_home("instar.json", '{"permission": {"bash": "ask"}}')
    machine.script(
        f"== turn\n{call('skill', name='theirs')}\n== turn\n{call('bash', command='echo hi')}\n"
        f"== turn\nexpect: needs a person's answer\n{call('skill', name='mine')}\n"
        f"== turn\n{call('bash', command='echo hi')}\n== turn\nexpect: hi\ntext: done\n"
    )
    assert machine.run("go").stdout == "done\n"


@pytest.mark.slow
def test_a_plugins_agent_has_the_tools_that_it_names(machine: Machine) -> None:
    add(machine, str(FOLDERS / "reviewer"))
    shown = json.loads(machine.instar("agent", "show", "reviewer:critic", "--json").stdout)
    assert shown["mode"] == "subagent"
    assert f"{accepted_root(machine, 'reviewer')}/skills/review/references/rules.md" in shown["prompt"]
    denied = {rule["permission"] for rule in shown["permission"] if rule["action"] == "deny"}
    assert {"bash", "edit", "webfetch", "task"} <= denied
    assert not {"read", "grep", "glob"} & denied


@pytest.mark.slow
def test_a_plugins_server_offers_its_tools(machine: Machine) -> None:
    add(machine, str(FOLDERS / "weather"))
    machine.environment["WEATHER_CITY"] = "Bergen"
    # The person's settings count more than the plugin's.
    servers = {"weather:near": {"timeout": 60_000}, "weather:far": {"enabled": False}}
    machine.write_home("instar.json", json.dumps({"mcp": servers}))
    machine.script(
        f"== turn\n{call('weather_near_now')}\n== turn\nexpect: rain in Bergen, root named: True\ntext: wet\n"
    )
    assert machine.run("weather?").stdout == "wet\n"
    named = json.loads(machine.instar("config", "show", "--json").stdout)["config"]["mcp"]
    assert (named["weather:far"]["enabled"], named["weather:near"]["timeout"]) == (False, 60_000)
    assert named["weather:far"]["headers"].keys() == {"X-Key"}


@pytest.mark.slow
def test_an_agent_plugin_brings_its_skill_and_the_servers_that_are_valid(machine: Machine) -> None:
    told = add(machine, str(FOLDERS / "portable"))
    assert [line.partition(": ")[0] for line in told.splitlines()[1:-1]] == [
        "skill acme.counter:count",
        "MCP server acme.counter:lines",
        *["left out"] * 3,
    ]
    root = accepted_root(machine, "acme.counter")
    server = json.loads(machine.instar("config", "show", "--json").stdout)["config"]["mcp"][
        "acme.counter:lines"
    ]
    assert server["command"][0] == f"{root}/bin/lines"
    assert server["command"][2] == "${HOME}"
    assert server["cwd"] == str(root)
    script = root / "skills/count/scripts/count.sh"
    machine.write("three.txt", "1\n2\n3\n")
    machine.script(
        f"== turn\n{call('skill', name='acme.counter:count')}\n"
        f"== turn\nexpect: scripts/count.sh\n{call('bash', command=f'{script} three.txt')}\n"
        f"== turn\nexpect: 3\n{call('write', filePath=str(script), content='x')}\n== turn\ntext: counted\n"
    )
    assert machine.run("count").stdout == "counted\n"
    assert script.read_text().startswith("#!/bin/sh")


def test_an_agent_plugin_of_another_version_is_refused(machine: Machine) -> None:
    folder = copy(machine, "portable")
    manifest = folder / "plugin.json"
    manifest.write_text(manifest.read_text().replace("/1.0.0/", "/9.0.0/"))
    done = machine.instar("plugin", "add", "--yes", str(folder))
    assert done.returncode == 1
    assert "other versions are not known" in done.stderr


# -- what changed -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_changed_in_a_folder_is_not_used_until_it_is_accepted(
    machine: Machine, screen: Callable[..., Screen]
) -> None:
    folder = copy(machine, "guard")
    add(machine, str(folder))
    (folder / "extra.md").write_text("Something else.\n")
    (folder / "hooks/hooks.json").write_text("{}")
    machine.script("== turn\nexpect: Say what the guard refuses\ntext: old\n")
    assert machine.run("/guard:extra").stdout == "old\n"
    assert "changed since; instar plugin update guard" in machine.instar("plugin", "list").stdout
    assert machine.instar("plugin", "update").returncode == 1
    shown = screen("plugin", "update", "guard")
    shown.wait_for("[y/n/show]")
    assert "changed: extra.md, hooks/hooks.json" in shown.text
    shown.type("show\n")
    shown.wait_for("+Something else.")
    shown.type("y\n")
    assert shown.end() == 0
    machine.script("== turn\nexpect: Something else\ntext: new\n")
    assert machine.run("/guard:extra").stdout == "new\n"


@pytest.mark.slow
def test_a_second_plugin_of_a_name_does_not_take_the_place_of_the_first(machine: Machine) -> None:
    add(machine, str(FOLDERS / "guard"))
    done = machine.instar("plugin", "add", "--yes", str(copy(machine, "guard")))
    assert done.returncode == 1
    assert "there is a plugin guard already" in done.stderr
    assert machine.instar("plugin", "remove", "gard").returncode == 2


@pytest.mark.slow
def test_the_list_of_plugins_that_cannot_be_read_is_said_and_the_run_goes_on(machine: Machine) -> None:
    add(machine, str(FOLDERS / "guard"))
    (noted,) = machine.home.rglob("instar/plugins.json")
    noted.write_text("{")
    machine.script("== turn\ntext: hello\n")
    done = machine.run("hi")
    assert done.stdout == "hello\n"
    assert "plugins.json cannot be read, so no plugin is used" in done.stderr


@pytest.mark.slow
def test_plugins_that_claude_codes_settings_name_are_not_taken_and_are_named(machine: Machine) -> None:
    machine.write(".claude/settings.json", '{"enabledPlugins": {"lint@tools": true}}')
    told = machine.instar("doctor").stdout
    assert ".claude/settings.json names plugins or marketplaces of Claude Code" in told
    assert "lint@tools" in told
