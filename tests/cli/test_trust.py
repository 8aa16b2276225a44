import json
import subprocess
from datetime import date

import pytest


@pytest.mark.slow
def test_a_folder_is_trusted_listed_and_taken_off_the_list(machine):
    assert machine.instar("trust").stdout == f"trusted: {machine.project}\n"
    assert machine.instar("trust", "--list").stdout == f"{machine.project}\n"
    assert json.loads(machine.instar("trust", "--list", "--json").stdout) == [str(machine.project)]
    assert machine.instar("trust", "--remove", str(machine.project)).returncode == 0
    assert machine.instar("trust", "--list").stdout == ""


def test_taking_off_what_is_not_on_the_list_is_said(machine):
    done = machine.instar("trust", "--remove")
    assert done.returncode == 1
    assert "is not on the list" in done.stderr


def test_a_folder_that_is_gone_can_still_be_taken_off_the_list(machine, tmp_path):
    folder = tmp_path / "short"
    folder.mkdir()
    machine.instar("trust", str(folder))
    folder.rmdir()
    assert machine.instar("trust", "--remove", str(folder)).returncode == 0


def test_a_folder_that_does_not_exist_is_not_trusted(machine):
    assert machine.instar("trust", "nowhere").returncode == 2


# -- what guards -------------------------------------------------------------------------------------

UNSAFE = '{"model": "a/b", "evolve": {"unsafe": true}}'


def heard(machine, key="evolve.unsafe"):
    """What holds of a setting, and what was left out."""
    told = json.loads(machine.instar("config", "show", "--json").stdout)
    value = told["config"]
    for name in key.split("."):
        value = value[name]
    return value, told["left_out"]


@pytest.mark.slow
def test_trusting_a_folder_shows_what_its_settings_say_of_guards_and_lets_that_hold(machine):
    machine.write("instar.json", UNSAFE)
    machine.write(
        ".instar/instar.json", '{"shield": {"level": "none"}, "evolve": {"pins": ["hooks/a\\u001b.py"]}}'
    )
    assert machine.instar("trust").stdout.splitlines() == [
        'instar.json: model = "a/b"',
        "instar.json: evolve.unsafe = true",
        '.instar/instar.json: shield.level = "none"',
        '.instar/instar.json: evolve.pins = ["hooks/a\\u001b.py"]',
        f"trusted: {machine.project}",
    ]
    assert heard(machine) == (True, [])
    assert heard(machine, "shield.level") == ("none", [])


def test_trusting_a_folder_can_be_read_by_a_program(machine):
    machine.write("instar.json", UNSAFE)
    told = json.loads(machine.instar("trust", "--json").stdout)
    assert told == {
        "trusted": str(machine.project),
        "accepted": ["instar.json"],
        "edits_are_mine": False,
    }
    assert json.loads(machine.instar("trust", "--remove", "--json").stdout) == {
        "removed": str(machine.project)
    }


@pytest.mark.slow
def test_what_was_written_after_the_person_looked_is_left_out_until_they_look_again(machine):
    machine.instar("trust")
    path = machine.write("instar.json", UNSAFE)
    value, left = heard(machine)
    assert value is False
    assert left == [
        f"{path.name} (new): not as accepted in {machine.project}, so the accepted version holds, or none; look: "
        f"instar trust diff {machine.project}, then accept: instar trust {machine.project}"
    ]
    assert "a/b" not in machine.instar("config", "show", "--json").stdout
    done = machine.instar("run", "-m", "scripted/echo", "hello")
    assert (done.returncode, "instar.json (new)" in done.stderr) == (0, True)
    machine.instar("trust")
    assert heard(machine) == (True, [])


@pytest.mark.slow
def test_a_guard_that_was_trusted_is_not_taken_away_with_its_file(machine):
    path = machine.write("instar.json", '{"evolve": {"frozen": true}}')
    machine.instar("trust")
    path.unlink()
    value, left = heard(machine, "evolve.frozen")
    assert value is True
    assert len(left) == 1
    assert left[0].startswith(f"{path.name} (gone): not as accepted")
    machine.instar("trust")
    assert heard(machine, "evolve.frozen") == (False, [])


