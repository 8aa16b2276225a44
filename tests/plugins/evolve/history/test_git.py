"""Whatever a person's git is like: a tool run is one commit of just its files, and nothing of the person's is in it."""

import asyncio
import contextlib
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.plumbing import ABANDONED, LARGEST

MESSAGE = "bash\n\nSession: ses_1\nCall: call_1"


class Case:
    """A workspace `root` below `folder`, and a person's git in it."""

    def __init__(self, folder: Path, kit: Any) -> None:
        self.folder, self.kit = folder, kit
        self.root = folder / "ws"

    def git(self, *args: str, cwd: Path | None = None) -> str:
        quiet = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
        return str(self.kit.git(cwd or self.root, *quiet, *args))

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def fill(self, root: Path | None = None) -> None:
        """What a workspace has: a script, notes, and work of the person's own."""
        self.root = root or self.root
        self.write("hooks/bot.sh", "#!/bin/sh\n", 0o755)
        self.write("notes.md", "one\n")
        self.write("mine.md", "1\n")

    def begin(self) -> None:
        """A repository of the person's own, with a commit."""
        self.fill()
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "before")
        self.work()

    def work(self) -> None:
        """Work of the person's own, staged and not."""
        self.write("staged.md", "s\n")
        self.git("add", "staged.md")
        self.write("mine.md", "2\n")
        self.write("untracked.md", "u\n")

    def script(self, name: str, text: str) -> None:
        """A program of the person's that comes before those of the machine."""
        self.kit.script(self.folder / "bin", name, text)

    def lock(self, name: str, age: float) -> Path:
        """A lock in the git folder, made `age` seconds ago."""
        path = self.root / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
        return path


@pytest.fixture
def case(tmp_path: Path, kit: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return Case(tmp_path, kit)


@pytest.fixture
def history(processes: Any) -> Callable[..., History]:
    return lambda case, **how: History(processes, case.root, **how)


async def run(case: Case, history: History, message: str = MESSAGE) -> Any:
    """A tool run that changes a note, makes one, and changes a script."""
    before = history.scan()
    with (case.root / "notes.md").open("a") as file:
        file.write("more\n")
    case.write("notes/new.md", "new\n")
    with (case.root / "hooks" / "bot.sh").open("a") as file:
        file.write("# more\n")
    return await history.commit(history.changed(before), message)


CHANGED = ["hooks/bot.sh", "notes.md", "notes/new.md"]


def config(*pairs: str) -> Callable[[Case], None]:
    def prepare(case: Case) -> None:
        case.begin()
        for pair in pairs:
            name, _, value = pair.partition("=")
            case.git("config", name, value)

    return prepare


def home(text: str) -> Callable[[Case], None]:
    def prepare(case: Case) -> None:
        case.begin()
        (Path(os.environ["HOME"]) / ".gitconfig").write_text(text)

    return prepare


def hook(name: str, text: str) -> Callable[[Case], None]:
    def prepare(case: Case) -> None:
        case.begin()
        case.write(f".git/hooks/{name}", f"#!/bin/sh\n{text}\n", 0o755)

    return prepare


def after(*commands: str) -> Callable[[Case], None]:
    def prepare(case: Case) -> None:
        case.begin()
        for command in commands:
            case.git(*command.split())

    return prepare


def abandoned(name: str) -> Callable[[Case], None]:
    def prepare(case: Case) -> None:
        case.begin()
        case.lock(name, ABANDONED + 5)

    return prepare


def signing(case: Case) -> None:
    config("commit.gpgsign=true", "gpg.program=/bin/false", "user.signingkey=none")(case)


def subfolder(case: Case) -> None:
    case.root = case.folder / "outer" / "ws"
    outer = case.root.parent
    outer.mkdir()
    (outer / "o.md").write_text("o")
    case.git("init", "-q", cwd=outer)
    case.git("add", "o.md", cwd=outer)
    case.begin()


def submodule(case: Case) -> None:
    case.begin()
    outer = case.folder / "outer"
    outer.mkdir()
    case.git("init", "-q", cwd=outer)
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(case.root), "ws")
    case.git(*add, cwd=outer)
    case.root = outer / "ws"


