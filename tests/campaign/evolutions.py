"""The evolve workspaces of workers, one each, which share a bare git repository; that no accepted version is lost."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

BOT = """#!/bin/sh
case $1 in
discover) echo '{"tools": [{"name": "t"}]}';;
esac
# version 0
"""
SCRIPT = r"""
== when "^grow (\w+) in (\w+)"
tool: evolve_hook_write {"hook": "{{match.2}}.sh"}
arg: content <<END
#!/bin/sh
case $1 in
discover) echo '{"tools": [{"name": "t"}]}';;
esac
# version {{match.1}}
END
"""
"""What a model does that is told to grow: it writes a hook script, which says by which turn."""
HOOKS = ("bot", "cat")
ROUNDS = 3
"""Commands at each worker at the end, by which it pushes what it has and takes up what the others had."""


class SharedWorkspaces:
    """The repository, and a home for each worker with its clone and its settings."""

    def __init__(self, folder: Path, count: int) -> None:
        self._bare = folder / "shared.git"
        self.homes = [folder / f"machine{number}" for number in range(count)]
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self._bare))
        for number, home in enumerate(self.homes):
            settings = home / ".config" / "instar" / "instar.json"
            settings.parent.mkdir(parents=True)
            # Not the whole replay of what was recorded: that is not what is played here.
            settings.write_text(json.dumps({"evolve": {"remote": str(self._bare), "replay_seconds": 5}}))
            git(home, "clone", "--quiet", str(self._bare), "workspace")
            if number == 0:
                self._begin(home / "workspace")

    def environment(self, number: int) -> dict[str, str]:
        """The variables by which a worker has its own home and workspace."""
        home = self.homes[number]
        return {"HOME": str(home), "INSTAR_WORKSPACE": str(home / "workspace")}

    def agree(self, project: Path, environment: dict[str, str], database: str) -> None:
        """Let each worker, none of which runs any more, push what was accepted and take up what the others have."""
        for _ in range(ROUNDS):
            for number in range(len(self.homes)):
                subprocess.run(
                    [sys.executable, "-m", "instar", "run", "hello"],
                    cwd=project,
                    env={**environment, **self.environment(number), "INSTAR_DATABASE": database},
                    capture_output=True,
                    timeout=120,
                    check=True,
                )

    def judge(self, accepted: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield which accepted versions are nowhere or in no commit, and which workspaces are not as the repository.

        What no commit has was changed again before git worked again: a killed one holds its lock for half a minute.
        """
        history = git(self._bare, "log", "-p", "-m", "--format=", "main", "--", "hooks")
        committed = set(re.findall(r"^\+# version (\w+)$", history, re.MULTILINE))
        kept = {one for home in self.homes for one in _kept(home)}
        for turn in sorted(set(accepted) - committed):
            if turn in kept:
                yield "versions not committed", turn
            else:
                yield (
                    "versions lost",
                    f"version {turn} was accepted, and neither a commit nor a worker has it",
                )
        there = git(self._bare, "ls-tree", "-r", "main", "hooks")
        for home in self.homes:
            workspace = home / "workspace"
            changed = git(workspace, "status", "--porcelain", "hooks")
            if git(workspace, "ls-tree", "-r", "HEAD", "hooks") != there or changed:
                yield (
                    "versions lost",
                    f"{home.name} has other hook scripts than the shared repository {changed}",
                )

    def _begin(self, workspace: Path) -> None:
        (workspace / "hooks").mkdir()
        for name in HOOKS:
            script = workspace / "hooks" / f"{name}.sh"
            script.write_text(BOT)
            script.chmod(0o755)
        git(workspace, "checkout", "--quiet", "-B", "main")
        git(workspace, "add", ".")
        git(workspace, "commit", "--quiet", "-m", "first")
        git(workspace, "push", "--quiet", "origin", "main")


def _kept(home: Path) -> Iterator[str]:
    """The versions in a worker's own store of what was accepted."""
    for store in home.glob(".local/share/instar/plugin/evolve/workspaces/*/accepted.git"):
        listed = git(store, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
        for line in listed.splitlines():
            if line.startswith("blob "):
                yield from re.findall(
                    r"^# version (\w+)$", git(store, "cat-file", "-p", line[5:]), re.MULTILINE
                )


def versions(messages: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield each change that a history has: by which turn, and the status of its call."""
    for message in messages:
        for part in message["parts"]:
            if part["type"] == "tool" and part["tool"] == "evolve_hook_write":
                written = re.search(r"# version (\w+)", part["state"]["input"].get("content", ""))
                if written:
                    yield written[1], part["state"]["status"]


def git(folder: Path, *words: str) -> str:
    """Run git as somebody who has no settings."""
    named = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(named, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout
