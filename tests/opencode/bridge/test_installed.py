"""`instar opencode install`, `uninstall` and `status`, as a person calls them."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from tests.cli.conftest import Machine


@pytest.fixture
def machine(tmp_path: Path, clean_environment: Mapping[str, str]) -> Machine:
    """A person's machine."""
    return Machine(tmp_path, clean_environment)


def paths(folder: Path) -> list[str]:
    """What a folder holds."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def state(machine: Machine, scope: str = "project") -> str:
    """What `status` says of the file."""
    found: str = json.loads(machine.instar("opencode", "status", "--json").stdout)[scope]["state"]
    return found


@pytest.mark.slow
def test_install_and_uninstall_leave_the_folder_as_it_was(machine: Machine) -> None:
    machine.write("notes.txt", "kept")
    before = paths(machine.project)
    assert machine.instar("opencode", "install").returncode == 0
    assert machine.instar("opencode", "install").returncode == 0
    assert set(paths(machine.project)) - set(before) == {
        ".opencode",
        ".opencode/plugin",
        ".opencode/plugin/instar.js",
    }
    assert state(machine) == "installed"
    assert machine.instar("opencode", "uninstall").returncode == 0
    assert paths(machine.project) == before
    assert machine.instar("opencode", "uninstall").stdout.startswith("not installed: ")


def test_folders_that_were_there_or_hold_something_stay(machine: Machine) -> None:
    machine.write(".opencode/plugin/mine.js", "export default {}")
    machine.instar("opencode", "install")
    machine.instar("opencode", "uninstall")
    assert paths(machine.project) == [".opencode", ".opencode/plugin", ".opencode/plugin/mine.js"]


def test_folders_that_were_made_and_hold_something_since_stay(machine: Machine) -> None:
    machine.instar("opencode", "install")
    machine.write(".opencode/plugin/mine.js", "export default {}")
    assert machine.instar("opencode", "uninstall").returncode == 0
    assert paths(machine.project) == [".opencode", ".opencode/plugin", ".opencode/plugin/mine.js"]


def test_the_file_for_every_project_stands_among_opencodes_own(machine: Machine) -> None:
    done = machine.instar("opencode", "install", "--global")
    file = Path(machine.environment["XDG_CONFIG_HOME"]) / "opencode" / "plugin" / "instar.js"
    assert done.stdout == f"installed: {file}\n"
    assert (state(machine, "global"), state(machine)) == ("installed", "absent")
    machine.instar("opencode", "uninstall", "--global")
    assert not file.parent.parent.exists()


Spoil = Callable[[str], str]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda text: text + "// mine\n", "was changed since it was written"),
        (lambda text: "export default {}\n", "was not written by instar"),
    ],
)
def test_a_file_that_the_person_wrote_into_is_not_deleted_or_written_over_without_being_told_to(
    machine: Machine, spoil: Spoil, said: str
) -> None:
    machine.instar("opencode", "install")
    file = machine.project / ".opencode" / "plugin" / "instar.js"
    file.write_text(spoil(file.read_text()))
    for word in ("install", "uninstall"):
        done = machine.instar("opencode", word)
        assert done.returncode == 1
        assert said in done.stderr
        assert "--force" in done.stderr
    assert file.exists()
    assert machine.instar("opencode", "uninstall", "--force").returncode == 0
    assert not file.exists()


def test_where_instar_is_gone_the_file_lets_no_tool_run_and_says_what_to_do(machine: Machine) -> None:
    machine.instar("opencode", "install")
    file = machine.project / ".opencode" / "plugin" / "instar.js"
    text = file.read_text().replace("bridge/opencode.mjs", "nowhere/opencode.mjs")
    gone = machine.write("gone.mjs", text)
    code = (
        f"const {{ default: plugin }} = await import({json.dumps(gone.as_uri())})\n"
        "const hooks = await plugin.server({})\n"
        "console.log(JSON.stringify([Object.keys(hooks), await hooks['tool.execute.before']().catch(String)]))"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True
    )
    names, said = json.loads(done.stdout)
    assert names == ["tool.execute.before"]
    assert said.startswith("Error: instar is not where it was (Cannot find module")
    assert said.endswith(f"so this is refused: instar opencode install, or delete {gone.as_uri()}")


def test_only_folders_on_the_way_to_the_file_are_deleted_with_it(machine: Machine) -> None:
    machine.instar("opencode", "install")
    other = machine.project / "other"
    other.mkdir()
    file = machine.project / ".opencode" / "plugin" / "instar.js"
    folders = json.dumps([str(other), str(file.parent)])
    file.write_text(re.sub(r"(made with it: )\[.*\]", lambda found: found[1] + folders, file.read_text()))
    assert machine.instar("opencode", "uninstall", "--force").returncode == 0
    assert not file.exists()
    assert other.is_dir()


def test_a_file_that_starts_another_instar_is_written_anew(machine: Machine) -> None:
    machine.instar("opencode", "install")
    file = machine.project / ".opencode" / "plugin" / "instar.js"
    head, _, body = file.read_text().partition("\n")
    other = body.replace('"bridge"]', '"elsewhere"]')
    # Signed as another version would have signed it.

    mark = sha256(other.encode()).hexdigest()
    file.write_text(f"{head[: head.index('sha256 ')]}sha256 {mark})\n{other}")
    assert state(machine) == "outdated"
    assert f"{file}: installed by another instar" in machine.instar("doctor").stdout
    machine.instar("opencode", "install")
    assert state(machine) == "installed"
    machine.instar("opencode", "uninstall")
    assert not (machine.project / ".opencode").exists()


def test_status_names_the_plugins_that_would_work_and_those_that_are_left_to_opencode(
    machine: Machine,
) -> None:
    machine.write(".instar/plugins/one.py", "async def one(input, options=None):\n    return {}\n")
    machine.write(".opencode/plugin/theirs.js", "export default {}")
    untrusted = machine.instar("opencode", "status")
    assert "plugins: none" in untrusted.stdout
    assert "not trusted" in untrusted.stderr
    machine.instar("trust", ".")
    shown = json.loads(machine.instar("opencode", "status", "--json").stdout)
    assert shown["plugins"] == [str(machine.project / ".instar" / "plugins" / "one.py")]
    assert shown["opencode"] == [str(machine.project / ".opencode" / "plugin" / "theirs.js")]


def test_the_bridge_stands_in_no_list_of_commands(machine: Machine) -> None:
    assert "bridge" not in machine.instar("--help").stdout
    assert machine.instar("bridge", "--help").returncode == 0
    assert machine.instar("opencode", "install", "--global", "--project", ".").returncode == 2


@pytest.mark.slow
def test_instar_itself_takes_the_file_for_no_plugin_and_one_of_the_persons_of_that_name_for_one(
    machine: Machine,
) -> None:
    assert machine.instar("opencode", "install").returncode == 0
    machine.script('== when ""\ntext: done\n')
    machine.environment["INSTAR_TRUST"] = "all"
    alone = machine.run("hi")
    assert (alone.returncode, alone.stdout) == (0, "done\n")
    assert "JavaScript host" not in logged(machine)
    machine.write(".opencode/plugin/instar.js", "export const Mine = async () => ({})")
    assert machine.run("hi").returncode == 0
    assert "the JavaScript host runs" in logged(machine)


def logged(machine: Machine) -> str:
    """What instar's log says."""
    path = Path(machine.environment["XDG_STATE_HOME"]) / "instar" / "log" / "instar.log"
    return path.read_text() if path.exists() else ""
