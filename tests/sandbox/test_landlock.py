"""The launcher by itself: it fails closed, and runs with the standard library of any Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from instar.sandbox import landlock


def launch(policy: bytes, *argv: str, python: str = sys.executable) -> subprocess.CompletedProcess[bytes]:
    descriptor = os.memfd_create("policy")
    os.write(descriptor, policy)
    try:
        return subprocess.run(
            [python, "-I", "-S", landlock.__file__, str(descriptor), *argv],
            pass_fds=[descriptor],
            capture_output=True,
        )
    finally:
        os.close(descriptor)


def test_this_kernel_has_landlock() -> None:
    assert landlock.abi() >= 1


@pytest.mark.parametrize(
    "policy", [b"", b"nonsense", landlock.encode(seccomp=b"\xff" * 8), landlock.encode(limits={"NPROC": -5})]
)
def test_a_policy_that_cannot_be_applied_starts_nothing(policy: bytes, tmp_path: Path) -> None:
    done = launch(policy, "touch", str(tmp_path / "ran"))
    assert done.returncode == 126
    assert b"not started, it could not be confined" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_rights_are_given_back_below_paths_only(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    policy = landlock.encode(
        fs=landlock.WRITE, rules=[(landlock.WRITE, [str(tmp_path / "open"), "/no/such"])]
    )
    done = launch(policy, "sh", "-c", f"echo x > {tmp_path}/open/a; echo x > {tmp_path}/b")
    assert done.returncode != 0
    assert (tmp_path / "open/a").exists()
    assert not (tmp_path / "b").exists()


def test_a_rule_on_a_link_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    policy = landlock.encode(fs=landlock.WRITE, rules=[(landlock.WRITE, [str(tmp_path / "link")])])
    assert launch(policy, "touch", str(tmp_path / "link/x")).returncode != 0


def test_limits_hold_for_the_program() -> None:
    done = launch(
        landlock.encode(limits={"NOFILE": 33, "CORE": 0}), "sh", "-c", "ulimit -n; ulimit -Hn; ulimit -c"
    )
    assert done.stdout.split() == [b"33", b"33", b"0"]


def test_a_program_finds_its_signals_and_variables_as_they_were() -> None:
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if "SigIgn" in line)
    # Python ignores SIGPIPE and SIGXFSZ, which programs do not expect; whoever started the tests may ignore others.
    ignored = int(own.split()[1], 16) & ~(1 << 12 | 1 << 24)
    policy = landlock.encode(restore={"A": "1", "B": None})
    os.environ["B"] = "2"
    try:
        done = launch(
            policy, "sh", "-c", 'grep SigIgn /proc/self/status; echo "$A$B"; ls /proc/self/fd | wc -l'
        )
    finally:
        del os.environ["B"]
    assert done.stdout.decode().split() == ["SigIgn:", f"{ignored:016x}", "1", "4"]
