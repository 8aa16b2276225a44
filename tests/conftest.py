"""What every test shares: a machine of its own, and no network but loopback."""

import ipaddress
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import settings
from tests import started

# They need a PostgreSQL server of their own; `make test-cluster` installs Debian's package.
_CLUSTER = [
    "cli/test_db.py",
    "e2e/test_evolve_shared.py",
    "e2e/test_heartbeat_shared.py",
    "server/test_backup.py",
    "server/test_cluster.py",
    "server/test_front.py",
    "server/test_shared_trust.py",
    "server/test_upgrades.py",
    "upgrade/test_postgresql.py",
]
collect_ignore = [] if any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) else _CLUSTER


# A git hook and `git bisect run` set these: a test's own git would work in that repository.
for _name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):
    os.environ.pop(_name, None)


def pytest_configure() -> None:
    """Draw fewer examples than the hundred of hypothesis, unless a test says how many it needs.

    Programs that tests start hear a terminal that closes and Ctrl-C, also where the tests run in the background.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("suite", max_examples=40, deadline=None)
    settings.load_profile("suite")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are processors: a test waits for its children a third of its time."""
    return 1 + (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def pytest_unconfigure() -> None:
    """End the process that commands were forked from."""
    started.close()


@pytest.fixture(autouse=True)
def _no_network_but_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = str(address[0])  # type: ignore[index]
            if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
                raise OSError(f"a test tried to reach {host}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def clean_environment(tmp_path: Path) -> Mapping[str, str]:
    """The environment of a person who has nothing yet."""
    # The kit brings the whole runtime along, which a test of one room need not wait for.
    from instar.testing import clean_environment

    return clean_environment(tmp_path / "home")
