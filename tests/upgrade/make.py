"""Keep what a version leaves, in `tests/data/upgrade/NAME.tar.xz`: `python -m tests.upgrade.make COMMIT NAME`.

The code of that commit plays the demo in an evolve workspace and a turn with a call of bash, in a home of its own. What
is kept is that home, and `root`: the folder in which it lay, which the databases name.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from instar.testing import clean_environment

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "data" / "upgrade"
PROMPT = "Write a note about what an instar is, and count the words in it."
SCRIPT = """\
== title
text: Echo

== turn
tool: bash {"command": "echo heard", "description": "Echo"}

== turn
text: The shell said heard.
"""


def make(commit: str, name: str) -> Path:
    """Play what is played with the code of a commit, and return the archive."""
    with tempfile.TemporaryDirectory(prefix="instar-upgrade-") as folder:
        root = Path(folder).resolve()
        code, home = root / "code", root / "home"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", code, commit], cwd=ROOT, check=True)
        try:
            play(root, code, home)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", code], cwd=ROOT, check=True)
        return keep(home, root, KEPT / f"{name}.tar.xz")


def play(root: Path, code: Path, home: Path) -> None:
    """A change of a hook script that passes its gate, and then an everyday turn."""
    workspace, project, script = home / "workspace", home / "project", root / "script.txt"
    environment = {
        **clean_environment(home),
        "PYTHONPATH": str(code / "src"),
        "INSTAR_TRUST": "all",
        "INSTAR_SCRIPT": str(script),
    }
    script.write_text(SCRIPT)
    project.mkdir()
    shutil.copytree(code / "examples" / "hello", workspace)
    evolving = {**environment, "INSTAR_WORKSPACE": str(workspace)}
    del evolving["INSTAR_SCRIPT"]
    for words, variables in (
        (["--model", "scripted/demo", PROMPT], evolving),
        (["--model", "scripted/x", "What does the shell say?"], environment),
    ):
        command = [sys.executable, "-m", "instar", "run", "--auto", *words]
        subprocess.run(command, cwd=project, env=variables, stdin=subprocess.DEVNULL, check=True, timeout=120)


def keep(home: Path, root: Path, archive: Path) -> Path:
    """Pack a home, without caches and git's examples of hooks."""
    shutil.rmtree(home / ".cache", ignore_errors=True)
    for cache in [*home.rglob("__pycache__")]:
        shutil.rmtree(cache)
    for example in [*home.rglob("hooks/*.sample")]:
        example.unlink()
    (home / "root").write_text(str(root))
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(home, "home", filter=anonymous)
    return archive


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """An entry without its owner; sockets are left out."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if entry.type == tarfile.FIFOTYPE else entry


if __name__ == "__main__":
    made = make(*sys.argv[1:3])
    print(f"{made.relative_to(ROOT)}: {made.stat().st_size / 1000:.0f} kB")
