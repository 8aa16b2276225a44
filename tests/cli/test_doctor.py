import json
import shlex
import socket
import sqlite3
import time
from pathlib import Path

import pytest
from tests.waiting import take_quickest

from instar.server.browser import recorded


def lines(done):
    """The lines of a report by their name; of several with one name the last."""
    return {line["name"]: line for line in json.loads(done.stdout)["lines"]}


@pytest.mark.slow
def test_on_an_empty_machine_the_last_line_is_the_command_to_type_next(machine):
    done = None

    def asked() -> float:
        nonlocal done
        before = time.monotonic()
        done = machine.instar("doctor")
        return time.monotonic() - before

    assert take_quickest(asked, 3.0) < 3
    assert (done.returncode, done.stderr) == (1, "")
    last = done.stdout.splitlines()[-1]
    assert last == 'next: instar auth login openai && instar run "What does this project do?"'
    assert [line for line in done.stdout.splitlines() if line.startswith("problem")] == [
        line for line in done.stdout.splitlines() if "no provider has a key" in line
    ]
    assert "instar run -m scripted/echo hello" in done.stdout
    assert not (machine.home / ".local/share/instar").exists()


@pytest.mark.slow
def test_the_key_that_doctor_asks_for_ends_the_problem(machine):
    following = machine.instar("doctor").stdout.splitlines()[-1].removeprefix("next: ").partition(" && ")[0]
    assert machine.instar(*shlex.split(following)[1:], stdin=b"sk-very-secret").returncode == 0
    done = machine.instar("doctor")
    assert done.returncode == 0, done.stdout
    assert "openai/" in done.stdout
    assert "auth.json" in done.stdout
    assert "very-secret" not in done.stdout
    assert done.stdout.splitlines()[-1] == 'next: instar run "What does this project do?"'


def test_the_variable_that_gives_the_key_is_named(machine):
    machine.environment["ANTHROPIC_API_KEY"] = "sk-very-secret"
    found = lines(machine.instar("doctor", "--json"))["model"]
    assert (found["state"], found["text"].partition("/")[0]) == ("ok", "anthropic")
    assert found["text"].endswith("key from $ANTHROPIC_API_KEY")


@pytest.mark.slow
def test_a_configured_model_without_a_key_says_how_to_give_one(machine):
    machine.write_home("instar.json", '{"model": "anthropic/claude-sonnet-4-6"}')
    done = machine.instar("doctor", "--json")
    found = lines(done)["model"]
    assert (done.returncode, found["state"]) == (1, "problem")
    assert found["todo"] == "instar auth login anthropic"
    assert json.loads(done.stdout)["next"].startswith("instar auth login anthropic && instar run ")


@pytest.mark.slow
def test_a_model_that_needs_no_key_is_well(machine):
    machine.write_home("instar.json", '{"model": "scripted/echo"}')
    done = machine.instar("doctor", "--json")
    assert done.returncode == 0, done.stdout
    assert lines(done)["model"]["text"] == "scripted/echo, which needs no key"


@pytest.mark.slow
def test_a_configured_model_that_is_not_there_is_a_problem(machine):
    machine.write_home("instar.json", '{"model": "nobody/x"}')
    done = machine.instar("doctor", "--json")
    assert lines(done)["model"]["state"] == "problem"
    assert json.loads(done.stdout)["next"] == "instar models"