@pytest.mark.slow
def test_trusting_a_folder_shows_what_the_folders_below_say_of_guards(machine):
    subprocess.run(["git", "init", "-q", machine.project], check=True)
    below = machine.write("sub/instar.json", UNSAFE).parent
    assert "sub/instar.json: evolve.unsafe = true" in machine.instar("trust").stdout
    show = ["config", "show", "evolve.unsafe", "--dir", "sub"]
    assert machine.instar(*show).stdout.startswith(f"evolve.unsafe = true  ({below}/instar.json)")
    machine.write("sub/instar.json", '{"evolve": {"unsafe": true, "create": "allow"}}')
    shown = machine.instar("config", "show", "evolve.create", "--dir", "sub").stdout
    assert shown.startswith('evolve.create = "deny"  (default)')
    assert f"instar trust {below}" in shown


def test_where_everything_is_trusted_so_is_what_guards(machine):
    machine.write("instar.json", UNSAFE)
    machine.environment["INSTAR_TRUST"] = "all"
    assert heard(machine) == (True, [])


def test_a_variables_text_may_loosen_a_guard(machine):
    machine.environment["INSTAR_CONFIG_CONTENT"] = UNSAFE
    assert heard(machine) == (True, [])


def test_a_mistake_in_what_guards_is_told_instead_of_trusted(machine):
    path = machine.write("instar.json", '{"evolve": {"unsafe": "yes"}}')
    done = machine.instar("trust")
    assert done.returncode == 2
    assert f"{path}:1:23: evolve.unsafe: expected true or false, found a string" in done.stderr
    assert machine.instar("trust", "--list").stdout == ""


@pytest.mark.slow
def test_the_question_on_a_terminal_shows_what_guards_and_a_yes_lets_it_hold(machine, screen):
    machine.write("instar.json", '{"plugin": [], "evolve": {"unsafe": true}}')
    asked = screen("run", "-m", "scripted/echo", "hello")
    asked.wait_for("[y/n/show]")
    assert "instar.json: evolve.unsafe = true" in asked.text
    asked.type("y\n")
    assert asked.end() == 0
    assert heard(machine) == (True, [])
    machine.write("instar.json", '{"evolve": {"unsafe": true, "create": "allow"}}')
    again = screen("run", "-m", "scripted/echo", "hello")
    again.wait_for("[y/n/show]")
    assert f"Changed in {machine.project}: instar.json (changed)" in again.text
    again.type("what\n")
    again.wait_until(lambda: again.text.count("[y/n/show]") == 2)
    again.type("show\n")
    again.wait_for('+{"evolve": {"unsafe": true, "create": "allow"}}')
    again.type("n\n")
    assert again.end() == 0
    assert heard(machine, "evolve.create")[0] == "deny"
    last = screen("run", "-m", "scripted/echo", "hello")
    last.wait_for("[y/n/show]")
    last.type("y\n")
    assert last.end() == 0
    assert heard(machine, "evolve.create")[0] == "allow"


@pytest.mark.slow
def test_a_version_that_was_accepted_before_is_named_with_its_date_and_asked_about(machine, screen):
    first, second = '{"permission": {"bash": "allow"}}', '{"permission": {"bash": "deny"}}'
    for text in (first, second):
        machine.write("instar.json", text)
        machine.instar("trust")
    machine.write("instar.json", first)
    asked = screen("run", "-m", "scripted/echo", "hello")
    asked.wait_for("[y/n/show]")
    assert f"this is the version accepted on {date.today()}" in asked.text
    assert "bash: allow" in asked.text
    asked.type("n\n")
    assert asked.end() == 0


def test_the_difference_from_what_was_accepted_is_shown(machine):
    machine.write("instar.json", '{"model": "a/b"}\n')
    refused = machine.instar("trust", "diff")
    assert (refused.returncode, "is not trusted" in refused.stderr) == (1, True)
    machine.instar("trust")
    assert machine.instar("trust", "diff").stdout == f"{machine.project} is as it was accepted\n"
    machine.write("instar.json", '{"model": "a/c"}\n')
    machine.write(".opencode/plugin/new.js", "1\n")
    shown = machine.instar("trust", "diff").stdout
    assert "instar.json (changed)\n--- accepted/instar.json\n+++ instar.json\n" in shown
    assert '-{"model": "a/b"}\n+{"model": "a/c"}\n' in shown
    told = json.loads(machine.instar("trust", "diff", str(machine.project), "--json").stdout)
    assert [(one["file"], one["change"]) for one in told] == [
        (".opencode/plugin/new.js", "new"),
        ("instar.json", "changed"),
    ]


def test_a_program_that_instar_started_trusts_nothing(machine):
    machine.environment["INSTAR_RUN"] = "1"
    done = machine.instar("trust")
    assert (done.returncode, "a person's" in done.stderr) == (1, True)
    assert machine.instar("trust", "--list").stdout == ""
