"""What changes in a folder while nothing of a model's lives counts as the person's, where they said so."""

import json
import subprocess
import time

import pytest
from tests.cli.conftest import COMMAND
from tests.cli.test_accepted import PYTHON, ran, says, trace, writes
from tests.waiting import PATIENCE

__all__ = ["trace"]
PLUGIN = ".instar/plugins/one.py"


@pytest.fixture
def mine(machine, screen):
    """The machine, whose person said in a terminal that edits of the project are theirs."""
    said = screen("trust", "--edits-are-mine")
    assert said.end() == 0, said.text
    assert "what steers there and changes while nothing of a model's lives is accepted" in said.text
    return machine


def working(machine) -> "subprocess.Popen[bytes]":
    """Start a run, and return it once its model has begun to wait for a file."""
    call = json.dumps({"command": "touch begun; while [ ! -e go ]; do sleep 0.05; done"})
    machine.script(f"== turn\ntool: bash {call}\n== turn\ntext: done\n")
    run = subprocess.Popen(
        [*COMMAND, "run", "-m", "scripted/test", "go"],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + PATIENCE
    while not (machine.project / "begun").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    return run


def taken(machine, *names: str) -> str:
    """The line that a start says of what it took."""
    return f"instar: taken as your own edits of {machine.project}: {', '.join(names)}\n"


def test_a_plugin_that_the_person_writes_between_two_runs_runs_and_the_start_names_it(mine, trace):
    says(mine)
    mine.write(PLUGIN, PYTHON.format(path=str(trace), word="1"))
    assert says(mine).stderr == taken(mine, f"{PLUGIN} (new)")
    assert ran(trace) == "1"
    mine.write(PLUGIN, PYTHON.format(path=str(trace), word="2"))
    assert says(mine).stderr == taken(mine, f"{PLUGIN} (changed)")
    (mine.project / PLUGIN).unlink()
    assert says(mine).stderr == taken(mine, f"{PLUGIN} (gone)")
    assert (says(mine).stderr, ran(trace)) == ("", "12")


def test_what_was_written_before_any_turn_is_the_persons_too(mine, trace):
    mine.write(PLUGIN, PYTHON.format(path=str(trace), word="1"))
    assert says(mine).stderr == taken(mine, f"{PLUGIN} (new)")


def test_what_the_model_wrote_is_not_heard_though_the_person_edits_it_afterwards(mine, trace):
    writes(mine, {PLUGIN: PYTHON.format(path=str(trace), word="x")})
    assert f"{PLUGIN} (new): not as accepted" in says(mine).stderr
    mine.write(PLUGIN, PYTHON.format(path=str(trace), word="y"))
    mine.write(".instar/plugins/two.py", PYTHON.format(path=str(trace), word="2"))
    done = says(mine)
    assert taken(mine, ".instar/plugins/two.py (new)") in done.stderr
    assert f"{PLUGIN} (new): not as accepted" in done.stderr
    assert ran(trace) == "2"


def test_a_file_that_the_model_made_and_the_person_names_later_is_not_taken_with_it(mine, trace):
    writes(mine, {"lib/part.js": "1\n", "lib/part.py": "1\n"})
    mine.write(".instar/plugins/one.js", 'import "../../lib/part.js"\nexport const mine = async () => ({})\n')
    done = says(mine)
    assert taken(mine, ".instar/plugins/one.js (new)") in done.stderr
    assert "lib/part.js (new): not as accepted" in done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("instar.json", '{"permission": {"bash": "allow"}}'),
        ("instar.json", '{"mcp": {"x": {"type": "local", "command": ["true"]}}}'),
        ("instar.json", '{"provider": {"x": {"options": {"baseURL": "http://127.0.0.1:1"}}}}'),
        ("instar.json", '{"shield": {"level": "none"}}'),
        ("instar.json", '{"plugin": ["some-package"]}'),
        ("instar.json", '{"permission": '),
        (
            ".claude/settings.json",
            '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}',
        ),
        (".instar/agent/free.md", "---\npermission:\n  bash: allow\n---\nDo.\n"),
    ],
)
def test_an_edit_that_may_loosen_a_rule_still_asks(mine, name, text):
    path = mine.write(name, text)
    done = says(mine)
    assert f"{name} (new): not as accepted" in done.stderr
    assert "taken as your own" not in done.stderr
    path.unlink()
    mine.write("opencode.json", '{"permission": {"bash": "deny"}, "username": "me"}')
    mine.instar("trust")
    mine.write("opencode.json", '{"username": "me"}')
    assert "opencode.json (changed): not as accepted" in says(mine).stderr
    mine.write("opencode.json", '{"permission": {"bash": "deny"}, "username": "you"}')
    assert says(mine).stderr == taken(mine, "opencode.json (changed)")


def test_an_edit_while_another_session_works_is_not_taken(mine, trace):
    other = working(mine)
    mine.write(PLUGIN, PYTHON.format(path=str(trace), word="x"))
    assert f"{PLUGIN} (new): not as accepted" in says(mine).stderr
    mine.write("go", "")
    other.wait(PATIENCE)
    assert f"{PLUGIN} (new): not as accepted" in says(mine).stderr
    assert ran(trace) == ""


def test_after_an_instar_that_was_killed_the_edits_are_asked_about(mine, trace):
    says(mine)
    other = working(mine)
    other.kill()
    other.wait(PATIENCE)
    mine.write(PLUGIN, PYTHON.format(path=str(trace), word="x"))
    assert f"{PLUGIN} (new): not as accepted" in says(mine).stderr
    assert ran(trace) == ""


def test_it_is_said_in_a_terminal_only_and_taken_back_anywhere(machine, screen, trace):
    refused = machine.instar("trust", "--edits-are-mine")
    assert (refused.returncode, machine.instar("trust", "--list").stdout) == (1, "")
    assert "in a terminal" in refused.stderr
    assert screen("trust", "--edits-are-mine").end() == 0
    assert "edits of yours are taken" in machine.instar("doctor").stdout
    machine.write(PLUGIN, PYTHON.format(path=str(trace), word="1"))
    assert json.loads(machine.instar("trust", "--json").stdout)["edits_are_mine"] is True
    machine.write(PLUGIN, PYTHON.format(path=str(trace), word="2"))
    back = machine.instar("trust", "--no-edits-are-mine")
    assert back.stdout == f"edits are asked about again: {machine.project}\n"
    assert f"{PLUGIN} (changed): not as accepted" in says(machine).stderr
    assert "edits of yours are taken" not in machine.instar("doctor").stdout


def test_other_folders_are_asked_about_as_before(mine, trace, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    mine.instar("trust", str(other))
    path = other / PLUGIN
    path.parent.mkdir(parents=True)
    path.write_text(PYTHON.format(path=str(trace), word="x"))
    mine.script("== turn\ntext: hello\n")
    done = mine.instar("run", "-m", "scripted/script", "hi", cwd=other)
    assert f"{PLUGIN} (new): not as accepted" in done.stderr
    assert ran(trace) == ""
