"""A sandbox on the workspace itself: what a script was granted, and nothing beside it."""

import asyncio
import os
import socket
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.sandbox.attacks import READS, WAYS, WRITES
from tests.sandbox.conftest import KEY, LIMITS, NAP, Home, Listeners, assert_nothing_runs, state_of

from instar.process import Output, ProcessError, Processes
from instar.sandbox import seccomp
from instar.sandbox.box import Sandbox
from instar.sandbox.level import Level
from instar.sandbox.place import Live

NAMES = frozenset(("PY", "NAP", "WS", "DATA", "CONFIG", "PID", "PORT", "ABSTRACT", "XDG_RUNTIME_DIR", "MINE"))


def live(home: Home, *writable: str, network: bool = False) -> Live:
    return Live(home.workspace, tuple(map(Path, writable)), home.readonly, home.hidden, network)


async def granted(
    processes: Processes, home: Home, level: Level, script: str, place: Live, **env: str
) -> Output:
    """Run `script` as a hook script that was granted `place`."""
    return await processes.run(
        ["/bin/bash", "-c", script],
        cwd=home.workspace,
        env=home.environment(API_KEY=KEY, **env),
        timeout=20,
        merge=True,
        confine=Sandbox(level, place, LIMITS, keep=NAMES),
    )


async def test_a_script_writes_the_folders_it_was_granted_and_no_others(
    processes: Processes, home: Home, level: Level
) -> None:
    script = """
        echo kept > state/a; echo kept > notes/deep/b; mkdir state/sub; mv state/a state/sub/a; cat src/main.py
        for one in src/x x notes/c state/../src/x hooks/x tests/x prompts/x .git/x; do echo evil > $one; done
        rm -rf src tests; mv notes/deep notes/x; mkdir other; chmod 777 src/main.py; touch src/main.py; pwd
    """
    before = home.guarded() | state_of(home.workspace / "src")
    done = await granted(processes, home, level, script, live(home, "state", "notes/deep"))
    assert b"code\n" in done.stdout
    assert done.stdout.endswith(f"{home.workspace}\n".encode())
    assert (home.workspace / "state/sub/a").read_text() == "kept\n"
    assert (home.workspace / "notes/deep/b").read_text() == "kept\n"
    assert sorted(path.name for path in (home.workspace / "notes").iterdir()) == ["deep"]
    assert sorted(path.name for path in home.workspace.iterdir()) == [
        *(".git", "hooks", "notes", "src", "state", "tests")
    ]
    after = home.guarded() | state_of(home.workspace / "src")
    if level.name == "landlock":
        # As docs/reference/confinement.md says: modes and times are not Landlock's.
        before, after = ({name: one.split()[-1] for name, one in each.items()} for each in (before, after))
    assert after == before


async def test_a_script_that_was_granted_nothing_reads_its_workspace_and_a_home_of_its_own(
    processes: Processes, home: Home, level: Level
) -> None:
    script = 'cat src/main.py; echo x > src/x; echo own > "$HOME/f" && cat "$TMPDIR/f"; env'
    done = await granted(processes, home, level, script, live(home), MINE="1", OTHER="2")
    said = done.stdout.decode().splitlines()
    assert said[0] == "code"
    assert "own" in said
    names = {line.partition("=")[0] for line in said if "=" in line}
    assert {"MINE", "PATH", "HOME"} <= names
    assert not names & {"OTHER", "API_KEY"}
    kept = next(line.removeprefix("HOME=") for line in said if line.startswith("HOME="))
    assert kept == "/tmp" if level.name == "bubblewrap" else not Path(kept).exists()


async def test_a_hidden_folder_inside_the_workspace_is_not_read(
    processes: Processes, home: Home, level: Level
) -> None:
    (home.workspace / "data/deep").mkdir(parents=True)
    (home.workspace / "data/deep/key").write_text(KEY)
    (home.workspace / "data/kept").write_text("kept")
    (home.workspace / "key").write_text(KEY)
    # The workspace's own folder may itself lie in a hidden one, as a worktree of instar's does.
    inside = ("data/deep", "data/deep/key", "key", "missing")
    hidden = (home.path, *(home.workspace / one for one in inside))
    place = Live(home.workspace, (Path("state"),), home.readonly, hidden)
    script = "cat data/kept; cat src/main.py; echo x > state/x; cat data/deep/key key data/*/*"
    done = await granted(processes, home, level, script, place)
    assert done.stdout.startswith(b"keptcode\n")
    assert KEY.encode() not in done.stdout
    assert (home.workspace / "state/x").exists()


