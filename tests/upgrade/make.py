"""Keep what a version leaves, in `tests/data/upgrade/NAME.tar.xz`: `python -m tests.upgrade.make COMMIT NAME`.

The code of that commit plays the demo in an evolve workspace and a turn with a call of bash, in a home of its own. What
is kept is that home, and `root`: the folder in which it lay, which the databases name. With a NAME that begins with
``postgresql`` it plays the turn alone, on a PostgreSQL server, and `NAME.sql` is a dump of the schema.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.postgresql import cluster

from instar.testing import clean_environment

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "data" / "upgrade"
PROMPT = "Write a note about what an instar is, and count the words in it."
QUESTION = "What does the shell say?"
SCRIPT = """\
== title
text: Echo

== turn
tool: bash {"command": "echo heard", "description": "Echo"}

== turn
text: The shell said heard.
"""


def make(commit: str, name: str) -> Path:
    """Play what is played with the code of a commit, and return the archive or the dump."""
    with tempfile.TemporaryDirectory(prefix="instar-upgrade-") as folder:
        root = Path(folder).resolve()
        code, home = root / "code", root / "home"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", code, commit], cwd=ROOT, check=True)
        try:
            if name.startswith("postgresql"):
                return dump(root, code, home, KEPT / f"{name}.sql")
            play(root, code, home)
            return keep(home, root, KEPT / f"{name}.tar.xz")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", code], cwd=ROOT, check=True)


def play(root: Path, code: Path, home: Path) -> None:
    """A change of a hook script that passes its gate, and then an everyday turn."""
    environment = given(root, code, home)
    shutil.copytree(code / "examples" / "hello", home / "workspace")
    run(
        home, {**environment, "INSTAR_WORKSPACE": str(home / "workspace")}, "--model", "scripted/demo", PROMPT
    )
    run(home, {**environment, "INSTAR_SCRIPT": str(root / "script.txt")}, "--model", "scripted/x", QUESTION)


def dump(root: Path, code: Path, home: Path, to: Path) -> Path:
    """An everyday turn, on a server."""
    server = cluster()
    environment = {**given(root, code, home), "INSTAR_DATABASE": server.database("kept")}
    run(home, {**environment, "INSTAR_SCRIPT": str(root / "script.txt")}, "--model", "scripted/x", QUESTION)
    server.shell(f"pg_dump --schema=kept --inserts --no-owner postgres > {server.folder}/kept.sql")
    shutil.copyfile(server.folder / "kept.sql", to)
    return to


def given(root: Path, code: Path, home: Path) -> dict[str, str]:
    """The environment of commands of that version; the script and the project are made."""
    (root / "script.txt").write_text(SCRIPT)
    environment = clean_environment(home)
    (home / "project").mkdir()
    return {**environment, "PYTHONPATH": str(code / "src"), "INSTAR_TRUST": "all"}


def run(home: Path, environment: dict[str, str], *words: str) -> None:
    """Run a turn to its end."""
    command = [sys.executable, "-m", "instar", "run", "--auto", *words]
    subprocess.run(
        command, cwd=home / "project", env=environment, stdin=subprocess.DEVNULL, check=True, timeout=120
    )


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
