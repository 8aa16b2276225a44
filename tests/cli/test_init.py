import json
import os

import pytest


@pytest.mark.slow
def test_a_made_folder_has_a_workspace_whose_tool_the_model_can_call(machine, tmp_path):
    folder = tmp_path / "mine"
    done = machine.instar("init", str(folder))
    assert done.returncode == 0, done.stderr
    assert os.access(folder / "workspace/hooks/own.py", os.X_OK)
    machine.script('== turn\ntool: own_greet {"who": "Ada"}\n== turn\ntext: {{last.tool.output}}\n')
    done = machine.run("--dir", str(folder), "greet Ada")
    assert (done.stdout, done.returncode) == ("Hello, Ada!\n", 0)
    assert "skipped" not in done.stderr


@pytest.mark.slow
def test_the_made_script_passes_its_own_test(machine, tmp_path):
    folder = tmp_path / "mine"
    machine.instar("init", str(folder))
    workspace = folder / "workspace"
    done = machine.instar(
        "evolve", "--workspace", str(workspace), "validate", str(workspace / "hooks/own.py")
    )
    assert done.returncode == 0, done.stderr
    assert "all is well" in done.stdout


def test_a_made_folder_is_trusted_and_others_are_not(machine, tmp_path):
    machine.instar("init", str(tmp_path / "mine"))
    trusted = json.loads(machine.instar("trust", "--list", "--json").stdout)
    assert trusted == [str(tmp_path / "mine"), str(tmp_path / "mine/workspace")]


def test_nothing_that_is_there_is_changed(machine):
    path = machine.write("workspace/hooks/own.py", "mine")
    done = machine.instar("init")
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert path.read_text() == "mine"
    assert not (machine.project / "instar.json").exists()


@pytest.mark.slow
def test_init_says_what_to_do_next_and_that_works(machine):
    said = machine.instar("init", "my own").stdout.splitlines()[-1]
    assert said.startswith("next: cd 'my own' && instar run ")
    done = machine.instar("run", "-m", "scripted/echo", "hello", cwd=machine.project / "my own")
    assert (done.returncode, done.stdout) == (0, "hello\n")


@pytest.mark.slow
def test_in_a_made_folder_evolve_finds_the_workspace_that_its_settings_name(machine):
    machine.instar("init", "mine")
    done = machine.instar("evolve", "status", cwd=machine.project / "mine")
    assert done.returncode == 0, done.stderr
    assert f"workspace  {machine.project / 'mine/workspace'} (the plugin's workspace option)" in done.stdout
    assert "tools own_greet" in done.stdout


@pytest.mark.slow
def test_a_script_that_a_person_broke_is_named_at_the_end_of_a_run(machine):
    machine.instar("init", ".")
    with (machine.project / "workspace/hooks/own.py").open("a") as file:
        file.write("def (\n")
    done = machine.instar("run", "-m", "scripted/echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "instar: evolve: own.py discover: ended with exit code 1" in done.stderr
    assert "SyntaxError" in done.stderr


def test_a_configuration_with_a_mistake_is_one_line_for_evolve_too(machine):
    machine.write("instar.json", '{"model": 3}')
    done = machine.instar("evolve", "status")
    assert done.returncode == 2
    assert "instar.json:1:11: model: expected a string" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_untrusted_folders_workspace_is_not_taken_and_that_is_said(machine, tmp_path):
    machine.write("instar.json", json.dumps({"plugin": [["evolve", {"workspace": str(tmp_path)}]]}))
    done = machine.instar("evolve", "status")
    assert done.returncode == 1
    assert "not trusted, so skipped" in done.stderr
    assert "(the default)" in done.stderr


def test_what_cannot_be_trusted_leaves_no_half_made_folder(machine, tmp_path):
    machine.environment["INSTAR_DATA"] = str(machine.write_home("file", ""))
    done = machine.instar("init", str(tmp_path / "mine"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "a file stands where a folder is needed" in done.stderr
    del machine.environment["INSTAR_DATA"]
    assert machine.instar("init", str(tmp_path / "mine")).returncode == 0