REFUSED = {
    "the workspace": (".", "holds or lies in"),
    "what is guarded": ("hooks", "hooks, which is guarded"),
    "in what is guarded": ("hooks/sub", "hooks, which is guarded"),
    "a guarded folder that is missing": ("prompts", "prompts, which is guarded"),
    "git's": (".git/hooks", ".git, which is guarded"),
    "guarded by dots": ("src/../hooks", "hooks, which is guarded"),
    "outside": ("..", "it lies outside"),
    "outside by dots": ("src/../../other", "it lies outside"),
    "an absolute path outside": ("/var/tmp", "it lies outside"),
    "a link": ("link", "link is a link"),
    "through a link": ("link/sub", "link is a link"),
    "a dangling link": ("dangling", "dangling is a link"),
    "a link outside": ("out", "out is a link"),
    "a file": ("src/main.py", "main.py is not a folder"),
    "through a file": ("src/main.py/x", "main.py is not a folder"),
    "a hidden folder": ("data/deep/sub", "data/deep, which is guarded"),
    "what holds the real place of a guarded link": ("real", "which is guarded"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
async def test_a_folder_that_may_not_be_written_is_refused_with_what_to_do_and_nothing_runs(
    case: str, processes: Processes, home: Home, level: Level
) -> None:
    name, says = REFUSED[case]
    workspace = home.workspace
    (workspace / "link").symlink_to("hooks")
    (workspace / "dangling").symlink_to("nowhere")
    (workspace / "out").symlink_to("/var/tmp")
    (workspace / "real/config").mkdir(parents=True)
    (workspace / "config").symlink_to("real/config")
    before = {name: one for name, one in state_of(workspace).items() if "/.git" not in name}
    place = Live(workspace, (Path(name),), home.readonly, (workspace / "data/deep",))
    with pytest.raises(ProcessError, match=says) as told:
        await granted(processes, home, level, "touch src/ran", place)
    assert f"cannot give a script {name} to write" in str(told.value) or str(workspace) in str(told.value)
    assert "; " in str(told.value)
    assert {name: one for name, one in state_of(workspace).items() if "/.git" not in name} == before


async def test_a_workspace_that_is_named_by_a_link_is_guarded_as_by_its_own_name(
    processes: Processes, home: Home, level: Level
) -> None:
    by_link = home.path / "by-link"
    by_link.symlink_to(home.workspace)
    guarded = tuple(by_link / path.name for path in home.readonly)
    for name in ("prompts", str(by_link / "prompts"), str(home.workspace / "prompts/sub")):
        with pytest.raises(ProcessError, match=r"guarded|outside"):
            await granted(processes, home, level, "true", Live(by_link, (Path(name),), guarded))
    place = Live(by_link, (by_link / "state",), guarded)
    await granted(processes, home, level, "echo x > state/x", place)
    assert (home.workspace / "state/x").exists()
    assert not (home.workspace / "prompts").exists()


async def test_without_a_filter_of_system_calls_the_network_is_not_given(
    processes: Processes, home: Home, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seccomp, "_MACHINES", {})
    monkeypatch.setattr(
        seccomp, "program", seccomp.program.__wrapped__
    )  # what was asked before is remembered
    with pytest.raises(ProcessError, match="which sockets a program opens cannot be limited"):
        await granted(processes, home, level, "touch state/ran", live(home, "state", network=True))
    assert not (home.workspace / "state/ran").exists()


async def test_without_a_level_or_outside_the_workspace_nothing_runs(
    processes: Processes, home: Home, level: Level
) -> None:
    none = Level("none", missing="bubblewrap is not installed", todo="apt install bubblewrap")
    with pytest.raises(ProcessError, match="no sandbox on this machine"):
        await granted(processes, home, none, "true", live(home, "state"))
    with pytest.raises(ProcessError, match="lies outside"):
        await processes.run(["true"], cwd=home.path, confine=Sandbox(level, live(home)))


async def test_a_link_put_in_a_folders_place_while_it_is_prepared_gives_nothing(
    processes: Processes, home: Home, level: Level
) -> None:
    (home.workspace / "state").mkdir()
    before = home.guarded()
    confine = Sandbox(level, live(home, "state"), LIMITS, keep=NAMES)
    wrapped = confine.wrap(
        ["sh", "-c", "echo evil > state/a.py; echo evil > hooks/a.py"], home.workspace, home.environment()
    )
    (home.workspace / "state").rename(home.workspace / "was")
    (home.workspace / "state").symlink_to("hooks")
    try:
        subprocess.run(
            wrapped.argv, env=wrapped.env, pass_fds=wrapped.pass_fds, cwd=home.workspace, check=False
        )
    finally:
        wrapped.after()
    assert home.guarded() == before


ATTACKS = WRITES | {f"read {name}": case for name, case in READS.items()} | WAYS


@pytest.mark.slow
@pytest.mark.parametrize("network", [False, True], ids=["no network", "network"])
async def test_no_attack_of_the_table_gets_past_a_grant(
    network: bool,
    processes: Processes,
    home: Home,
    level: Level,
    outside: subprocess.Popen[bytes],
    listeners: Listeners,
) -> None:
    before = home.guarded() | state_of(home.workspace / "src")
    place = live(home, "state", "notes", network=network)
    env = {"PID": str(outside.pid), **listeners.environment()}
    at_once = asyncio.Semaphore(4)

    async def attack(script: str) -> bytes:
        async with at_once:
            done = await granted(processes, home, level, script, place, **env)
            return b"" if done.timed_out else done.stdout

    said = await asyncio.gather(*(attack(script) for script, _ in ATTACKS.values()))
    got = {name for name, text in zip(ATTACKS, said, strict=True) if b"OPEN" in text or KEY.encode() in text}
    assert got == set()
    after = home.guarded() | state_of(home.workspace / "src")
    if level.name == "landlock":
        before, after = ({name: one.split()[-1] for name, one in each.items()} for each in (before, after))
    assert after == before
    assert outside.poll() is None
    assert_nothing_runs(f"sleep {NAP}")


@pytest.mark.parametrize("network", [False, True])
async def test_the_persons_network_is_there_if_it_was_granted(
    network: bool, processes: Processes, home: Home, level: Level, listeners: Listeners
) -> None:
    port = listeners.environment()["PORT"]
    script = (
        '"$PY" -I -S -c \'import os, socket; '
        'socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5); print("reached")\'; '
        "cat /etc/hosts /etc/resolv.conf >/dev/null && echo names"
    )
    done = await granted(processes, home, level, script, live(home, network=network), PORT=port)
    assert (b"reached\n" in done.stdout) is network, done.stdout
    assert (b"names\n" in done.stdout) is (network and os.access("/etc/resolv.conf", os.R_OK))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["AF_UNIX", "AF_NETLINK", "AF_VSOCK", "AF_PACKET", "AF_ALG"])
async def test_of_sockets_only_the_internets_are_there_with_the_network(
    family: str, processes: Processes, home: Home, level: Level
) -> None:
    script = (
        f'"$PY" -I -S -c \'import socket; socket.socketpair(); socket.socket().close(); print("inet"); '
        f"socket.socket(socket.{family})'"
    )
    done = await granted(processes, home, level, script, live(home, network=True))
    assert b"inet" in done.stdout
    assert b"Operation not permitted" in done.stdout


async def test_a_service_of_the_workspace_itself_is_not_reached(
    processes: Processes, home: Home, level: Level
) -> None:
    with socket.socket(socket.AF_UNIX) as service:
        folder = os.open(home.workspace, os.O_PATH)
        service.bind(f"/proc/self/fd/{folder}/service")
        os.close(folder)
        service.listen()
        script = '"$PY" -I -S -c \'import socket; socket.socket(1).connect("service"); print("OPEN")\''
        done = await granted(processes, home, level, script, live(home, network=True))
    assert b"OPEN" not in done.stdout


async def test_the_limits_of_a_sandbox_hold_a_script_too(
    processes: Processes, home: Home, level: Level
) -> None:
    place = live(home, "state")
    confine = Sandbox(level, place, msgspec.structs.replace(LIMITS, file=1000))
    done = await processes.run(
        ["sh", "-c", "head -c 5000 /dev/zero > state/big"],
        cwd=home.workspace,
        env=home.environment(),
        confine=confine,
    )
    assert done.code != 0
    assert (home.workspace / "state/big").stat().st_size == 1000
