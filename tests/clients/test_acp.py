"""Editors: `instar acp` and the implementation of the protocol from npm, which is another than the one it uses."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.clients import exchange
from tests.clients.programs import PATIENCE

INSTALLED = Path(os.environ.get("INSTAR_CLIENTS", "")).resolve()


def test_an_editors_exchange_is_as_it_was_recorded(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    (config := tmp_path / ".config/instar").mkdir(parents=True)
    (config / "instar.json").write_text(json.dumps(exchange.SETTINGS))
    (story := tmp_path / "story.txt").write_text(exchange.STORY)
    script = Path(__file__).with_name("acp.mjs")
    done = subprocess.run(
        ["node", str(script), str(INSTALLED), str(project), sys.executable, "-m", "instar", "acp"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "INSTAR_SCRIPT": str(story)},
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    found, recorded = exchange.compared(map(json.loads, done.stdout.splitlines()))
    assert found == recorded
