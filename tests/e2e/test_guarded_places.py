"""What a model makes that would run later: noticed when the call ends, asked about, put aside, said, put back."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from instar.approval.permissions import always_once
from instar.event import PermissionAsked
from instar.testing import Machine

LEVELS = ["auto", *(pytest.param(one, marks=pytest.mark.slow) for one in ("landlock", "none"))]
HOOK = "#!/bin/sh\ntouch {trace}\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.write("a.txt", "a\n")
    made.repository()
    return made


def call(machine: Machine, *commands: str, tool: str = "bash") -> None:
    """Let the model call bash with each of these commands, and then be done."""
    turns = [f"== turn\ntool: {tool} {json.dumps({'command': one})}\n" for one in commands]
    machine.says("\n".join([*turns, "== turn\ntext: done\n"]))


def run(
    machine: Machine, *commands: str, level: str = "auto", left: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a prompt without a terminal, whose model calls bash with these commands; `left`: start-up files that stay."""
    machine.settings(shield={"level": level, "startup_files": left})
    call(machine, *commands)
    done = machine.run("run", "--auto", "--model", "scripted/x", "go")
    assert done.returncode == 0, done.stderr
    return done


def git(machine: Machine, *words: str, check: bool = True) -> str:
    """Run git as the person does."""
    given = {**machine.environment, "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
    given |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
    done = subprocess.run(
        ["git", *words], cwd=machine.folder, env=given, capture_output=True, text=True, check=check
    )
    return done.stdout


def last_result(machine: Machine) -> str:
    """What the model read last of a call."""
    return json.dumps(machine.requests()[-1]["messages"][-1])


@pytest.mark.parametrize("level", LEVELS)
def test_a_hook_that_the_model_writes_does_not_run_at_the_persons_commit(
    machine: Machine, tmp_path: Path, level: str
) -> None:
    trace = tmp_path / "trace"
    hook = machine.folder / ".git/hooks/pre-commit"
    done = run(
        machine,
        f"printf '{HOOK.format(trace=trace)}' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        level=level,
    )
    assert not hook.exists()
    git(machine, "commit", "-q", "--allow-empty", "-m", "second")
    assert not trace.exists()
    assert ".git/hooks/pre-commit (git runs it) was put aside" in done.stderr
    assert "instar aside restore" in last_result(machine)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("command", "person"),
    [
        ("git config core.fsmonitor 'touch {trace}; false'", ["status"]),
        ("git config alias.st '!touch {trace}'", ["st"]),
        ("git config filter.x.clean 'touch {trace}'; echo '* filter=x' > .gitattributes", ["add", "."]),
        ("git config include.path ../extra; printf '[alias]\\nst=!touch {trace}\\n' > extra", ["st"]),
        ("mkdir h; printf '#!/bin/sh\\ntouch {trace}' > h/pre-commit; chmod +x h/*; git config core.hooksPath h",
         ["commit", "-qm", "x", "--allow-empty"]),
        ("git config extensions.worktreeConfig true; printf '[alias]\\nst=!touch {trace}\\n' > .git/config.worktree",
         ["st"]),
        ("printf '\\n[alias]\\n\\tst = \"!touch {trace}\"\\n[core]\\n' >> .git/config", ["st"]),
    ],
)  # fmt: skip
def test_settings_of_git_that_run_something_are_taken_out(
    machine: Machine, tmp_path: Path, command: str, person: Sequence[str], level: str
) -> None:
    trace = tmp_path / "trace"
    done = run(machine, command.format(trace=trace), level=level)
    git(machine, *person, check=False)
    assert not trace.exists(), done.stderr
    assert "was put aside" in done.stderr


