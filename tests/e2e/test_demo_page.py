"""`make demo-page`: the story is played on a server once its page is open, and nothing is left of it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo_page.py"
PATIENCE = 120.0


@pytest.mark.slow
def test_the_demo_of_the_page_plays_its_story_once_the_page_is_open_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, str(DEMO)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as demo:
        try:
            assert demo.stdout is not None
            address = next(line.strip() for line in demo.stdout if "#ticket=" in line)
            happened = list(_follow(address))
            os.kill(demo.pid, signal.SIGHUP)
            said = demo.stdout.read()
        finally:
            demo.kill()
    assert happened == [("refused", "test"), ("installed", ""), ("installed", ""), ("refused", "authority")]
    assert "The agent is asked:" in said
    assert demo.returncode == 0
    assert not list(tmp_path.iterdir())


def _follow(address: str):
    """Open the page as a browser does, and yield what happens until a change waits for a person."""
    url = address.partition("/#")[0]
    given = parse_qs(urlsplit(address).fragment)
    with httpx2.Client(base_url=url, headers={"Origin": url}, timeout=PATIENCE) as http:
        ticket = {"ticket": given["ticket"][0]}
        key = http.post("/page/login", json=ticket).raise_for_status().json()["key"]
        with http.stream("GET", "/instar/event", headers={"X-Instar-Key": key}) as stream:
            for line in stream.iter_lines():
                event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                kind, _, what = event.get("type", "").partition(".")
                if kind == "evolve":
                    stage = event["properties"].get("stage", "")
                    yield what, stage
                    if stage == "authority":
                        return