def worktree(case: Case) -> None:
    case.begin()
    case.git("worktree", "add", "-q", "-b", "other", str(case.folder / "tree"))
    case.root = case.folder / "tree"


def linked(case: Case) -> None:
    case.begin()
    (case.root / ".git").rename(case.folder / "repository")
    (case.root / ".git").symlink_to(case.folder / "repository")


def holding_another(case: Case) -> None:
    case.begin()
    case.write("lib/x.py", "x")
    case.git("init", "-q", cwd=case.root / "lib")
    with (case.root / ".git" / "info" / "exclude").open("a") as file:
        file.write("lib\n")


def elsewhere(case: Case) -> None:
    (case.folder / "away").mkdir()
    config(f"core.worktree={case.folder / 'away'}")(case)


def sparse(case: Case) -> None:
    case.write("far/away.md", "f\n")
    case.begin()
    case.git("sparse-checkout", "set", "--no-cone", "/*", "!/notes.md", "!/notes/", "!/far/")
    case.write("notes.md", "one\n")


def sparse_index(case: Case) -> None:
    case.write("far/away.md", "f\n")
    case.write("near/by.md", "n\n")
    case.begin()
    case.git("sparse-checkout", "set", "--cone", "--sparse-index", "near", "hooks")


def unborn(case: Case) -> None:
    case.fill()
    case.git("init", "-q")
    case.work()


PREPARED: dict[str, Callable[[Case], None]] = {
    "unborn": unborn,
    "pre-commit fails": hook("pre-commit", "touch ../ran; exit 1"),
    "pre-commit edits": hook("pre-commit", "touch ../ran; echo x >>mine.md; git add -A"),
    "pre-commit hangs": hook("pre-commit", "touch ../ran; sleep 600"),
    "commit-msg": hook("commit-msg", "touch ../ran; echo spoilt >$1"),
    "post-commit": hook("post-commit", "touch ../ran; git reset -q --hard HEAD~1"),
    "reference-transaction": hook("reference-transaction", "touch ../ran; exit 1"),
    "post-index-change": hook("post-index-change", "touch ../ran; exit 1"),
    "core.hooksPath": config("core.hooksPath=/nonexistent/hooks"),
    "commit.gpgsign": signing,
    "detached": after("checkout -q --detach"),
    "another branch": after("switch -q -c topic/a"),
    "index.lock of a dead git": abandoned("index.lock"),
    "HEAD.lock of a dead git": abandoned("HEAD.lock"),
    "a branch's lock of a dead git": abandoned("refs/heads/main.lock"),
    "no identity": home(""),
    "no identity but the configured one": home("[user]\nuseConfigOnly = true\n"),
    "a name without an address": home("[user]\nname = Ada\nuseConfigOnly = true\n"),
    "an empty name": home("[user]\nname =\nemail =\n"),
    "in a subfolder of another": subfolder,
    "a submodule": submodule,
    "a worktree": worktree,
    "a link": linked,
    "one inside": holding_another,
    "core.bare": config("core.bare=true"),
    "core.worktree": elsewhere,
    "core.autocrlf": config("core.autocrlf=true", "core.safecrlf=true"),
    "core.autocrlf input": config("core.autocrlf=input", "core.safecrlf=true"),
    "core.fileMode": config("core.fileMode=false"),
    "core.fsmonitor": config("core.fsmonitor=touch ../ran; false"),
    "core.splitIndex": config("core.splitIndex=true"),
    "core.ignoreCase": config("core.ignoreCase=true"),
    "feature.manyFiles": config("feature.manyFiles=true", "index.version=4"),
    "status and diff": config(
        "status.showUntrackedFiles=no", "status.renames=copies", "diff.noprefix=true", "color.ui=always"
    ),
    "commit encoding": config("i18n.commitEncoding=latin1"),
    "sparse": sparse,
    "sparse index": sparse_index,
    "variables": Case.begin,
    "sha256": lambda case: (case.git("init", "-q", "--object-format=sha256"), case.begin())[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PREPARED)
async def test_a_tool_run_is_one_commit_of_its_files_and_the_persons_work_stays(
    case, history, kind, monkeypatch
):
    PREPARED[kind](case)
    commits, branch = commits_of(case), (case.root / ".git" / "HEAD")
    seen = not kind.startswith("core.bare") and kind != "core.worktree"
    before = status(case) if seen else []
    at = branch.read_bytes() if branch.exists() else b""
    made = history(case)
    with monkeypatch.context() as variables:
        for name in VARIABLES if kind == "variables" else ():
            variables.setenv(name, "/nonexistent")
        await made.prepare()
        commit = await run(case, made)
    assert made.problem is None
    assert commit is not None
    assert commit.files == CHANGED
    assert case.git("log", "-1", "--format=%B").strip() == MESSAGE
    assert commits_of(case)[1:] == commits
    assert shown(case) == CHANGED
    assert not (case.folder / "ran").exists()
    assert not at.startswith(b"ref: ") or branch.read_bytes() == at
    if seen:
        assert status(case) == [line for line in before if line[3:] not in CHANGED]
    # Without the index: of a sparse one git itself leaves trees out.
    monkeypatch.setenv("GIT_INDEX_FILE", str(case.folder / "no index"))
    case.git("fsck", "--no-dangling", "--no-progress")


VARIABLES = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"),
    *("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CEILING_DIRECTORIES"),
)