@pytest.mark.slow
def test_what_a_person_had_and_what_cannot_run_anything_stays(machine: Machine, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    hook = machine.folder / ".git/hooks/pre-commit"
    hook.write_text(HOOK.format(trace=trace))
    hook.chmod(0o755)
    git(machine, "config", "alias.st", "!true")
    git(machine, "init", "-q", "--bare", str(tmp_path / "other.git"))
    library = tmp_path / "library"
    git(machine, "clone", "-q", str(machine.folder), str(library))
    done = run(
        machine,
        f"git remote add origin {tmp_path}/other.git; git remote add far git@example.org:a/b.git",
        "git push -q -u origin main",
        "git config user.name Eve; git config user.email eve@example.org; git config pull.rebase true",
        "echo b > a.txt; git commit -qam second",
        "echo c > a.txt; git stash -q; git stash pop",
        "git worktree add -q ../tree; cd ../tree; git worktree list; cd ../project; git worktree remove ../tree",
        f"git -c protocol.file.allow=always submodule add -q {library} lib; git commit -qam third",
        "git submodule update --init; git sparse-checkout set --no-cone '/*'; git config core.autocrlf input",
        "git checkout -q -b more; git branch -m other; git gc -q; git config --unset core.autocrlf",
    )
    assert "aside" not in done.stderr
    assert trace.exists(), "the person's own hook ran at the model's commit"
    assert "refs/heads/main" in git(machine, "config", "branch.main.merge")
    assert git(machine, "config", "user.name") == "Eve\n"
    assert not (machine.data / "aside").exists()


@pytest.mark.slow
def test_what_was_put_aside_is_put_back_by_its_name_and_then_stays(machine: Machine) -> None:
    hook, config = machine.folder / ".git/hooks/pre-push", machine.folder / ".git/config"
    hook.write_text("#!/bin/sh\necho before\n")
    commands = "echo after > .git/hooks/pre-push; git config filter.lfs.clean 'git-lfs clean -- %f'"
    commands += "; git config user.name E"
    run(machine, commands)
    assert hook.read_text() == "#!/bin/sh\necho before\n"
    assert "lfs" not in config.read_text()
    assert git(machine, "config", "user.name") == "E\n"
    (name,) = json.loads(machine.run("aside", "list", "--json").stdout)
    assert str(hook) in machine.run("aside", "list").stdout
    done = machine.run("aside", "restore", name)
    assert done.returncode == 0, done.stderr
    assert hook.read_text() == "after\n"
    assert git(machine, "config", "filter.lfs.clean") == "git-lfs clean -- %f\n"
    assert "echo before" in machine.run("aside", "list").stdout or list(
        machine.data.glob("aside/*/**/pre-push")
    )
    git(machine, "config", "--remove-section", "filter.lfs")
    hook.write_text("other\n")
    assert "aside" not in run(machine, commands).stderr
    assert hook.read_text() == "after\n"
    wrong = machine.run("aside", "restore", "never")
    assert wrong.returncode == 2
    assert "instar aside list says what was" in wrong.stderr


def test_a_deleted_hook_and_a_setting_that_was_taken_out_are_put_back(machine: Machine) -> None:
    hook = machine.folder / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    git(machine, "config", "core.hooksPath", "hooks")
    done = run(machine, "rm .git/hooks/pre-commit; git config --unset core.hooksPath")
    assert hook.read_text() == "#!/bin/sh\nexit 1\n"
    assert git(machine, "config", "core.hooksPath") == "hooks\n"
    assert "was deleted and is back in place" in done.stderr
    assert machine.run("aside", "list").stdout == ""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "command",
    [
        "git init -q ../evil; printf '[alias]\\nst=!touch {trace}\\n' >> ../evil/.git/config;"
        " printf 'gitdir: {evil}/.git\\n' > .git",
        "git init -q ../evil; printf '[alias]\\nst=!touch {trace}\\n' >> ../evil/.git/config;"
        " echo {evil}/.git > $(git rev-parse --git-dir)/commondir",
    ],
)
def test_what_leads_to_another_git_folder_is_put_aside(
    machine: Machine, tmp_path: Path, command: str, level: str
) -> None:
    tree, trace = tmp_path / "tree", tmp_path / "trace"
    git(machine, "worktree", "add", "-q", str(tree))
    machine.folder = tree
    done = run(machine, command.format(trace=trace, evil=tmp_path / "evil"), level=level)
    git(machine, "st", check=False)
    assert not trace.exists()
    assert "put aside" in done.stderr
    assert git(machine, "status", "--short") == ""


