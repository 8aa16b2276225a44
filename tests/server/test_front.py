"""The files of `deploy/` for several workers: processes behind a real Caddy (`make test-cluster` installs it)."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import pytest
import yaml
from tests.postgresql import cluster
from tests.server.conftest import LOGIN, environment_in
from tests.server.test_deploy import DEPLOY, instructions, unit
from tests.waiting import wait_until

from instar.wire import ids

SCRIPT = """chunk: 4

== when "^slow"
text: This is a long answer that comes in pieces.
tool: bash {"command": "echo begun > begun.txt; until [ -e go ]; do sleep 0.05; done; echo over"}

== when ""
text: {{user}}
"""
MODEL = {"providerID": "scripted", "modelID": "test"}


def free_ports(count: int) -> Sequence[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def front(tmp_path: Path) -> Iterator[tuple[httpx2.Client, int]]:
    """`deploy/workers.sh` with a script for the model: a client of Caddy, and the process that has begun it all."""
    assert shutil.which("caddy"), "this test needs Caddy (Debian: apt install caddy)"
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "script.txt").write_text(SCRIPT)
    site, *ports = free_ports(4)
    environment = {
        **environment_in(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "INSTAR_DATABASE": cluster().database(),
        "PORTS": " ".join(map(str, ports)),
        "SITE": f"http://127.0.0.1:{site}",
    }
    process = subprocess.Popen([DEPLOY / "workers.sh"], cwd=project, env=environment)
    client = httpx2.Client(base_url=environment["SITE"], auth=LOGIN, timeout=30)

    def answers() -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            return client.get("/global/health").status_code == 200
        return False

    wait_until(answers)
    yield client, process.pid
    process.terminate()
    process.wait(60)
    client.close()


def ask(client: httpx2.Client, session: str, text: str, path: str = "message") -> httpx2.Response:
    body = {"model": MODEL, "parts": [{"type": "text", "text": text}], "messageID": ids.new("msg")}
    return client.post(f"/session/{session}/{path}", json=body)


def servers(top: int) -> list[int]:
    """The processes of `instar serve` below one."""
    found = []
    for line in Path(f"/proc/{top}/task/{top}/children").read_text().split():
        below = int(line)
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{below}/cmdline").read_bytes().split(b"\0")
            found += [below] if b"serve" in words[2:] else servers(below)
    return found


@pytest.mark.slow
def test_clients_of_workers_behind_caddy_hear_at_once_and_go_on_when_theirs_is_killed(
    front: tuple[httpx2.Client, int], tmp_path: Path
) -> None:
    client, top = front
    session = client.post("/session", json={}).json()["id"]
    parts = ask(client, session, "hello").json()["parts"]
    assert [part["text"] for part in parts if part["type"] == "text"] == ["hello"]
    heard: list[str] = []
    with client.stream("GET", "/event") as stream:
        lines = stream.iter_lines()
        assert ask(client, session, "slow", "prompt_async").status_code == 204
        for line in lines:
            if line.startswith("data:"):
                heard.append(json.loads(line[5:])["type"])
            if heard and heard[-1] == "message.part.delta":
                break  # while the turn still runs
        wait_until((tmp_path / "project" / "begun.txt").exists)
        (tmp_path / "project" / "go").touch()
        for line in lines:
            if '"session.idle"' in line:
                break
    # A terminal lives in one worker.
    made = client.post("/pty", json={"command": "cat"})
    assert made.status_code == 200, made.text
    for _ in range(6):
        assert [one["id"] for one in client.get("/pty").json()] == [made.json()["id"]]
    for server in servers(top)[:2]:
        os.kill(server, signal.SIGKILL)
    wait_until(lambda: client.get(f"/session/{session}").status_code == 200)
    for number in range(3):
        assert ask(client, session, f"n{number}").status_code == 200
    wait_until(lambda: len(servers(top)) == 3)


def test_what_the_containers_are_given_is_what_a_worker_takes() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    workers = {name: one for name, one in services.items() if name.startswith("worker")}
    assert services["front"]["environment"]["WORKERS"].split() == [f"{name}:4096" for name in workers]
    (pip,) = [rest for name, rest in instructions() if name == "RUN" and "pip install" in rest]
    assert "cluster" in pip.partition("[")[2].partition("]")[0].split(",")
    for one in workers.values():
        assert one["command"][:5] == ["serve", "--hostname", "0.0.0.0", "--port", "4096"]
        grace = one["command"][one["command"].index("--grace") + 1]
        assert float(one["stop_grace_period"].removesuffix("s")) > float(grace) + 3
        assert {"INSTAR_DATABASE", "INSTAR_SERVER_PASSWORD"} <= set(one["environment"])


def test_a_workers_service_is_that_of_a_server_at_a_port_of_its_own() -> None:
    one, worker = unit("instar.service"), unit("instar-worker@.service")
    same = {**one["Service"], "ExecStart": worker["Service"]["ExecStart"]}
    assert dict(worker["Service"]) == same
    assert worker["Service"]["ExecStart"] == one["Service"]["ExecStart"].replace("--port 4096", "--port %i")