def status(case: Case) -> list[str]:
    return case.git("status", "--porcelain", "--untracked-files=all", "--no-renames").splitlines()


def commits_of(case: Case) -> list[str]:
    listed = subprocess.run(
        ["git", "log", "--format=%H"], cwd=case.root, capture_output=True, text=True, check=False
    )
    return listed.stdout.split()


def shown(case: Case, commit: str = "HEAD") -> list[str]:
    return case.git("show", "--format=", "--name-only", commit).split()


# -- what the person staged ------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_note_that_the_person_staged_otherwise_waits_for_the_persons_own_commit(case, history):
    case.begin()
    made = history(case)
    await made.prepare()
    case.write("notes.md", "one\nthe person's\n")
    case.git("add", "notes.md")
    commit = await run(case, made)
    assert commit is not None
    assert commit.files == ["hooks/bot.sh", "notes/new.md"]
    assert made.problem is not None
    assert "notes.md: you have staged another version of it" in made.problem
    assert case.git("diff", "--cached", "--name-only").split() == ["notes.md", "staged.md"]
    assert case.git("show", ":notes.md") == "one\nthe person's\n"
    case.git("commit", "-qm", "mine")
    await made.settle()
    assert made.problem is None
    assert subjects(case)[:3] == ["bash", "mine", "bash"]
    assert shown(case) == ["notes.md"]
    assert case.git("show", "HEAD:notes.md") == "one\nthe person's\nmore\n"


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
async def test_a_file_whose_changes_the_person_told_git_not_to_see_stays_out_and_keeps_its_mark(
    case, history, flag
):
    case.begin()
    case.git("update-index", flag, "mine.md")
    case.write("mine.md", "private\n")
    made = history(case)
    await made.prepare()
    before = made.scan()
    case.write("mine.md", "private\nmore\n")
    case.write("notes.md", "two\n")
    commit = await made.commit(made.changed(before), MESSAGE)
    assert commit is not None
    assert commit.files == ["notes.md"]
    assert made.problem is None
    (shown,) = [line for line in case.git("ls-files", "-v").splitlines() if line.endswith(" mine.md")]
    assert shown[0] in "hS"
    before = made.scan()
    case.write("mine.md", "private\nmost\n")
    assert await made.commit(made.changed(before), MESSAGE) is None
    assert made.problem is None


async def test_what_the_tool_run_itself_staged_is_committed(case, history):
    case.begin()
    made = history(case)
    await made.prepare()
    before = made.scan()
    case.write("notes.md", "all new\n")
    case.git("add", "notes.md")
    commit = await made.commit(made.changed(before), MESSAGE)
    assert commit is not None
    assert commit.files == ["notes.md"]


