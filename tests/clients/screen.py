"""A terminal in tmux: a program runs in it, a test types into it and waits for what its screen shows."""

import itertools
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PATIENCE = 60.0
"""Seconds after which a test gives up on what the screen shall show."""
PAUSE = 0.05
"""Seconds between two looks at the screen: each starts a process."""
HEARD = 15.0
"""Seconds after which a key of which nothing was seen was not heard: one that was only drawn late is pressed twice."""
CHOICES = ("Allow once", "Allow always", "Reject", "Confirm", "Cancel")
"""What questions offer."""
_MARKED = r"\x1b\[48;[0-9;]*m \x1b\[[0-9;]*m"
COLUMNS, ROWS = 160, 50
"""Wide enough for the sidebar, which the terminal UI shows beyond 120 columns."""

_numbers = itertools.count()


class Screen:
    """A program in a tmux server of its own; `close` ends both.

    Raises `AssertionError` with the whole screen where a wait lasts longer than `PATIENCE`.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        columns: int = COLUMNS,
        rows: int = ROWS,
    ) -> None:
        # A name of its own: the server of a closed screen may still be about to end.
        self._tmux = ["tmux", "-S", str(folder / f"tmux-{next(_numbers)}"), "-f", "/dev/null"]
        self._environment = {**environment, "TERM": "xterm-256color"}
        size = ["-x", str(columns), "-y", str(rows)]
        # Escape is sent at once: tmux waits half a second for the rest of a sequence otherwise.
        self._call(
            "start-server",
            ";",
            "set",
            "-g",
            "escape-time",
            "0",
            ";",
            "set",
            "-g",
            "remain-on-exit",
            "on",
            ";",
            "new-session",
            "-d",
            *size,
            "-c",
            str(folder),
            "-s",
            "main",
            *command,
        )

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments],
            env=self._environment,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr.decode()}"
        return done.stdout.decode()

    @property
    def text(self) -> str:
        """What the screen shows, a line each."""
        return self._call("capture-pane", "-p", "-t", "main")

    @property
    def scrollback(self) -> list[str]:
        """All rows that scrolled away and those on the screen; a row that the terminal wrapped is one."""
        return self._call("capture-pane", "-p", "-J", "-S", "-", "-t", "main").splitlines()

    def resize(self, columns: int, rows: int = ROWS) -> None:
        """Give the terminal another size: it wraps anew what does not fit any more."""
        self._call("resize-window", "-t", "main", "-x", str(columns), "-y", str(rows))

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names: ``Enter``, ``Escape``, ``C-x``, ``Tab``."""
        for name in names:
            self._call("send-keys", "-t", "main", name)

    def choose(self, label: str) -> None:
        """Move to one of `CHOICES` with the right arrow and take it.

        The interface passes over keys in the moment in which it draws a question. Each is pressed once and its effect
        waited for; again only where nothing came of it for long: a second one would be meant for what follows.
        """
        end = time.monotonic() + PATIENCE
        while not self._is_chosen(label):
            assert time.monotonic() < end, f"{label} is not chosen:\n{self.text}"
            if (chosen := self._chosen()) != label:
                self._press("Right", chosen)
        while self._chosen() == label:
            assert time.monotonic() < end, f"{label} is not taken:\n{self.text}"
            self._press("Enter", label)

    def _press(self, key: str, chosen: str | None) -> None:
        """Press a key and wait until another choice is marked than before, `HEARD` seconds at most."""
        self.keys(key)
        end = time.monotonic() + HEARD
        while self._chosen() == chosen and time.monotonic() < end:
            time.sleep(PAUSE)

    def _is_chosen(self, label: str) -> bool:
        """Whether a choice is marked, and still so some looks later: what is half drawn is not taken for it."""
        for _ in range(3):
            if self._chosen() != label:
                return False
            time.sleep(PAUSE)
        return True

    def _chosen(self) -> str | None:
        """The choice that is marked by its colours, or None."""
        shown = self._coloured
        return next((one for one in CHOICES if re.search(_MARKED + re.escape(one), shown)), None)

    @property
    def _coloured(self) -> str:
        """What the screen shows, with its colours: a choice that moves changes nothing else."""
        return self._call("capture-pane", "-e", "-p", "-t", "main")

    def type(self, words: str) -> None:
        """Type words."""
        self._call("send-keys", "-t", "main", "-l", words)

    def until(self, wanted: Callable[[str], object], what: str = "") -> str:
        """Wait until a condition on the screen holds and return the screen."""
        end = time.monotonic() + PATIENCE
        while not wanted(text := self.text):
            assert time.monotonic() < end, f"the screen does not show {what or 'it'}:\n{text}"
            time.sleep(PAUSE)
        return text

    def shows(self, *words: str) -> str:
        """Wait until all of these words are on the screen."""
        return self.until(lambda text: all(word in text for word in words), " and ".join(words))

    def hides(self, *words: str) -> str:
        """Wait until none of these words is on the screen."""
        return self.until(lambda text: not any(word in text for word in words), "no " + " or ".join(words))

    def close(self) -> None:
        """End the program and its terminal."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)
