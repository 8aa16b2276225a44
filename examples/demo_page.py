"""The page with an agent that changes itself at work on it: `make demo-page`.

It starts a server on a fresh copy of examples/hello, prints the address of its page, and plays the demo's story there
once a browser shows it. What the model says is written down (the shipped `scripted/demo`, and demo_page.txt); all else
is real. No key, no network; Ctrl-C ends it, and nothing is left.
"""

import base64
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

EXAMPLES: Final = Path(__file__).parent
PATIENCE: Final = 60.0
STORY: Final = (
    ("demo", "Write a note about what an instar is, and count the words in it."),
    ("more", "Say “8 words”, not just the number."),
    ("more", "Count words without being asked for permission each time."),
)


class DemoError(Exception):
    """What went wrong, in a sentence."""


class Demo:
    """A server with the page, in a folder of its own."""

    def __init__(self, home: Path) -> None:
        self._password = secrets.token_urlsafe(12)
        workspace = home / "workspace"
        shutil.copytree(EXAMPLES / "hello", workspace, ignore=shutil.ignore_patterns("__pycache__"))
        more = {"options": {"script": str(EXAMPLES / "demo_page.txt")}}
        settings = {"provider": {"scripted": {"models": {"more": more}}}}
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "INSTAR_WORKSPACE": str(workspace),
            "INSTAR_SERVER_PASSWORD": self._password,
            "INSTAR_CONFIG_CONTENT": json.dumps(settings),
        }
        self._home = home
        self._log = home / "server.log"
        self.server = self._open()
        assert self.server.stdout is not None
        self.address = next((_evolution(line) for line in self.server.stdout if "#ticket=" in line), "")
        if not self.address:
            raise DemoError(f"the server ended with exit code {self.server.wait()}: {self._log.read_text()}")
        self._url = self.address.partition("/#")[0]

    def _open(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "instar", "open", "--print", "--dir", str(self._home)]
        with self._log.open("a") as log:
            return subprocess.Popen(
                command, cwd=self._home, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def another_address(self) -> str:
        """Return a new address: one logs in once, and only for a minute."""
        with self._open() as asked:
            assert asked.stdout is not None
            return _evolution(asked.stdout.read())

    def is_shown(self) -> bool:
        """Whether a browser follows the events."""
        found = re.search(r"^instar_event_streams (\d+)", self._ask("GET", "/instar/metrics"), re.MULTILINE)
        return found is not None and int(found[1]) > 0

    def play(self) -> None:
        """Play the story: two sessions in which the agent changes itself."""
        sessions: dict[str, str] = {}
        for model, prompt in STORY:
            if model not in sessions:
                sessions[model] = json.loads(self._ask("POST", "/session", {}))["id"]
            print(f"  {prompt}", flush=True)
            body = {
                "model": {"providerID": "scripted", "modelID": model},
                "parts": [{"type": "text", "text": prompt}],
            }
            answer = json.loads(self._ask("POST", f"/session/{sessions[model]}/message", body))
            if problem := answer["info"].get("error"):
                raise DemoError(f"the story broke off: {problem}")

    def _ask(self, method: str, path: str, body: Any = None) -> str:
        login = base64.b64encode(f"instar:{self._password}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return str(answer.read().decode())


def _evolution(printed: str) -> str:
    """Return the address that `instar open` printed, short, and leading to the evolution."""
    return f"{printed.partition('&')[0].strip()}&view=evolution"


def run(home: Path) -> None:
    """Serve, and play once somebody looks."""
    demo = Demo(home)
    try:
        print(f"Open this in a browser:\n\n  {demo.address}\n", flush=True)
        print("The story begins once the page is open. Ctrl-C ends it all.", flush=True)
        printed = time.monotonic()
        while not demo.is_shown():
            if time.monotonic() - printed > PATIENCE - 5:
                print(
                    f"or, since that one is old by now:\n\n  {demo.another_address()}\n",
                    flush=True,
                )
                printed = time.monotonic()
            time.sleep(0.3)
        print("The agent is asked:", flush=True)
        demo.play()
        print(
            "That was the story. One change waits for you, each can be taken back. Ctrl-C ends it.",
            flush=True,
        )
        demo.server.wait()
    finally:
        demo.server.terminate()
        demo.server.wait()


def main() -> int:
    """Run the demo in a folder that is removed afterwards, also when its terminal is closed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="instar-demo-", ignore_cleanup_errors=True) as home:
        try:
            run(Path(home))
        except KeyboardInterrupt:
            print("\nThe demo has ended.")
        except (DemoError, OSError) as error:
            print(f"The demo failed: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