async def test_a_script_that_the_person_staged_otherwise_is_committed_as_it_went_live_and_stays_staged(
    case, history
):
    case.begin()
    made = history(case)
    await made.prepare()
    case.write("hooks/bot.sh", "#!/bin/sh\n# the person's\n", 0o755)
    case.git("add", "hooks/bot.sh")
    case.write("hooks/bot.sh", "#!/bin/sh\n", 0o755)
    await run(case, made)
    assert case.git("show", "HEAD:hooks/bot.sh") == "#!/bin/sh\n# more\n"
    assert case.git("show", ":hooks/bot.sh") == "#!/bin/sh\n# the person's\n"


@pytest.mark.slow
async def test_what_the_person_writes_while_the_commit_is_made_stays_theirs(case, history):
    case.begin()
    made = history(case)
    await made.prepare()
    real = shutil.which("git")
    # The index is held: their `git add` is refused, as beside any other git.
    case.script(
        "git",
        f"""        #!/bin/sh
        case "$*" in
        *commit-tree*) if mkdir "{case.folder}/once" 2>/dev/null; then
            printf 'one\\nby the person\\n' >notes.md; {real} add notes.md; fi ;;
        esac
        exec {real} "$@"
        """,
    )
    commit = await run(case, made)
    assert commit is not None
    assert commit.files == ["hooks/bot.sh", "notes.md", "notes/new.md"]
    assert case.git("status", "--porcelain", "notes.md") == " M notes.md\n"


# -- locks -----------------------------------------------------------------------------------------------

LOCKS = ["index.lock", "HEAD.lock", "refs/heads/main.lock"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCKS)
async def test_a_lock_that_may_be_anothers_holds_the_commit_up_and_the_index_stays_as_it_was(
    case, history, name
):
    case.begin()
    made = history(case, patience=0.1)
    await made.prepare()
    lock, before = case.lock(name, 0), status(case)
    index = (case.root / ".git" / "index").read_bytes()
    assert await run(case, made) is None
    assert made.problem is not None
    assert name in made.problem
    assert lock.exists()
    assert (case.root / ".git" / "index").read_bytes() == index
    assert [line for line in status(case) if line[3:] not in CHANGED] == before
    lock.unlink()
    await made.settle()
    assert made.problem is None
    assert shown(case) == CHANGED


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCKS)
async def test_an_old_lock_stays_while_a_git_is_at_work_in_the_workspace(case, history, name):
    case.begin()
    made = history(case, patience=0.1)
    await made.prepare()
    lock = case.lock(name, ABANDONED + 5)
    pipe = subprocess.PIPE
    with subprocess.Popen(["git", "cat-file", "--batch"], cwd=case.root, stdin=pipe, stdout=pipe) as living:
        living.stdin.write(b"HEAD\n")
        living.stdin.flush()
        living.stdout.readline()
        assert await run(case, made) is None
        assert lock.exists()
        living.stdin.close()
    await made.settle()
    assert not lock.exists()
    assert shown(case) == CHANGED


async def test_a_lock_that_goes_in_time_is_waited_for(case, history):
    case.begin()
    made = history(case, patience=5.0)
    await made.prepare()
    lock = case.lock("index.lock", 0)
    running = asyncio.ensure_future(run(case, made))
    while not any(case.root.glob("notes/new.md")):
        await asyncio.sleep(0.01)
    lock.unlink()
    assert (await running).files == CHANGED


# -- what is owed ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_each_change_whose_commit_failed_is_a_commit_of_its_own_later_also_in_another_process(
    case, history, processes
):
    case.begin()
    first = history(case, patience=0.1)
    await first.prepare()
    await first.keep_in(Database(case.folder / "data"))
    lock = case.lock("index.lock", 0)
    for number in (1, 2):
        before = first.scan()
        case.write(f"n{number}.md", "n\n")
        assert await first.commit(first.changed(before), f"tool {number}\n\nSession: ses_{number}") is None
    before = first.scan()
    case.write("cut.md", "n\n")
    first.owe(first.changed(before), "tool 3\n\nSession: ses_3")
    lock.unlink()
    second = history(case)
    await second.prepare()
    await second.keep_in(Database(case.folder / "data"))
    assert subjects(case) == ["tool 3", "tool 2", "tool 1", "before"]
    assert [shown(case, f"HEAD~{back}") for back in range(3)] == [["cut.md"], ["n2.md"], ["n1.md"]]
    assert "Session: ses_1" in case.git("log", "-1", "--format=%B", "HEAD~2")
    third = history(case)
    await third.keep_in(Database(case.folder / "data"))
    assert len(subjects(case)) == 4