def test_settings_with_mistakes_are_problems_and_the_rest_is_still_told(machine):
    machine.write("instar.json", '{"model": 3, "limits": []}')
    done = machine.instar("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("problem  settings") == 2
    assert f"{machine.project}/instar.json:1:11: model: expected a string" in done.stdout
    assert "database" in done.stdout
    assert done.stdout.splitlines()[-1] == "next: instar config check"


@pytest.mark.slow
def test_a_definition_with_a_mistake_is_a_note(machine):
    machine.write_home("instar.json", '{"model": "scripted/echo"}')
    machine.write_home("agent/x.md", "---\nmode: sometimes\n---\nHello")
    done = machine.instar("doctor", "--json")
    assert (done.returncode, lines(done)["settings"]["state"]) == (0, "note")
    assert "x.md:2: mode" in lines(done)["settings"]["text"]


@pytest.mark.slow
def test_a_machine_without_programs_says_what_each_would_be_for(machine, tmp_path):
    (tmp_path / "empty").mkdir()
    machine.environment["PATH"] = str(tmp_path / "empty")
    found = lines(machine.instar("doctor", "--json"))
    assert (found["git"]["state"], found["git"]["todo"]) == ("problem", "install git")
    assert {found[name]["state"] for name in ("bun", "node")} == {"note"}
    assert found["sandbox"]["state"] == "ok" or found["sandbox"]["todo"]


@pytest.mark.slow
def test_git_is_told_with_its_version_and_who_commits(machine):
    assert lines(machine.instar("doctor", "--json"))["git"]["state"] == "note"
    (machine.home / ".gitconfig").write_text("[user]\n name = Ada\n email = ada@example.com\n")
    found = lines(machine.instar("doctor", "--json"))["git"]
    assert found["state"] == "ok"
    assert found["text"].endswith("as Ada <ada@example.com>")


@pytest.mark.slow
def test_a_database_that_was_made_is_told_with_its_size(machine):
    machine.script("== turn\ntext: hello\n")
    assert machine.run("hello").returncode == 0
    found = lines(machine.instar("doctor", "--json"))["database"]
    assert found["state"] == "ok"
    assert "MiB" in found["text"]


@pytest.mark.slow
def test_another_programs_database_is_a_problem(machine):
    path = machine.home / ".local/share/instar/instar.db"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    found = lines(machine.instar("doctor", "--json"))["database"]
    assert found["state"] == "problem"
    assert "another program's database" in found["text"]


@pytest.mark.slow
def test_what_a_folder_brings_and_trust_left_out_is_a_note_until_it_is_trusted(machine):
    machine.write("instar.json", '{"plugin": ["./mine.py"]}')
    found = lines(machine.instar("doctor", "--json"))["trust"]
    assert (found["state"], found["todo"].partition(": ")[2]) == ("note", f"instar trust {machine.project}")
    machine.instar("trust")
    assert lines(machine.instar("doctor", "--json"))["trust"]["state"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("name", [".claude/settings.json", ".openhands/hooks.json"])
def test_rules_that_wait_for_trust_are_named(machine, name):
    machine.write(name, '{"hooks": {"Stop": [{"hooks": [{"command": "true"}]}]}}')
    found = lines(machine.instar("doctor", "--json"))["trust"]
    assert (found["state"], found["todo"].partition(": ")[2]) == ("note", f"instar trust {machine.project}")
    assert found["text"].endswith(f"the rules of {machine.project / name}")
    machine.instar("trust")
    assert lines(machine.instar("doctor", "--json"))["trust"]["state"] == "ok"


@pytest.mark.slow
def test_what_nobody_accepted_of_a_trusted_folder_is_a_note(machine):
    machine.instar("trust")
    machine.write("instar.json", '{"evolve": {"unsafe": true}}')
    found = lines(machine.instar("doctor", "--json"))["trust"]
    assert found["state"] == "note"
    assert f"instar.json (new): not as accepted in {machine.project}" in found["text"]
    assert f"instar trust {machine.project}" in found["text"]


@pytest.mark.slow
def test_a_list_of_trusted_folders_that_cannot_be_used_is_a_problem(machine):
    machine.instar("trust")
    (machine.home / ".local/share/instar/trust.json").write_text("{")
    assert lines(machine.instar("doctor", "--json"))["trust"]["state"] == "problem"


@pytest.mark.parametrize(
    ("level", "text"),
    [("landlock", "alone"), ("none", "none, so evolve changes nothing unless evolve.unsafe")],
)
def test_a_sandbox_that_the_settings_hold_down_is_told_as_that(machine, level, text):
    machine.write_home("instar.json", f'{{"shield": {{"level": "{level}"}}}}')
    found = lines(machine.instar("doctor", "--json"))["sandbox"]
    assert (found["state"], found["todo"]) == ("note", 'for all that this machine can: "level": "auto"')
    assert f'{text}: the settings ask for no more ("shield": {{"level": "{level}"}})' in found["text"]


@pytest.mark.slow
def test_an_evolve_workspace_that_is_frozen_is_a_note(machine):
    machine.instar("init")
    machine.write_home("instar.json", '{"evolve": {"frozen": true}}')
    found = lines(machine.instar("doctor", "--json"))["evolve"]
    assert found["state"] == "note"
    assert "changes are frozen" in found["text"]


@pytest.mark.slow
def test_an_evolve_workspace_is_told_and_a_broken_script_is_a_problem(machine):
    machine.instar("init")
    found = lines(machine.instar("doctor", "--json"))["evolve"]
    assert (found["state"], found["text"].partition(" ")[0]) == ("ok", f"{machine.project}/workspace")
    with (machine.project / "workspace/hooks/own.py").open("a") as file:
        file.write("def (\n")
    found = lines(machine.instar("doctor", "--json"))["evolve"]
    assert (found["state"], found["todo"]) == ("problem", "instar evolve status")
    assert "own.py" in found["text"]


@pytest.mark.slow
def test_an_evolve_workspace_that_is_not_trusted_is_a_note_and_is_not_run(machine):
    machine.instar("init")
    (machine.home / ".local/share/instar/trust.json").unlink()
    workspace = machine.home / "workspace"
    (machine.project / "workspace").rename(workspace)
    ran = machine.write("workspace-ran", "")
    ran.unlink()
    (workspace / "hooks/own.py").write_text(f"#!/bin/sh\ntouch {ran}\n")
    assert lines(machine.instar("doctor", "--json"))["evolve"]["state"] == "note"
    assert not ran.exists()


@pytest.mark.slow
def test_a_module_of_the_folder_is_not_imported(machine):
    machine.write("click.py", "open('ran', 'w')")
    done = machine.instar("doctor", "--dir", str(machine.project), cwd=machine.home)
    assert "next: " in done.stdout
    assert not (machine.project / "ran").exists()


@pytest.fixture
def taken():
    """The port of `instar serve`, which somebody has."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 4096))
            taken.listen()
        except OSError:
            pass  # taken by another program: as well
        yield


def test_a_port_that_is_taken_is_a_note(machine, taken):
    found = lines(machine.instar("doctor", "--json"))["port"]
    assert (found["state"], found["todo"]) == ("note", "instar serve --port N takes another")


def test_a_port_that_a_server_of_ones_own_has_is_none(machine, taken):
    with recorded(
        Path(machine.environment["XDG_DATA_HOME"]) / "instar" / "servers", "http://127.0.0.1:4096", "/"
    ):
        found = lines(machine.instar("doctor", "--json"))["port"]
    assert (found["state"], found["text"]) == ("ok", "an instar serve of yours runs at 4096")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "there"])
def test_the_next_command_goes_to_the_folder_that_was_looked_at(machine, where):
    folder = machine.project / "my own"
    folder.mkdir()
    machine.environment["OPENAI_API_KEY"] = "k"
    cwd = folder if where == "here" else machine.home
    said = machine.instar("doctor", "--dir", str(folder), cwd=cwd).stdout.splitlines()[-1]
    goes = f"cd {shlex.quote(str(folder))} && " if where == "there" else ""
    assert said == f'next: {goes}instar run "What does this project do?"'


@pytest.mark.slow
def test_places_that_cannot_be_written_are_told_and_the_rest_still_is(machine):
    path = machine.write_home("file", "")
    machine.environment |= {"XDG_STATE_HOME": str(path), "INSTAR_DATA": f"{path}/data"}
    found = lines(machine.instar("doctor", "--json"))
    assert (found["log"]["state"], found["log"]["todo"]) == ("note", f"make {path} writable")
    assert found["database"]["state"] == "problem"
    assert f"{path} is a file, and a folder is needed there" in found["database"]["text"]
    assert found["database"]["todo"].endswith("export INSTAR_DATA=FOLDER")


@pytest.mark.slow
def test_with_a_data_folder_that_is_a_file_the_next_command_still_leads_to_an_answer(machine):
    machine.environment |= {"INSTAR_DATA": str(machine.write_home("file", "")), "OPENAI_API_KEY": "k"}
    report = json.loads(machine.instar("doctor", "--json").stdout)
    first = report["next"].partition(" && ")[0]
    name, _, value = first.removeprefix("export ").partition("=")
    machine.environment[name] = value.replace("~", str(machine.home))
    assert lines(machine.instar("doctor", "--json"))["database"]["state"] == "ok"
    assert machine.instar("run", "-m", "scripted/echo", "hello").stdout == "hello\n"


@pytest.mark.slow
def test_on_an_empty_machine_a_stranger_gets_a_first_answer_by_what_doctor_says(machine):
    todo = lines(machine.instar("doctor", "--json"))["model"]["todo"]
    command = shlex.split(todo.rpartition("without any: ")[2])
    assert command[0] == "instar"
    assert machine.instar(*command[1:]).stdout == "hello\n"


@pytest.mark.slow
def test_a_note_on_the_settings_is_told(machine):
    machine.write("instar.json", '{"permission": {"bsah": "ask"}}')
    done = machine.instar("doctor", "--json")
    told = [line for line in json.loads(done.stdout)["lines"] if line["name"] == "settings"]
    assert [line["state"] for line in told] == ["ok", "note"]
    assert "did you mean bash?" in told[1]["text"]


@pytest.mark.slow
def test_settings_that_need_trust_are_named_with_the_command_and_come_next(machine):
    machine.write("opencode.json", '{"permission": {"bash": "allow"}, "share": "disabled"}')
    machine.write_home("instar.json", '{"model": "scripted/echo"}')
    done = machine.instar("run", "hello")
    (line,) = done.stderr.splitlines()
    assert "opencode.json: permission.bash" in line
    assert line.endswith("if you know where it comes from: instar trust .")
    assert json.loads(machine.instar("doctor", "--json").stdout)["next"] == "instar trust ."
    machine.instar("trust")
    assert machine.instar("run", "hello").stderr == ""
    assert json.loads(machine.instar("doctor", "--json").stdout)["next"].startswith("instar run")
    machine.write("opencode.json", '{"permission": {"bash": "deny"}}')
    told = json.loads(machine.instar("doctor", "--json").stdout)
    assert told["next"] == "instar trust ."
    assert "opencode.json (changed)" in lines(machine.instar("doctor", "--json"))["trust"]["text"]
