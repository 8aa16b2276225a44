"""`createOpencode` of `@opencode-ai/sdk` with instar as its program, through the script in `server.md`."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.clients.programs import PATIENCE, installed

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "server.md"
CONFIG = {
    "model": "scripted/echo",
    "username": "ada",
    "agent": {"poet": {"description": "writes", "mode": "all"}},
}


@pytest.fixture
def started(tmp_path: Path, clean_environment: Mapping[str, str]) -> dict[str, Any]:
    """What both clients of the SDK were told by the server that they started and ended."""
    wrapper = tmp_path / "bin" / "opencode"
    wrapper.parent.mkdir()
    script = re.search(r"```text file=opencode\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert script
    wrapper.write_text(script[1])
    wrapper.chmod(0o755)
    places = [str(wrapper.parent), str(Path(sys.executable).parent), clean_environment["PATH"]]
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("sdk_server.mjs")), str(installed()), json.dumps(CONFIG)],
        cwd=tmp_path,
        env={**clean_environment, "PATH": ":".join(places)},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_the_sdk_starts_instar_where_a_wrapper_is_named_opencode(started: dict[str, Any]) -> None:
    for one in started.values():
        assert one["settings"]["username"] == "ada"
        assert one["settings"]["agent"]["poet"]["description"] == "writes"
        info = one["answer"]["info"]
        assert (info["providerID"], info["modelID"]) == ("scripted", "echo")
        assert "hello" in "".join(part.get("text", "") for part in one["answer"]["parts"])
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(one["url"] + "/global/health")
