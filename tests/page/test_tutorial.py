"""The first tutorial as a stranger walks it: its commands, then its part on the page, whose picture this makes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.page.conftest import Machine
from tests.page.test_evolution_page import order, see
from tests.server.conftest import environment_in
from tests.test_docs import blocks, commands, run

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "tutorials/first-agent.md"


def test_a_stranger_takes_back_the_agents_tool_on_the_page(
    machine: Machine, log_in: Callable[..., Any]
) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**environment_in(machine.root), "PATH": path}
    for block in blocks(PAGE):
        if block.file:
            (machine.project / block.file).write_text(block.text)
        elif block.kind == "console":
            for command, expected in commands(block):
                run("the tutorial", command, expected, machine.project, environment, lambda *words: words)
    page = log_in(machine.start(), "#/evolution")
    page.set_viewport_size({"width": 1200, "height": 800})
    see(page, "installed", "refused", "takes back version 2")
    page.click(".timeline li:has(.outcome.good) a")
    page.wait_for_selector(".stage.good:has-text('authority')")
    page.wait_for_selector(".notices p", state="detached")
    page.screenshot(path=DOCS / "images/first-agent.png")
    assert '-                "name": "count"' in order(page, "Take back", shows=".diff")
    see(page, "takes back version 4")
    assert "count" not in (machine.project / "workspace/hooks/own.py").read_text()
