"""What a shell completes: asked as its script asks, and by a person's TAB in the shell itself."""

import json
import shutil
import subprocess
import sys

import pytest

SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], 'eval "$(instar completion bash)"'),
    "zsh": (["-f", "-i"], 'autoload -U compinit; compinit -u; eval "$(instar completion zsh)"'),
    "fish": (["--no-config"], "instar completion fish | source"),
}
"""How each shell is started without a person's own start-up files, and what they would put there."""


@pytest.fixture
def complete(machine):
    """Return the words that complete a line, as bash asks for them."""

    def ask(line: str) -> list[str]:
        words = line.split(" ")
        asking = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_INSTAR_COMPLETE": "bash_complete"}
        before = dict(machine.environment)
        machine.environment |= asking
        done = machine.instar()
        machine.environment = before
        assert done.stderr == ""
        return [entry.partition(",")[2] for entry in done.stdout.split()]

    return ask


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_without_a_name_the_script_is_that_of_the_persons_shell(machine, shell):
    machine.environment["SHELL"] = f"/usr/bin/{shell}"
    assert machine.instar("completion").stdout == machine.instar("completion", shell).stdout != ""


@pytest.mark.parametrize("shell", ["", "/bin/dash"])
def test_a_shell_without_a_script_is_asked_for_by_name(machine, shell):
    machine.environment["SHELL"] = shell
    done = machine.instar("completion")
    assert done.returncode == 2
    assert done.stderr == "instar: name a shell: bash, zsh, fish (see: instar completion --help)\n"


def test_commands_and_those_in_them_are_completed(complete):
    assert complete("instar com") == ["completion"]
    assert set(complete("instar config ")) == {"check", "schema", "show"}
    assert "--version" in complete("instar --")


def test_pages_of_the_documentation_are_completed(complete):
    assert complete("instar docs script") == ["scripted"]


def test_bash_takes_the_script(machine):
    script = machine.instar("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("shell", [one for one in SHELLS if shutil.which(one)])
def test_a_tab_completes_a_word_in_the_shell(machine, screen, tmp_path, shell):
    """bash is everywhere; zsh and fish are tried where they are installed."""
    server = {"garden": {"type": "local", "command": ["true"]}}
    provider = {"mine": {"options": {"baseURL": "http://127.0.0.1:9/v1"}, "models": {"some:big": {}}}}
    machine.write_home("instar.json", json.dumps({"mcp": server, "provider": provider}))
    instar = tmp_path / "bin/instar"
    instar.parent.mkdir()
    instar.write_text(f'#!/bin/sh\nexec {sys.executable} -m instar "$@"\n')
    instar.chmod(0o755)
    start, script = SHELLS[shell]
    terminal = screen(
        *start,
        argv=[shutil.which(shell)],
        PATH=f"{instar.parent}:{machine.environment['PATH']}",
        PS1="$ ",
        PROMPT="$ ",
    )
    terminal.type(f"{script}; echo re''ady\r")
    terminal.wait_for("ready")
    for begun, whole in (
        ("instar mcp approve gar", "instar mcp approve garden"),
        ("instar hooks test PreToolUse --tool WebF", "--tool WebFetch"),
        ("instar run -m mine/some:b", "instar run -m mine/some:big"),
        ("instar perm", "instar permission"),
    ):
        terminal.type(f"{begun}\t")
        terminal.wait_until(lambda whole=whole: any(row.rstrip().endswith(whole) for row in terminal.rows))
        terminal.type("\x15")


def test_names_of_a_folder_are_completed_without_running_its_plugins(machine, complete):
    plugin = "async def server(input, options=None):\n    open('ran', 'w')\n    return {}\n"
    machine.write(".instar/plugins/mine.py", plugin)
    machine.write(".instar/agent/gardener.md", "---\ndescription: Plants.\n---\nPlant.\n")
    machine.write_home("plugins/own.py", plugin)
    assert complete("instar run --agent gard") == ["gardener"]
    assert complete("instar run -m scripted/e") == ["scripted/echo"]
    machine.instar("trust", ".")
    assert complete("instar agent show gard") == ["gardener"]
    assert not (machine.project / "ran").exists()


def test_names_of_another_folder_are_completed_after_its_option(machine, complete, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/instar.json").write_text('{"mcp": {"shed": {"type": "local", "command": ["true"]}}}')
    assert complete(f"instar mcp approve --dir {tmp_path / 'other'} ") == []
    machine.instar("trust", str(tmp_path / "other"))
    assert complete(f"instar mcp approve --dir {tmp_path / 'other'} ") == ["shed"]
    assert complete("instar mcp approve ") == []


def test_tools_and_agents_of_rules_are_completed(complete):
    assert {"bash", "background"} <= set(complete("instar hooks test PreToolUse --tool ba"))
    assert complete("instar hooks test PreToolUse --tool WebF") == ["WebFetch"]
    assert complete("instar hooks test PreToolUse --agent buil") == ["build"]


def test_keys_of_settings_are_completed(machine, complete):
    machine.write_home("instar.json", json.dumps({"agent": {"plan": {"steps": 3}}}))
    assert complete("instar config show agent") == ["agent", "agent.plan.steps"]


def test_providers_are_completed_and_to_forget_a_key_those_that_have_one(machine, complete):
    assert "anthropic" in complete("instar auth login a")
    machine.instar("auth", "login", "openai", stdin=b"sk-1\n")
    assert complete("instar auth logout ") == ["openai"]


def test_sessions_and_what_was_always_allowed_are_completed(machine, complete):
    machine.script("== turn\ntext: hi\n")
    machine.run("hello")
    (session,) = json.loads(machine.instar("session", "list", "--json").stdout)
    for line in ("instar run -s ", "instar session show ", "instar stats --session ", "instar session self "):
        assert complete(line) == [session["id"]]
    assert complete("instar permission remove ") == []


@pytest.mark.slow
def test_changes_files_and_what_waits_of_a_workspace_are_completed(machine, complete, tmp_path):
    workspace = tmp_path / "mine/workspace"
    machine.instar("init", str(tmp_path / "mine"))
    machine.script(
        '== when "go" once\ntool: evolve_hook_edit {"hook": "own.py", "find": "Hello", "replace": "Ahoy"}\n'
        "== turn\ntext: ok\n"
    )
    machine.run("--dir", str(tmp_path / "mine"), "go")
    evolve = f"instar evolve --workspace {workspace}"
    assert complete(f"{evolve} pin hooks/") == ["hooks/own.py"]
    first, *_ = complete(f"{evolve} show ")
    assert machine.instar("evolve", "--workspace", str(workspace), "show", first).returncode == 0
    assert complete(f"{evolve} rollback ")[0] == first
    assert complete(f"{evolve} approve ") == []
    (workspace / "evals").mkdir(exist_ok=True)
    (workspace / "evals" / "first.md").write_text(
        "---\ncall: own.py idle\nchecks: [{contains: x}]\n---\n{}\n"
    )
    assert complete(f"{evolve} eval ") == ["first"]
    machine.instar("evolve", "--workspace", str(workspace), "pin", "hooks/own.py")
    assert complete(f"{evolve} unpin ") == ["hooks/own.py"]
