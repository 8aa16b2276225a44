"""``instar init``: make a folder with settings and an evolve workspace."""

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from instar.cli import complete
from instar.cli.door import Context, door
from instar.cli.text import echo

_SKELETON: Final = Path(__file__).with_name("skeleton")

_SETTINGS: Final = """\
// The settings of this folder. What opencode.json can say, this file can say too.
{
  // "model": "openai/gpt-5-mini",
  "plugin": [["evolve", { "workspace": "./workspace" }]]
}
"""

_EVOLVE: Final = """\
{
  // Every setting may be left out (see: instar docs workspace).
  "hook_timeout": 30000 // milliseconds that a call of a hook script, or its test, may take
}
"""


@click.command()
@click.argument("folder", default=".", shell_complete=complete.folders)
@door
def command(context: Context, folder: str) -> None:
    """Make FOLDER with an instar.json and an evolve workspace, and trust both.

    Nothing that is there already is changed.
    """
    root = context.path(folder).resolve()
    wanted = list(_files(root))
    there = next((path for path, _, _ in wanted if path.exists()), None)
    if there is not None:
        raise click.UsageError(f"{there} is there already, and init changes nothing that is")
    folders = (root, root / "workspace")
    for path in folders:
        path.mkdir(parents=True, exist_ok=True)
    # First: a list of trusted folders that cannot be written must not leave a half-made folder behind.
    trusted = [context.trust.add(path) for path in folders]
    for path in make(wanted):
        echo(f"made: {path.relative_to(root)}")
    for path in trusted:
        context.trust.add(path)
        echo(f"trusted: {path}")
    enter = "" if root == context.directory.resolve() else f"cd {shlex.quote(folder)} && "
    echo(
        f'next: {enter}instar run "What can you do?", or without a model\'s key: instar run -m scripted/echo hello'
    )


def make(files: Iterable[tuple[Path, str, int]]) -> Iterator[Path]:
    """Make these files, and yield each."""
    for path, text, mode in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(mode)
        yield path


def _files(root: Path) -> Iterator[tuple[Path, str, int]]:
    """Each file to make: its path, its text, its mode."""
    yield root / "instar.json", _SETTINGS, 0o644
    yield from workspace_files(root / "workspace")


def workspace_files(workspace: Path) -> Iterator[tuple[Path, str, int]]:
    """Return each file of a new workspace: its path, its text, its mode."""
    yield workspace / "config" / "evolve.jsonc", _EVOLVE, 0o644
    yield workspace / "hooks" / "own.py", (_SKELETON / "hook.txt").read_text("utf-8"), 0o755
    yield workspace / "tests" / "own_test.py", (_SKELETON / "test.txt").read_text("utf-8"), 0o755
    yield workspace / "prompts" / "preamble.md", "You are an agent that can change its own tools.\n", 0o644
