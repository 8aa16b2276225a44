import json


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
