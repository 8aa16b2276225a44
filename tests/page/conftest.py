"""The page in Debian's Chromium: `make test-page`. Nothing here is collected without INSTAR_PAGE.

INSTAR_PAGE names the folder into which npm installed ``axe-core``.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import PASSWORD, Served, environment_in
from tests.waiting import PATIENCE

collect_ignore_glob = [] if os.environ.get("INSTAR_PAGE") else ["test_*.py"]

CHROMIUM = "/usr/bin/chromium"
PHONE = {"width": 360, "height": 640}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Any]:
    """A browser as somebody has it who was never here. A script that fails fails the test."""
    context = chromium.new_context(reduced_motion="reduce", locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(PATIENCE * 1000)
    errors: list[str] = []
    context.on("weberror", lambda error: errors.append(str(error.error)))
    yield context
    context.close()
    assert errors == []


class Machine:
    """A server with a home of its own, which can be started again at the same port."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.project.mkdir()
        self.served: Served | None = None

    def start(self, script: str = "", port: str = "0", host: str = "127.0.0.1", **settings: Any) -> Served:
        """Start the server; `script` is what its model says, `settings` stand in the project."""
        if script:
            (self.root / "script.txt").write_text(script)
            settings = {"model": "scripted/test", **settings}
            (self.project / "opencode.json").write_text(json.dumps(settings))
        self.served = Served(["--port", port, "--hostname", host], self.project, environment_in(self.root))
        return self.served

    def again(self) -> Served:
        """End the server, and start it anew at the same port."""
        assert self.served is not None
        port = self.served.url.rpartition(":")[2]
        self.served.stop()
        return self.start(port=port)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    if made.served is not None:
        made.served.stop()


@pytest.fixture
def log_in(browser: Any) -> Callable[..., Any]:
    """Opens a page of a server, and logs in by the password; `path` is the view."""

    def opened(served: Served, path: str = "") -> Any:
        page = browser.new_page()
        page.goto(f"{served.url}/{path}")
        page.fill("#password", PASSWORD)
        page.click("text=Log in")
        page.wait_for_selector(".top")
        return page

    return opened


def write(page: Any, text: str) -> None:
    """Begin a session, if none is open, and send a message."""
    if not page.locator(".composer").count():
        page.click("text=New")
    page.fill(".composer textarea", text)
    page.press(".composer textarea", "Enter")