async def test_a_change_that_a_newer_one_went_over_is_named_in_the_newer_ones_commit(case, history):
    case.begin()
    made = history(case, patience=0.1)
    await made.prepare()
    lock = case.lock("index.lock", 0)
    case.write("notes.md", "1")
    await made.commit(["notes.md"], "first\n\nSession: ses_1\nCall: call_1")
    lock.unlink()
    case.write("notes.md", "2")
    await made.commit(["notes.md"], "second\n\nSession: ses_2")
    assert subjects(case) == ["second", "before"]
    said = case.git("log", "-1", "--format=%b").splitlines()
    assert said[:2] == ["Session: ses_2", "Makes-up: first (session ses_1, call call_1)"]


@pytest.mark.parametrize("text", [b"", b"{", b'{"files": 3}', b"[[[["])
async def test_what_is_owed_and_damaged_is_left_out_and_the_log_says_so(case, history, caplog, text):
    case.begin()
    database = Database(case.folder / "data")
    database.change(lambda connection: connection.execute("INSERT INTO debt VALUES (NULL, ?)", (text,)))
    made = history(case)
    await made.keep_in(database)
    assert (await run(case, made)).files == CHANGED
    assert "damaged=Debt" in caplog.text


# -- a person at work ------------------------------------------------------------------------------------


def conflict(case: Case) -> None:
    """Two branches with another line in the same place."""
    case.begin()
    case.git("reset", "-q", "--hard")
    case.git("switch", "-q", "-c", "other")
    case.write("mine.md", "theirs\n")
    case.git("commit", "-qam", "theirs")
    case.git("switch", "-q", "main")
    case.write("mine.md", "ours\n")
    case.git("commit", "-qam", "ours")


