"""The setting `formatter`: what is formatted after an edit, and who sees it. ruff is the real one."""

import json
import sys
from pathlib import Path

import pytest

from instar.testing import Machine

UGLY = "def f( a ):\n    return  a\n"
TIDY = "def f(a):\n    return a\n"


def shell(folder: Path, name: str, text: str) -> Path:
    """A program."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


async def test_a_file_is_formatted_after_a_write_and_the_model_reads_what_changed(
    machine: Machine, play
) -> None:
    machine.settings(formatter=True)
    machine.write("ruff.toml", "")
    runtime, (read,), (metadata,) = await play(machine, ("write", {"filePath": "a.py", "content": UGLY}))
    assert (machine.folder / "a.py").read_text() == TIDY
    assert read.startswith("Wrote file successfully.\n\na.py was formatted after that:\n--- a.py\n+++ a.py\n")
    assert "-def f( a ):\n" in read
    assert "+def f(a):\n" in read
    assert "+def f(a):\n" in metadata["diff"]
    assert "f( a )" not in metadata["diff"]
    assert [one.file for one in runtime.of("file.edited")] == [str(machine.folder / "a.py")]


async def test_an_edit_is_formatted_and_the_model_may_edit_what_it_read_of_that(
    machine: Machine, play
) -> None:
    machine.settings(formatter=True)
    machine.write("ruff.toml", "")
    machine.write("a.py", "x = 1\n")
    _, read, metadata = await play(
        machine,
        ("edit", {"filePath": "a.py", "oldString": "x = 1", "newString": "x  =  2"}),
        ("edit", {"filePath": "a.py", "oldString": "x = 2", "newString": "x = 3"}),
    )
    assert (machine.folder / "a.py").read_text() == "x = 3\n"
    assert "+x = 2" in read[0]
    assert read[1] == "Edit applied successfully."
    assert "+x = 2\n" in metadata[0]["filediff"]["patch"]


async def test_the_files_of_a_patch_are_formatted(machine: Machine, play) -> None:
    models = {"scripted": {"models": {"gpt-5": {}}}}
    machine.settings(formatter=True, provider=models)
    machine.write("ruff.toml", "")
    machine.write("c.py", "z = 3\n")
    patch = "*** Begin Patch\n*** Add File: b.py\n+y  =  2\n*** Delete File: c.py\n*** End Patch"
    runtime, (read,), (metadata,) = await play(
        machine, ("apply_patch", {"patchText": patch}), model="scripted/gpt-5"
    )
    assert (machine.folder / "b.py").read_text() == "y = 2\n"
    assert "A b.py\nD c.py\n\nb.py was formatted after that:" in read
    assert "+y = 2\n" in metadata["files"][0]["patch"]
    assert [Path(one.file).name for one in runtime.of("file.edited")] == ["b.py", "c.py"]


async def test_a_change_in_many_places_is_told_in_one_line(machine: Machine, play) -> None:
    machine.settings(formatter=True)
    machine.write("ruff.toml", "")
    text = "".join(f"value_{number}  =  {number}\n" for number in range(400))
    _, (read,), _ = await play(machine, ("write", {"filePath": "a.py", "content": text}))
    assert read.endswith("a.py was formatted after that, in many places. Read it before you edit it again.")


async def test_without_the_setting_or_a_sign_that_the_project_uses_it_nothing_is_formatted(
    machines, play
) -> None:
    for settings, name in (
        ({}, "ruff.toml"),
        ({"formatter": False}, "ruff.toml"),
        ({"formatter": True}, "x.toml"),
    ):
        machine = machines()
        machine.settings(**settings)
        machine.write(name, "")
        _, (read,), _ = await play(machine, ("write", {"filePath": "a.py", "content": UGLY}))
        assert read == "Wrote file successfully."
        assert (machine.folder / "a.py").read_text() == UGLY


async def test_entries_of_the_setting_disable_change_and_add_formatters(
    machines, tmp_path: Path, play
) -> None:
    mark = shell(tmp_path / "bin", "mark", 'printf "%s\\n" "$MARK" >> "$2"')
    added = {
        "command": [str(mark), "--in", "$FILE"],
        "environment": {"MARK": "marked"},
        "extensions": [".txt"],
    }
    machine = machines()
    machine.settings(formatter={"ruff": {"disabled": True}, "mark": added})
    machine.write("ruff.toml", "")
    await play(
        machine,
        ("write", {"filePath": "a.py", "content": UGLY}),
        ("write", {"filePath": "a.txt", "content": "one\n"}),
    )
    assert (machine.folder / "a.py").read_text() == UGLY
    assert (machine.folder / "a.txt").read_text() == "one\nmarked\n"
    other = machines()
    other.settings(formatter={"ruff": {"extensions": [".pyx"]}})
    other.write("ruff.toml", "")
    await play(other, ("write", {"filePath": "a.py", "content": UGLY}))
    assert (other.folder / "a.py").read_text() == UGLY


@pytest.mark.parametrize(("text", "why"), [("exit 3", "exit code 3"), ("exec /no/such", "exit code 127")])
async def test_a_formatter_that_fails_is_one_line_in_the_log(
    machine: Machine, tmp_path: Path, play, caplog: pytest.LogCaptureFixture, text: str, why: str
) -> None:
    bad = shell(tmp_path / "bin", "bad", text)
    machine.settings(formatter={"bad": {"command": [str(bad), "$FILE"], "extensions": [".txt"]}})
    _, (read,), _ = await play(machine, ("write", {"filePath": "a.txt", "content": "one\n"}))
    assert read == "Wrote file successfully."
    (line,) = [record.message for record in caplog.records if "formatter=failed" in record.message]
    assert why in line


@pytest.mark.slow
async def test_a_formatter_that_takes_too_long_is_ended(
    machine: Machine, tmp_path: Path, play, caplog: pytest.LogCaptureFixture
) -> None:
    slow = shell(tmp_path / "bin", "slow", "sleep 300")
    machine.settings(formatter={"slow": {"command": [str(slow), "$FILE"], "extensions": [".txt"]}})
    await play(machine, ("write", {"filePath": "a.txt", "content": "one\n"}))
    assert any("it took more than 10 s" in record.message for record in caplog.records)


async def test_in_a_project_that_nobody_trusted_no_formatter_runs(machines, play) -> None:
    machine = machines(trusted=False)
    machine.settings(formatter=True)
    machine.write("ruff.toml", "")
    await play(machine, ("write", {"filePath": "a.py", "content": UGLY}))
    assert (machine.folder / "a.py").read_text() == UGLY
    machine.trust()
    await play(machine, ("write", {"filePath": "b.py", "content": UGLY}))
    assert (machine.folder / "b.py").read_text() == TIDY


async def test_a_projects_own_program_comes_before_the_machines_and_runs_behind_the_shield(
    machine: Machine, play
) -> None:
    machine.settings(formatter=True)
    machine.write("package.json", json.dumps({"devDependencies": {"prettier": "3"}}))
    secret = machine.data / "auth.json"
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("{}")
    shell(machine.folder, "node_modules/.bin/prettier", f'cat "{secret}" >> "$2" || echo hidden >> "$2"')
    await play(machine, ("write", {"filePath": "a.md", "content": "one\n"}))
    assert (machine.folder / "a.md").read_text() == "one\nhidden\n"


async def test_what_lies_outside_of_the_project_is_not_formatted(
    machine: Machine, tmp_path: Path, play
) -> None:
    machine.settings(formatter=True, permission={"external_directory": "allow"})
    machine.write("ruff.toml", "")
    outside = tmp_path / "outside.py"
    await play(machine, ("write", {"filePath": str(outside), "content": UGLY}))
    assert outside.read_text() == UGLY


@pytest.mark.slow
async def test_a_projects_script_is_run_as_it_was_accepted(machines, play) -> None:
    machine = machines(trusted=False)
    command = [sys.executable, "tidy.py", "$FILE"]
    setting = {"formatter": {"own": {"command": command, "extensions": [".txt"]}}}
    machine.write("instar.json", json.dumps(setting))
    machine.write("tidy.py", "import sys\nopen(sys.argv[1], 'a').write('accepted\\n')\n")
    machine.trust()
    swapped = "import sys\nopen(sys.argv[1], 'a').write('swapped\\n')\n"
    await play(
        machine,
        ("write", {"filePath": "a.txt", "content": "one\n"}),
        ("read", {"filePath": "tidy.py"}),
        ("write", {"filePath": "tidy.py", "content": swapped}),
        ("write", {"filePath": "b.txt", "content": "one\n"}),
    )
    assert (machine.folder / "a.txt").read_text() == "one\naccepted\n"
    assert "swapped" not in (machine.folder / "b.txt").read_text()
