import json
import os


def test_a_made_folder_has_a_workspace_whose_tool_the_model_can_call(machine, tmp_path):
    folder = tmp_path / "mine"
    done = machine.instar("init", str(folder))
    assert done.returncode == 0, done.stderr
    assert os.access(folder / "workspace/hooks/own.py", os.X_OK)
    machine.script('== turn\ntool: own_greet {"who": "Ada"}\n== turn\ntext: {{last.tool.output}}\n')
    done = machine.run("--dir", str(folder), "greet Ada")
    assert (done.stdout, done.returncode) == ("Hello, Ada!\n", 0)
    assert "skipped" not in done.stderr


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