BEGUN = {
    "rebase": (["rebase", "other"], ["rebase", "--abort"]),
    "merge": (["merge", "other"], ["merge", "--abort"]),
    "cherry-pick": (["cherry-pick", "other"], ["cherry-pick", "--abort"]),
    "revert": (["revert", "--no-edit", "HEAD~1"], ["revert", "--abort"]),
    "bisect": (["bisect", "start"], ["bisect", "reset"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BEGUN)
async def test_while_the_person_is_in_the_middle_of_something_nothing_is_committed(case, history, kind):
    conflict(case)
    if kind == "revert":
        case.write("mine.md", "again\n")
        case.git("commit", "-qam", "again")
    made = history(case)
    await made.prepare()
    begin, end = BEGUN[kind]
    with contextlib.suppress(subprocess.CalledProcessError):
        case.git(*begin)
    before = commits_of(case), case.git("diff", "--cached", "--name-only")
    assert await run(case, made) is None
    assert made.problem is not None
    assert f"a {kind} of yours is not finished" in made.problem
    assert (commits_of(case), case.git("diff", "--cached", "--name-only")) == before
    stand = {path: (case.root / path).read_text() for path in CHANGED}
    case.git(*end)
    for path, text in stand.items():
        # Some of these commands put everything back.
        (case.root / path).write_text(text)
    await made.settle()
    assert made.problem is None
    assert shown(case) == CHANGED


WRITERS = {
    "add and commit": "date +%N >p.md; git add p.md; git commit -qm p",
    "commit all": "date +%N >mine.md; git commit -qam p",
    "add and reset": "date +%N >p.md; git add p.md; git reset -q",
    "stash": "date +%N >mine.md; git stash -q && git stash pop -q",
    "amend": "git commit -q --amend --no-edit --allow-empty",
    "switch": "git switch -q other; git switch -q main",
    "rebase": "git commit -q --allow-empty -m p; git rebase -q --force-rebase HEAD~1",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITERS)
async def test_beside_a_person_who_never_stops_using_git_every_tool_run_is_committed(case, history, kind):
    case.begin()
    case.git("add", "-A")
    case.git("commit", "-qm", "clean")
    case.git("branch", "other")
    made = history(case)
    await made.prepare()
    stop = case.folder / "stop"
    loop = f"until [ -e {stop} ]; do {WRITERS[kind]}; done"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(["sh", "-c", loop], cwd=case.root, **quiet) as person:
        for number in range(6):
            case.write(f"agent/{number}.md", f"{number}\n")
            await made.commit([f"agent/{number}.md"], f"tool {number}")
        stop.touch()
        person.wait(30)
    while (case.root / ".git" / "rebase-merge").exists():
        # It met our lock in the moment in which the branch moves.
        case.git("-c", "core.editor=true", "rebase", "--continue")
    case.git("switch", "-q", "main")
    await made.settle()
    assert made.problem is None
    log = case.git("log", "--all", "--reflog", "--format=%x00%s", "--name-only")
    commits = [entry.split("\n") for entry in log.split("\0")[1:]]
    for number in range(6):
        wanted = [f"tool {number}", f"agent/{number}.md"]
        assert wanted in [[line for line in lines if line] for lines in commits], log
    assert {lines[0] for lines in commits if "mine.md" in lines} <= {"before", "clean", "p"}


async def test_a_branch_that_the_person_switches_while_a_tool_runs_is_where_the_commit_goes(case, history):
    case.begin()
    case.git("switch", "-q", "-c", "other")
    case.git("commit", "-qm", "theirs")
    case.git("switch", "-q", "main")
    made = history(case)
    await made.prepare()
    before = made.scan()
    case.git("switch", "-q", "other")
    case.write("notes.md", "by the tool\n")
    commit = await made.commit(made.changed(before), MESSAGE)
    assert commit is not None
    assert commit.files == ["notes.md"]
    assert subjects(case) == ["bash", "theirs", "before"]
    assert case.git("log", "--format=%s", "main").split() == ["before"]


# -- a git that cannot -----------------------------------------------------------------------------------

CANNOT = {
    "full": "ulimit -f 0; exec {git}",
    "read-only": "exec setpriv --bounding-set=-dac_override --inh-caps=-dac_override {git}",
    "of somebody else": "GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {git}",
    "crashing": "kill -9 $$",
}


@pytest.mark.parametrize("kind", CANNOT)
async def test_a_git_that_cannot_write_costs_the_commit_and_harms_nothing(case, history, kind):
    case.begin()
    made = history(case)
    await made.prepare()
    commits, before = commits_of(case), status(case)
    index = (case.root / ".git" / "index").read_bytes()
    git = CANNOT[kind].format(git=f'{shutil.which("git")} "$@"')
    folders = [path for path in [case.root / ".git", *(case.root / ".git").rglob("*")] if path.is_dir()]
    if kind == "read-only":
        for folder in folders:
            folder.chmod(0o555)
    case.script("git", f"#!/bin/sh\n{git}\n")
    assert await run(case, made) is None
    assert made.problem is not None
    assert (case.root / ".git" / "index").read_bytes() == index
    (case.folder / "bin" / "git").unlink()
    for folder in folders:
        folder.chmod(0o755)
    assert commits_of(case) == commits
    assert [line for line in status(case) if line[3:] not in CHANGED] == before
    await made.settle()
    assert made.problem is None
    assert shown(case) == CHANGED


async def test_a_disk_that_is_full_when_the_index_is_written_leaves_the_old_one(case, history, monkeypatch):
    case.begin()
    made = history(case)
    await made.prepare()
    index = (case.root / ".git" / "index").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    real = shutil.which("git")
    case.script("git", f'#!/bin/sh\nulimit -f unlimited; exec {real} "$@"\n')
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        assert await run(case, made) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (case.root / ".git" / "index").read_bytes() == index
    assert not (case.root / ".git" / "index.lock").exists()
    assert subjects(case) == ["before"]
    await made.settle()
    assert shown(case) == CHANGED


# -- what stands in the way of files ---------------------------------------------------------------------


async def test_a_file_that_became_a_folder_and_a_folder_that_became_a_file_are_committed(case, history):
    case.write("a", "a")
    case.write("b/c", "c")
    case.begin()
    made = history(case)
    await made.prepare()
    before = made.scan()
    (case.root / "a").unlink()
    case.write("a/x", "x")
    shutil.rmtree(case.root / "b")
    case.write("b", "b")
    commit = await made.commit(made.changed(before), MESSAGE)
    assert made.problem is None
    assert commit is not None
    assert commit.files == ["a", "a/x", "b", "b/c"]
    assert case.git("ls-files", "a", "b").split() == ["a/x", "b"]


@pytest.mark.slow
async def test_thousands_of_files_are_one_commit(case, history):
    case.begin()
    made = history(case)
    await made.prepare()
    before = made.scan()
    for number in range(3000):
        case.write(f"many/{'x' * 60}{number}", str(number))
    commit = await made.commit(made.changed(before), MESSAGE)
    assert commit is not None
    assert len(commit.files) == 3000
    assert [line for line in status(case) if "many" in line] == []


@pytest.mark.slow
async def test_a_file_too_large_for_git_waits_is_said_and_never_handed_to_git(case, history):
    case.begin()
    made = history(case)
    await made.prepare()
    before = made.scan()
    with case.write("model.bin", "").open("wb") as file:
        file.truncate(LARGEST + 1)
    case.write("notes.md", "two\n")
    commit = await made.commit(made.changed(before), MESSAGE)
    assert commit is not None
    assert commit.files == ["notes.md"]
    assert "model.bin: it is larger than 100 MiB" in made.problem
    stored = sum(path.stat().st_size for path in (case.root / ".git").rglob("*") if path.is_file())
    assert stored < 1 << 20
    case.write(".gitignore", "*.bin\n")
    await made.settle()
    assert made.problem is None


# -- the first commit ------------------------------------------------------------------------------------


async def test_what_cannot_be_committed_at_first_is_left_out_of_the_initial_commit(case, history):
    case.fill()
    case.write("lib/x.py", "x")
    case.git("init", "-q", cwd=case.root / "lib")
    os.mkfifo(case.root / "pipe")
    case.write("hooks/__pycache__/x.pyc", "x")
    made = history(case)
    await made.prepare()
    assert made.problem is None
    assert subjects(case) == ["initial"]
    assert case.git("ls-files").split() == ["hooks/bot.sh", "mine.md", "notes.md"]


@pytest.mark.slow
async def test_a_first_commit_that_was_cut_short_is_made_at_the_next_start(case, history, monkeypatch):
    case.fill()
    real = shutil.which("git")
    case.script("git", f'#!/bin/sh\ncase "$*" in *commit-tree*) kill -9 $$;; esac\nexec {real} "$@"\n')
    await history(case).prepare()
    assert commits_of(case) == []
    (case.folder / "bin" / "git").unlink()
    made = history(case)
    await made.prepare()
    assert subjects(case) == ["initial"]
    await run(case, made)
    assert subjects(case) == ["bash", "initial"]


@pytest.mark.slow
async def test_a_workspace_that_is_itself_a_bare_repository_gets_one_of_its_own(case, history):
    case.git("init", "-q", "--bare")
    case.fill()
    made = history(case)
    await made.prepare()
    assert (await run(case, made)).files == CHANGED
    assert subjects(case) == ["bash", "initial"]


@pytest.mark.parametrize("text", ["gitdir: /nonexistent/place\n", "nonsense", ""])
async def test_a_git_file_that_leads_nowhere_is_said_and_left(case, history, text):
    case.fill()
    case.write(".git", text)
    made = history(case)
    await made.prepare()
    assert await run(case, made) is None
    assert made.problem is not None
    assert "git could not commit" in made.problem
    assert (case.root / ".git").read_text() == text


def subjects(case: Case) -> list[str]:
    return case.git("log", "--format=%s").splitlines()
