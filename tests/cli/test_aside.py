"""A person at a terminal is asked whether what a call made, and what would run later, is kept."""

import json
import subprocess
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Screen


@pytest.mark.parametrize(("typed", "kept"), [("y", True), ("n", False), ("\x04", False)])
def test_a_person_is_asked_before_a_hook_is_put_aside(
    machine: Machine, screen: Callable[..., Screen], typed: str, kept: bool
) -> None:
    subprocess.run(["git", "init", "-q", machine.project], check=True, env=machine.environment)
    command = "git config core.hooksPath .husky; printf 'npx lint\\033[31m' > .git/hooks/pre-commit"
    machine.script(f"== turn\ntool: bash {json.dumps({'command': command})}\n\n== turn\ntext: finished\n")
    shown = screen("run", "-m", "scripted/test", "set it up")
    shown.wait_for("keep it [y/n]?")
    assert ".git/hooks/pre-commit (git runs it)" in shown.text
    assert ".git/config: core.hookspath = .husky" in shown.text
    assert "npx lint" in shown.text
    assert "\x1b[31m" not in shown.raw.decode()
    shown.type("always\n")
    shown.wait_until(lambda: shown.text.count("keep it [y/n]?") == 2)
    shown.type(f"{typed}\n" if typed != "\x04" else typed)
    shown.wait_for("finished")
    assert shown.end() == 0
    assert (machine.project / ".git/hooks/pre-commit").exists() == kept
    assert ("hooksPath" in (machine.project / ".git/config").read_text()) == kept
    assert ("instar aside restore" in shown.text) != kept
