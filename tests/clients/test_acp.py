"""Editors: `instar acp` and the implementation of the protocol from npm, which is another than the one it uses."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.clients import exchange
from tests.clients.programs import PATIENCE
from tests.server.conftest import LOGIN, Served

INSTALLED = Path(os.environ.get("INSTAR_CLIENTS", "")).resolve()


def test_an_editors_exchange_is_as_it_was_recorded(tmp_path: Path) -> None:
    _prepare(tmp_path)
    found, recorded = _exchanged(tmp_path, sys.executable, "-m", "instar", "acp")
    assert found == recorded


def test_an_exchange_over_http_says_the_same(tmp_path: Path) -> None:
    _prepare(tmp_path)
    server = Served([], tmp_path / "project", _environment(tmp_path))
    try:
        basic = "Basic " + base64.b64encode(":".join(LOGIN).encode()).decode()
        found, recorded = _exchanged(tmp_path, f"{server.url}/acp", basic)
    finally:
        server.stop()
    # The streams of the connection and of its session keep their order, but not one beside the other.
    assert sorted(found) == sorted(recorded)


def test_the_client_acpx_runs_a_turn_and_goes_on_with_its_session(tmp_path: Path) -> None:
    _prepare(tmp_path)
    project, environment = tmp_path / "project", _environment(tmp_path)
    agent = f"{sys.executable} -m instar acp"

    def acpx(*arguments: str, code: int = 0) -> str:
        program = INSTALLED / "node_modules/.bin/acpx"
        done = subprocess.run(
            [program, "--agent", agent, "--ttl", "1", *arguments],
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            timeout=PATIENCE,
            text=True,
        )
        assert done.returncode == code
        return done.stdout

    assert "rejected permission" in acpx("--deny-all", "exec", "write", code=5)
    assert not (project / "a.txt").exists()
    assert acpx("--approve-all", "exec", "write").rstrip().endswith("Done.\n\n[done] end_turn")
    assert (project / "a.txt").read_text() == "one\ntwo\n"
    (project / "a.txt").unlink()
    session = acpx("sessions", "new").strip()
    assert "Done." in acpx("--approve-all", "prompt", "write")
    assert "mode set: plan" in acpx("set-mode", "plan")
    assert session in acpx("sessions", "list")
    acpx("sessions", "close")


def _prepare(home: Path) -> None:
    (home / "project").mkdir()
    (config := home / ".config/instar").mkdir(parents=True)
    (config / "instar.json").write_text(json.dumps(exchange.SETTINGS))
    (home / "story.txt").write_text(exchange.STORY)


def _environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "INSTAR_SCRIPT": str(home / "story.txt"),
        "INSTAR_SERVER_PASSWORD": LOGIN[1],
    }


def _exchanged(home: Path, *agent: str) -> tuple[list[str], list[str]]:
    script = Path(__file__).with_name("acp.mjs")
    done = subprocess.run(
        ["node", str(script), str(INSTALLED), str(home / "project"), *agent],
        env=_environment(home),
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    return exchange.compared(map(json.loads, done.stdout.splitlines()))
