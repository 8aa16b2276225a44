"""Which shells there are, and which one is opened."""

from pathlib import Path

import pytest

from instar.terminal import login, preferred, shells


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in ("zsh", "fish", "bash"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "text").write_text("")
    return tmp_path


def test_those_are_listed_that_can_be_run(programs: Path) -> None:
    listed = programs / "shells"
    listed.write_text(
        f"# shells\n{programs}/zsh\n{programs}/gone\n{programs}/text\n{programs}/fish\n{programs}/zsh\nzsh\n\n"
    )
    found = shells({"SHELL": f"{programs}/bash"}, listed)
    assert [(one.name, one.acceptable) for one in found] == [("zsh", True), ("fish", False), ("bash", True)]
    assert shells({}, programs / "nowhere") == []


@pytest.mark.parametrize(
    ("own", "opened"), [("zsh", "zsh"), ("", "bash"), ("gone", "bash"), ("text", "bash")]
)
def test_the_persons_shell_is_opened_or_one_that_is_there(programs: Path, own: str, opened: str) -> None:
    variables = {"PATH": str(programs), "SHELL": f"{programs}/{own}" if own else ""}
    assert preferred(variables) == f"{programs}/{opened}"


def test_without_any_it_is_the_systems(tmp_path: Path) -> None:
    assert preferred({"PATH": str(tmp_path)}) == "/bin/sh"


@pytest.mark.parametrize(
    ("command", "added"), [("/bin/zsh", ["-l"]), ("bash", ["-l"]), ("tmux", []), ("/a/shell", [])]
)
def test_a_shell_is_a_login_shell(command: str, added: list[str]) -> None:
    assert login(command) == added
