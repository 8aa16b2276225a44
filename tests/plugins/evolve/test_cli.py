"""`instar evolve`, as a person calls it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from instar.plugins.evolve.cli import command


class Trust:
    def is_trusted(self, folder: Path) -> bool:
        return False


class Given:
    """What the command line hands to a command."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.trust = Trust()
        self.options: dict[str, Any] = {}

    def plugin_options(self, name: str) -> dict[str, Any]:
        assert name == "evolve"
        return self.options


@pytest.fixture
def run(tmp_path):
    def call(*args: Any, options: dict[str, Any] | None = None, **environment: str) -> Result:
        given = Given({"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path / "home"), **environment})
        given.options = options or {}
        return CliRunner().invoke(command, [str(arg) for arg in args], obj=given)

    return call


def test_status_shows_scripts_tests_tools_and_problems(kit, run, hello):
    kit.script(hello / "hooks", "later.py", "x", mode=0o644)
    said = run("--workspace", hello, "status")
    assert said.exit_code == 0
    assert f"workspace  {hello} (--workspace)" in said.output
    assert (
        "hooks/hello.py: name hello, test tests/hello_test.py, tools hello_note_list, hello_note_read"
        in said.output
    )
    assert "history    no repository yet" in said.output
    assert "problem    later.py is missing its run bit" in said.output


def test_status_of_broken_settings_names_the_place_and_exits_1(run, hello):
    (hello / "config" / "evolve.jsonc").write_text("{\n oops\n}")
    said = run("status", INSTAR_WORKSPACE=str(hello))
    assert said.exit_code == 1
    assert "evolve.jsonc:2:2: expected" in said.output


def test_an_untrusted_workspace_is_shown_but_nothing_in_it_runs(kit, run, tmp_path):
    root = tmp_path / "home" / "workspace"
    kit.shell(root, "a.sh", discover="{}")
    said = run("status")
    assert said.exit_code == 1
    assert "hooks/a.sh (not run)" in said.output
    assert "is not trusted" in said.output
    assert run("validate", root / "hooks" / "a.sh").exit_code == 1
    assert kit.calls(root, "a.sh", "discover") == []


def test_a_workspace_that_does_not_exist_is_one_line(run, tmp_path):
    said = run("status")
    assert said.exit_code == 1
    assert said.output.count("\n") == 1
    assert f"there is no workspace at {tmp_path}/home/workspace (the default)" in said.output


def test_validate_tries_a_file_with_the_test_and_installs_nothing(kit, run, hello, tmp_path):
    before = kit.files(hello)
    good = kit.script(tmp_path / "new", "hello.py", (hello / "hooks" / "hello.py").read_text() + "\n# more\n")
    said = run("--workspace", hello, "validate", good)
    assert said.exit_code == 0, said.output
    assert "hooks/hello.py would be installed: tests/hello_test.py passed" in said.output
    good.write_text("#!/usr/bin/env python3\noops(\n")
    said = run("--workspace", hello, "validate", good)
    assert said.exit_code == 1
    assert "would be refused" in said.output
    assert "SyntaxError" in said.output
    assert kit.files(hello) == before


def test_validate_of_a_script_that_the_workspace_does_not_have_is_refused(kit, run, hello, tmp_path):
    said = run("--workspace", hello, "validate", kit.script(tmp_path, "other.py", "#!/bin/sh\n"))
    assert said.exit_code == 1
    assert "no hook script hooks/other.py" in said.output


def test_log_lists_the_newest_commits_first(kit, run, hello):
    assert "is no git repository yet" in run("--workspace", hello, "log").output
    kit.git(hello, "init", "-q")
    for subject in ("first", "second"):
        kit.git(hello, "commit", "-qm", subject, "--allow-empty")
    said = run("--workspace", hello, "log", "-n", "1")
    assert (said.exit_code, said.output.count("\n"), said.output.split()[-1]) == (0, 1, "second")


def test_the_workspace_may_be_named_before_and_after_the_subcommand(kit, run, hello):
    for arguments in (("--workspace", hello, "status"), ("status", "--workspace", hello)):
        assert f"workspace  {hello} (--workspace)" in run(*arguments).output


def test_the_configurations_workspace_is_used_where_the_person_named_none(run, hello, tmp_path):
    said = run("status", options={"workspace": str(hello)})
    assert f"workspace  {hello} (the plugin's workspace option)" in said.output
    assert "is not trusted" in said.output
    named = run("status", options={"workspace": str(tmp_path / "no")}, INSTAR_WORKSPACE=str(hello))
    assert f"workspace  {hello} (INSTAR_WORKSPACE)" in named.output


def test_status_as_json_has_what_the_lines_have(kit, run, hello):
    shown = json.loads(run("status", "--workspace", hello, "--json").output)
    (script,) = shown["scripts"]
    assert (script["file"], script["name"], script["test"]) == (
        "hooks/hello.py",
        "hello",
        "tests/hello_test.py",
    )
    assert "hello_note_read" in script["tools"]
    assert (shown["workspace"], shown["active"], shown["problems"]) == (str(hello), True, [])


def test_status_names_a_setting_that_means_nothing(run, hello):
    (hello / "config" / "evolve.jsonc").write_text('{"hook_timeuot": 3}')
    said = run("status", "--workspace", hello)
    assert said.exit_code == 0
    assert "unknown setting 'hook_timeuot' is ignored; did you mean 'hook_timeout'?" in said.output


def test_status_names_a_test_that_is_missing(run, hello):
    (hello / "tests" / "hello_test.py").unlink()
    assert "its test tests/hello_test.py is missing" in run("status", "--workspace", hello).output


def test_the_log_as_json_has_id_time_and_subject(kit, run, hello):
    kit.git(hello, "init", "-q")
    kit.git(hello, "commit", "-qm", "first of many", "--allow-empty")
    (entry,) = json.loads(run("log", "--workspace", hello, "--json").output)
    assert (sorted(entry), entry["subject"]) == (["id", "subject", "time"], "first of many")