def test_hooks_and_settings_of_a_submodule_are_guarded(machine: Machine, tmp_path: Path) -> None:
    library = tmp_path / "library"
    git(machine, "clone", "-q", str(machine.folder), str(library))
    git(machine, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "deep/lib")
    trace = tmp_path / "trace"
    done = run(
        machine,
        f"cd deep/lib; git config alias.st '!touch {trace}';"
        f" printf '#!/bin/sh\\ntouch {trace}' > $(git rev-parse --git-dir)/hooks/post-checkout;"
        " chmod +x $(git rev-parse --git-dir)/hooks/post-checkout",
        "cd deep/lib; git init -q ../evil; echo 'gitdir: ../evil/.git' > .git",
    )
    git(machine, "-C", "deep/lib", "st", check=False)
    git(machine, "-C", "deep/lib", "checkout", "-q", "-b", "x")
    assert not trace.exists(), done.stderr
    assert done.stderr.count("put aside") >= 3
    assert "modules" in git(machine, "-C", "deep/lib", "rev-parse", "--git-dir")


def test_a_repository_that_the_model_makes_in_the_projects_folder_has_no_hook_of_its(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    trace = tmp_path / "trace"
    run(
        machine,
        f"git init -q; printf '#!/bin/sh\\ntouch {trace}' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
    )
    git(machine, "commit", "-q", "--allow-empty", "-m", "first")
    assert not trace.exists()


def test_a_link_in_place_of_a_folder_leads_nothing_of_the_persons_away(
    machine: Machine, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "precious").write_text("mine\n")
    (machine.folder / ".git/hooks/pre-push").write_text("before\n")
    done = run(
        machine, f"rm -r .git/hooks; ln -s {theirs} .git/hooks; rm -rf ~/.config/fish; ln -s {theirs} ~/bin"
    )
    assert (theirs / "precious").read_text() == "mine\n"
    assert list(theirs.iterdir()) == [theirs / "precious"]
    assert (machine.folder / ".git/hooks/pre-push").read_text() == "before\n"
    assert not (machine.folder / ".git/hooks").is_symlink()
    assert "put aside" in done.stderr


def test_a_link_that_the_model_lays_on_the_way_is_said_and_not_followed(
    machine: Machine, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs/git"
    theirs.mkdir(parents=True)
    (theirs / "config").write_text("[alias]\n\tst = !true\n")
    done = run(
        machine,
        f"mkdir -p ~/.config; mv ~/.config ~/.config-2; ln -s {theirs.parent} ~/.config",
        level="none",
    )
    assert (theirs / "config").read_text() == "[alias]\n\tst = !true\n"
    assert "cannot be put aside" in done.stderr


STARTUP = [
    ".bashrc", ".profile", ".zshrc", ".ssh/authorized_keys", ".ssh/rc", ".vimrc", ".config/nvim/init.lua",
    ".config/nvim/lua/a/b.lua", ".emacs", ".config/fish/conf.d/x.fish", ".config/autostart/x.desktop",
    ".config/systemd/user/x.service", ".config/systemd/user/default.target.wants/x.service", "bin/git",
    ".local/bin/ls", ".npmrc", ".config/pip/pip.conf",
]  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_start_up_files_of_the_person_are_put_aside_whether_they_were_there_or_not(
    machine: Machine, level: str
) -> None:
    home = Path(machine.environment["HOME"])
    there = home / ".bash_profile"
    there.write_text("export A=1\n")
    (home / ".gitconfig").write_text("[user]\n\tname = A\n")
    for name in STARTUP:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
    lines = "; ".join(f"echo evil > ~/{name}" for name in STARTUP)
    done = run(
        machine,
        f"{lines}; echo evil >> ~/.bash_profile; git config --global alias.st '!evil'; git config --global user.name E",
        level=level,
    )
    assert there.read_text() == "export A=1\n"
    assert not [name for name in STARTUP if (home / name).exists()]
    assert (
        git(machine, "config", "--global", "--list") == f"user.name={'A' if level == 'landlock' else 'E'}\n"
    )
    assert "~/.config/systemd/user/x.service (systemd starts it) was put aside" in done.stderr
    kept = [path for path in machine.data.glob("aside/*/**/*") if path.is_file()]
    # At the level landlock the kernel refuses new files directly in the home folder, of which git's lock is one.
    made = [name for name in STARTUP if level != "landlock" or "/" in name]
    assert len(kept) == len([*made, "aside.json", ".bash_profile"]) + (level != "landlock")


@pytest.mark.parametrize("level", LEVELS)
def test_the_machines_start_up_files_are_put_aside_for_root(
    machine: Machine, tmp_path: Path, level: str
) -> None:
    root = tmp_path / "system"
    (root / "etc/profile.d").mkdir(parents=True)
    (root / "etc/profile.d/there.sh").write_text("before\n")
    machine.environment["INSTAR_SYSTEM_ROOT"] = str(root)
    names = [
        "var/spool/cron/crontabs/root", "etc/cron.d/x", "etc/cron.daily/x", "etc/ld.so.preload", "etc/profile.d/x.sh",
        "etc/ld.so.conf.d/x.conf", "etc/systemd/system/x.service", "usr/local/bin/ls", "etc/pam.d/x", "etc/sudoers.d/x",
        "etc/systemd/system/multi-user.target.wants/x.service",
    ]  # fmt: skip
    lines = "; ".join(f"mkdir -p {root}/{Path(name).parent}; echo evil > {root}/{name}" for name in names)
    done = run(machine, f"{lines}; echo evil > {root}/etc/profile.d/there.sh", level=level)
    assert not [name for name in names if (root / name).exists()], done.stderr
    assert (root / "etc/profile.d/there.sh").read_text() == "before\n"


def test_what_package_managers_make_is_left_but_what_stands_for_another_program_is_not(
    machine: Machine,
) -> None:
    home = Path(machine.environment["HOME"])
    site, programs = home / ".local/lib/python3.11/site-packages", home / ".local/bin"
    site.mkdir(parents=True)
    programs.mkdir()
    (programs / "mine").write_text("mine")
    done = run(
        machine,
        f"cd {home}/.local; echo new > bin/brand-new; echo evil > bin/sed; echo evil > bin/mine;"
        " echo /src > lib/python3.11/site-packages/a.pth; echo 'import os' > lib/python3.11/site-packages/b.pth",
    )
    assert sorted(path.name for path in programs.iterdir()) == ["brand-new", "mine"]
    assert (programs / "mine").read_text() == "mine"
    assert [path.name for path in site.iterdir()] == ["a.pth"], done.stderr


@pytest.mark.parametrize(
    ("left", "names"),
    [
        (["*"], [".bashrc", "bin/sed", "b.pth"]),
        (["~/.local/bin/*"], ["bin/sed"]),
        (["/nowhere/*", "*/site-packages/*.pth"], ["b.pth"]),
        ([], []),
    ],
)
def test_the_persons_settings_name_start_up_files_that_stay(
    machine: Machine, left: list[str], names: list[str]
) -> None:
    home = Path(machine.environment["HOME"])
    site = home / ".local/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (home / ".local/bin").mkdir()
    done = run(
        machine,
        f"cd {home}; echo evil > .bashrc; echo evil > .local/bin/sed; echo 'import os' > {site}/b.pth",
        "echo evil > .git/hooks/pre-commit",
        left=left,
    )
    places = {".bashrc": home / ".bashrc", "bin/sed": home / ".local/bin/sed", "b.pth": site / "b.pth"}
    assert [name for name, place in places.items() if place.exists()] == names
    assert not (machine.folder / ".git/hooks/pre-commit").exists()
    assert "pre-commit" in done.stderr


def test_a_start_up_file_is_named_by_a_path_and_a_stranger_names_none(machine: Machine) -> None:
    machine.settings(shield={"startup_files": ["bin/sed"]})
    refused = machine.run("config", "show", "shield")
    assert refused.returncode == 2
    assert "expected a path that begins with /, ~/ or *, found 'bin/sed'" in refused.stderr
    machine.settings()
    del machine.environment["INSTAR_TRUST"]
    machine.write("instar.json", '{"shield": {"startup_files": ["*"]}}')
    assert "shield.startup_files was left out" in machine.run("config", "show", "shield").stdout


@pytest.mark.parametrize("seconds", [0, 1])
def test_what_a_background_command_plants_does_not_outlive_the_run(machine: Machine, seconds: int) -> None:
    hook = machine.folder / ".git/hooks/pre-commit"
    start = {"action": "start", "command": "sleep 0.2; echo evil > .git/hooks/pre-commit; sleep 60"}
    machine.says(
        f"== turn\ntool: background {json.dumps(start)}\n\n== turn\ntool: bash "
        f'{{"command": "sleep {seconds}"}}\n\n== turn\ndelay: 500ms\ntext: done\n'
    )
    done = machine.run("run", "--auto", "--model", "scripted/x", "go")
    assert not hook.exists()
    assert "put aside" in done.stderr


def test_what_a_tool_of_instars_own_or_a_plugins_writes_counts_too(machine: Machine) -> None:
    machine.plugin(
        """
        from pathlib import Path
        from instar.plugin import Tool

        async def plugin(input, options=None):
            async def execute(args, ctx):
                Path(input.directory, ".git/hooks/post-merge").write_text("evil")
                raise RuntimeError("broken")
            return {"tool": {"plant": Tool("Plants.", {"type": "object"}, execute)}}
        """
    )
    path = str(machine.folder / ".git/hooks/pre-commit")
    machine.says(
        f"== turn\ntool: write {json.dumps({'filePath': path, 'content': 'evil'})}\ntool: plant {{}}\n\n"
        "== turn\ntext: done\n"
    )
    done = machine.run("run", "--auto", "--model", "scripted/x", "go")
    assert "post-merge" in done.stderr
    assert "pre-commit" in done.stderr
    assert not list((machine.folder / ".git/hooks").glob("p*[!e]"))


def test_the_note_is_read_behind_an_output_that_is_cut(machine: Machine) -> None:
    run(machine, "seq 100000; echo evil > .git/hooks/pre-commit")
    assert "instar aside restore" in last_result(machine)


async def test_a_client_is_asked_and_never_by_auto_or_for_always(machine: Machine) -> None:
    asked: list[PermissionAsked] = []
    answers = ["always", "reject"]

    async def person(question: PermissionAsked) -> str:
        asked.append(question)
        return answers.pop(0)

    hook = machine.folder / ".git/hooks/pre-commit"
    for made, kept in (("one", True), ("two", False), ("one", True)):
        call(machine, f"echo {made} > .git/hooks/pre-commit")
        async with machine:
            runtime = await machine.open(person=person)
            await runtime.ask(await runtime.session(), "go")
        assert (hook.read_text() == f"{made}\n") == kept
    assert [(one.permission, one.always) for one in asked] == [("keep", [])] * 2
    assert "one" in asked[0].metadata["diff"]
    call(machine, "echo three > .git/hooks/pre-commit")
    async with machine:
        runtime = await machine.open(person=always_once)
        await runtime.ask(await runtime.session(), "go")
    assert hook.read_text() == "one\n"
