"""The terminal UI, `opencode attach URL`, before one of the servers."""

import re
from pathlib import Path
from typing import Any

from tests.clients import programs
from tests.clients.model import Model
from tests.clients.programs import PASSWORD, Program
from tests.clients.proxy import Proxy
from tests.clients.screen import Screen
from tests.waiting import wait_until

Plain = dict[str, Any]


class Terminal:
    """The terminal UI before a server, with a proxy between them that notes its calls."""

    def __init__(self, server: Program, model: Model, folder: Path) -> None:
        self.server, self.model = server, model
        self.proxy = Proxy(server.url)
        self._folder = folder
        self.start()

    def start(self, *options: str) -> None:
        """Start the program; it is ready when it shows its agent."""
        home = self._folder / "home"
        environment = {
            **self.server.environment,
            "HOME": str(home),
            **{f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")},
            "OPENCODE_SERVER_PASSWORD": PASSWORD,
        }
        home.mkdir(exist_ok=True)
        attach = [programs.opencode(), "attach", self.proxy.url, "--dir", str(self.server.project), *options]
        self.screen = Screen(attach, self._folder, environment)
        self.screen.shows("ctrl+p commands", "Build · Model M")

    def fresh(self) -> None:
        """Begin a session that has no message yet; where a failed test left something open, with a new start."""
        self.leader("n")
        try:
            self.screen.shows("Ask anything")
        except AssertionError:
            self.screen.close()
            self.start()

    def leader(self, key: str) -> None:
        """Press a key after the leader, ctrl+x."""
        self.screen.keys("C-x", key)

    def enter(self, words: str) -> None:
        """Type words into the prompt and send them once they stand there."""
        self.screen.type(words)
        self.screen.shows(words)
        self.screen.keys("Enter")

    def slash(self, name: str) -> None:
        """Choose one of the terminal UI's own commands."""
        self.screen.type(f"/{name}")
        # The list closes when the words match no command any more: it is chosen while it is open.
        self.screen.until(lambda text: re.search(rf"┃ /{name}\s+\w", text), f"/{name} in the list")
        self.screen.keys("Enter")

    def choose(self, key: str, words: str, shown: str) -> None:
        """Choose from the list of agents, `a`, or of models, `m`, by words; then `shown` stands below the prompt."""
        self.leader(key)
        self.screen.shows("Select ", "Search")
        self.screen.type(words)
        self.screen.hides("Search")
        self.screen.keys("Enter")
        self.screen.shows(shown)
        self.screen.hides("Select ")

    def get(self, path: str, **query: Any) -> Any:
        """Ask the server itself."""
        answer = self.server.http.get(path, params={"directory": str(self.server.project), **query})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def session(self) -> Plain:
        """The session that was made last, of those that are nobody's children."""
        found: list[Plain] = wait_until(lambda: self.get("/session", roots="true"))
        return max(found, key=lambda one: one["time"]["created"])

    def rests(self) -> None:
        """Wait until no turn runs: the screen shows words as they come, the messages hold them from their end on."""
        wait_until(lambda: self.get("/session/status") == {})

    def messages(self, session_id: str | None = None) -> list[Plain]:
        """The messages of a session; without an id of the newest."""
        return list(self.get(f"/session/{session_id or self.session()['id']}/message"))

    def close(self) -> None:
        """End it."""
        self.screen.close()
        self.proxy.close()
