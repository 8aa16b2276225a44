"""What confines by Landlock does the whole of a policy, and starts nothing when it cannot."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from instar.sandbox import bubblewrap, landlock

LAUNCHER = [sys.executable, "-I", "-S", landlock.__file__]


def launch(
    policy: bytes, *argv: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    descriptor = bubblewrap.memory(policy)
    try:
        return subprocess.run(
            [*LAUNCHER, str(descriptor), *argv], pass_fds=[descriptor], capture_output=True, env=env
        )
    finally:
        os.close(descriptor)


def test_this_kernel_has_landlock() -> None:
    assert landlock.abi() >= 1


WHOLE = landlock.encode(
    fs=landlock.WRITE, rules=[(landlock.WRITE, ["/"])], limits={"NOFILE": 64}, env={"A": "1"}
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        b"",
        b"nonsense",
        landlock.encode(seccomp=b"\xff" * 8),
        landlock.encode(limits={"NPROC": -5}),
        landlock.encode(limits={"NOTHING": 5}),
        *(WHOLE[:length] for length in range(1, len(WHOLE), 7)),
    ],
)
def test_a_policy_that_cannot_be_applied_starts_nothing(policy: bytes, tmp_path: Path) -> None:
    done = launch(policy, "touch", str(tmp_path / "ran"))
    assert done.returncode == 126
    assert b"not started, it could not be confined" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_rights_are_given_back_below_paths_only(tmp_path: Path) -> None:
    # Names are bytes: one that is no text, one beyond ASCII, one with what a shell would take apart.
    names = [os.fsdecode(name) for name in (b"open \xff\x80", "offen ü 世".encode(), b"a 'b'\n$c")]
    for name in names:
        (tmp_path / name).mkdir()
    given = [*(str(tmp_path / name) for name in names), "/no/such"]
    policy = landlock.encode(fs=landlock.WRITE, rules=[(landlock.WRITE, given)])
    script = 'for one in "$@"; do echo x > "$one/x"; done; echo x > outside; mkdir made; rm -f kept; true'
    (tmp_path / "kept").touch()
    launch(policy, "sh", "-c", f"cd '{tmp_path}'; {script}", "sh", *names)
    assert [(tmp_path / name / "x").exists() for name in names] == [True] * 3
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([*names, "kept"])


def test_what_is_not_given_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    given = [str(path) for path in Path("/").iterdir() if not tmp_path.is_relative_to(path)]
    policy = landlock.encode(fs=landlock.READ_FILE, rules=[(landlock.READ_FILE, given)])
    done = launch(policy, "cat", str(tmp_path / "secret"), "/etc/passwd")
    assert b"secret" not in done.stdout
    assert b"root:" in done.stdout


def test_a_rule_on_a_link_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    policy = landlock.encode(fs=landlock.WRITE, rules=[(landlock.WRITE, [str(tmp_path / "link")])])
    assert launch(policy, "touch", str(tmp_path / "link/x")).returncode != 0
    assert not (tmp_path / "target/x").exists()


def test_a_rule_on_a_file_gives_that_file(tmp_path: Path) -> None:
    (tmp_path / "given").touch()
    policy = landlock.encode(fs=landlock.WRITE, rules=[(landlock.WRITE, [str(tmp_path / "given")])])
    assert launch(policy, "sh", "-c", f"echo x > {tmp_path}/given").returncode == 0
    assert launch(policy, "sh", "-c", f"echo x > {tmp_path}/other").returncode != 0


def test_limits_hold_for_the_program() -> None:
    policy = landlock.encode(limits={"NOFILE": 33, "CORE": 0, "FSIZE": 5 << 40})
    done = launch(policy, "sh", "-c", "ulimit -n; ulimit -Hn; ulimit -c; ulimit -f")
    assert done.stdout.split() == [b"33", b"33", b"0", b"%d" % ((5 << 40) // 512)]


def test_a_limit_is_never_raised() -> None:
    inner = landlock.encode(limits={"NOFILE": 1 << 20})
    descriptor = bubblewrap.memory(inner)
    try:
        script = 'ulimit -n 40; exec "$@"'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *LAUNCHER, str(descriptor), "sh", "-c", "ulimit -n"],
            pass_fds=[descriptor],
            capture_output=True,
        )
    finally:
        os.close(descriptor)
    assert done.stdout == b"40\n"


def test_capabilities_are_lost_by_root_and_others_have_none() -> None:
    done = launch(landlock.encode(drop=[0, 21, 40]), "grep", "^Cap", "/proc/self/status")
    sets = dict(line.split(":\t") for line in done.stdout.decode().splitlines())
    assert all(not int(sets[name], 16) & (1 | 1 << 21 | 1 << 40) for name in ("CapEff", "CapPrm", "CapInh"))
    if os.geteuid() == 0:
        assert int(sets["CapEff"], 16) & 1 << 1
        assert not int(sets["CapBnd"], 16) & (1 | 1 << 21)


def test_no_program_gains_rights_by_its_file() -> None:
    done = launch(landlock.encode(), "grep", "NoNewPrivs", "/proc/self/status")
    assert done.stdout.split()[-1] == b"1"


def test_a_program_finds_its_signals_and_descriptors_as_they_were() -> None:
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if "SigIgn" in line)
    # Python ignores SIGPIPE and SIGXFSZ, which programs do not expect; whoever started the tests may ignore others.
    ignored = int(own.split()[1], 16) & ~(1 << 12 | 1 << 24)
    script = "grep SigIgn /proc/self/status; ls /proc/self/fd | wc -l"
    done = launch(landlock.encode(), "sh", "-c", script)
    assert done.stdout.decode().split() == ["SigIgn:", f"{ignored:016x}", "4"]


def test_a_program_has_the_environment_that_is_given_and_no_other() -> None:
    given = {
        "PATH": os.environ["PATH"],
        "Z": "last but one",
        "EMPTY": "",
        "LINES": "one\ntwo",
        "EQUALS": "a=b",
        "TEXT": "wörd 世",
        "BYTES": os.fsdecode(b"\xff\xfe"),
        "LC_ALL": "xx_XX",
    }
    done = launch(landlock.encode(env=given), "env", "-0", env={"LANG": "C", "OTHER": "x"})
    assert [os.fsdecode(line) for line in done.stdout.split(b"\0")[:-1]] == [
        f"{name}={value}" for name, value in given.items()
    ]
    assert done.stderr == b""


def test_arguments_and_standard_streams_go_through() -> None:
    words = ["-e", "--", "", "a b", "$x", os.fsdecode(b"\xff"), "'"]
    done = launch(landlock.encode(), "printf", "%s|", *words)
    assert done.stdout == b"|".join(os.fsencode(word) for word in words) + b"|"


def test_a_program_that_is_not_there_is_said() -> None:
    done = launch(landlock.encode(), "no-such-program")
    assert done.returncode == 127
    assert b"cannot start no-such-program: No such file" in done.stderr
