"""One heartbeat for the workers that share a workspace: machines with data of their own, on one PostgreSQL database."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.postgresql import cluster
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow

BOT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "bot"}' ;;
heartbeat) echo '{"system": ["You beat."], "user": "Look around."}' ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
TEST = "#!/bin/sh\necho '{}' | hooks/bot.sh discover | grep bot\n"


class Machine:
    """A machine that has the project's folder in common with others, and a copy of the workspace."""

    def __init__(self, folder: Path, project: Path, bare: Path, url: str, every: int) -> None:
        self.workspace, self._project = folder / "ws", project
        settings = folder / "home" / ".config" / "instar" / "instar.json"
        settings.parent.mkdir(parents=True)
        said = {"evolve": {"remote": str(bare)}, "agent": {"evolve": {"prompt": "p"}}, "model": "scripted/x"}
        settings.write_text(json.dumps(said))
        script = folder / "script.txt"
        script.write_text('== when "."\ntext: fine\n')
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "INSTAR_DATA": str(folder / "data"),
            "INSTAR_DATABASE": url,
            "INSTAR_SCRIPT": str(script),
            "INSTAR_WORKSPACE": str(self.workspace),
            "EVOLVE_HEARTBEAT_MS": str(every),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
        }
        self.server: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        command = [sys.executable, "-m", "instar", "serve", "--port", "0", "--grace", "0"]
        self.server = subprocess.Popen(
            command,
            cwd=self._project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.server.stdout is not None
        assert b"listening" in self.server.stdout.readline()

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.server is not None:
            assert self.server.stdout is not None
            self.server.stdout.close()
            self.server.send_signal(number)
            self.server.wait(PATIENCE)
            self.server = None

    def heartbeat(self, *order: str) -> Any:
        command = [sys.executable, "-m", "instar", "heartbeat", *order, "--json"]
        done = subprocess.run(
            command, cwd=self._project, env=self.environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def url() -> str:
    return cluster().database()


@pytest.fixture
def machines(tmp_path: Path, url: str) -> Iterator[Callable[..., list[Machine]]]:
    """Three machines with the same workspace; the first one's is the shared one."""
    made: list[Machine] = []

    def make(every: int) -> list[Machine]:
        project, bare = tmp_path / "project", tmp_path / "shared.git"
        project.mkdir()
        git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
        made.extend(Machine(tmp_path / f"m{number}", project, bare, url, every) for number in range(3))
        first, *others = made
        for path, text in (("hooks/bot.sh", BOT), ("tests/bot_test.sh", TEST)):
            (first.workspace / path).parent.mkdir(parents=True)
            (first.workspace / path).write_text(text)
            (first.workspace / path).chmod(0o755)
        command = [sys.executable, "-m", "instar", "run", "hi"]
        subprocess.run(command, cwd=project, env=first.environment, check=True, capture_output=True)
        for one in others:
            git(tmp_path, "clone", "--quiet", "--branch", "main", str(bare), str(one.workspace))
        return made

    yield make
    for one in made:
        one.end()


def git(folder: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True)


def sent(url: str) -> list[tuple[str, int]]:
    """The prompts of the heartbeat: the session and the time in ms of each, oldest first."""
    statement = (
        "SELECT message.session_id, message.time_created FROM message JOIN part ON part.message_id = message.id"
        " WHERE part.data LIKE '%[heartbeat] Look around.%' ORDER BY message.time_created"
    )
    with psycopg.connect(url) as connection:
        return [(str(session), int(at)) for session, at in connection.execute(statement).fetchall()]


def spans(log: list[Any]) -> list[int]:
    return [one["number"] + more for one in log for more in range(one.get("times", 1))]


def test_of_the_workers_that_share_a_workspace_one_beats_and_another_goes_on_when_it_is_killed(
    machines: Callable[..., list[Machine]], url: str
) -> None:
    first, *others = machines(1500)
    before = len(sent(url))
    first.serve()
    wait_until(lambda: len(sent(url)) > before)
    for one in others:
        one.serve()
    begun, known = time.monotonic(), len(sent(url))
    wait_until(lambda: len(sent(url)) >= known + 6)
    # Three hearts would send three times as many.
    assert len(sent(url)) - known <= (time.monotonic() - begun) / 1.5 + 1
    first.end(signal.SIGKILL)
    killed = len(sent(url))
    wait_until(lambda: len(sent(url)) >= killed + 3)
    times = [at for _, at in sent(url)]
    assert min(later - at for at, later in itertools.pairwise(times)) > 700
    assert len({session for session, _ in sent(url)}) == 1
    for one in others:
        one.end()
        log = one.heartbeat("status")["log"]
        assert spans(log) == list(range(spans(log)[0], spans(log)[0] + len(spans(log))))


def test_a_person_orders_the_heartbeat_at_any_worker(
    machines: Callable[..., list[Machine]], url: str
) -> None:
    first, second, third = machines(3_600_000)
    first.serve()
    second.serve()
    # The first one beats, the second passes it on.
    entry = second.heartbeat("now")
    assert (entry["kind"], entry["asked"], len(sent(url))) == ("ran", True, 1)
    # No instar runs on the third machine.
    assert third.heartbeat("pause", "--reason", "holidays")["paused"]
    wait_until(lambda: "holidays" in str(first.heartbeat("status")["paused"]))
    second.heartbeat("resume")
    wait_until(lambda: first.heartbeat("status")["paused"] is None)
    shown = [[line["kind"] for line in one.heartbeat("status")["log"]] for one in (first, second, third)]
    assert shown == [["ran", "paused", "resumed"]] * 3
