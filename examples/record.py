"""Record a real session at a terminal, for the picture at the top of the README. `make recording` runs it.

A person opens `instar chat` in a small project. The agent edits a file, gives itself a tool, and uses it; the person
takes the change back. Only the model's turns are written down, here below; all else is real: no key, no network. It
writes docs/demo.cast in the format of asciinema (version 2), and docs/demo.svg from what the screen shows at its marks.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import pyte

DOCS = Path(__file__).parent.parent / "docs"
CAST, PICTURE = DOCS / "demo.cast", DOCS / "demo.svg"
COLUMNS, ROWS = 92, 30
PATIENCE = 60.0
WORDS = """def count(text: str) -> int:
    return len(text.split())
"""
SCRIPT = """chunk: 6
pace: 15ms

== when "hyphen"
text: A hyphen joins two words, so it has to be a space before the text is split.
tool: read {"filePath": "words.py"}

== when "return len"
tool: edit {"filePath": "words.py", "oldString": "text.split()", "newString": "text.replace('-', ' ').split()"}

== when "Edit applied"
text: `count("a well-made thing")` is **4** now.

== when "Teach yourself"
text: I have no tool for that. I add one to my own hook script.
tool: evolve_hook_edit {"hook": "own.py"}
arg: oldString <<OLD
                "parameters": {"who": "Whom to greet."},
            }
        ],
    }


def execute_tool(given):
OLD
arg: newString <<NEW
                "parameters": {"who": "Whom to greet."},
            },
            {
                "name": "minutes",
                "description": "Tell how long words take to read.",
                "parameters": {"words": "How many words."},
            },
        ],
    }


def execute_tool(given):
    if given["tool"] == "minutes":
        return {"result": f"{int(given['args']['words']) / 240:.1f} minutes"}
NEW

== when "own.py"
tool: own_minutes {"words": "3600"}

== when "minutes"
text: 3,600 words take **{{tool}}** to read. A moment ago I could not tell.

== title
text: Words and how long they take
"""
NO_WAIT = 0.08
"""Most seconds between two pieces of output in the recording, however long the machine took."""
STORY = (
    ("type", "Let count() in words.py take a hyphen as a space"),
    ("wait", "is 4 now"),
    ("mark", "the agent edits a file"),
    ("type", "Teach yourself to tell reading times: how long are 3,600 words?"),
    ("wait", "I could not tell"),
    ("mark", "the agent gives itself a tool and uses it"),
    ("type", "/evolve"),
    ("wait", "own.py"),
    ("mark", "the person looks at what it changed of itself"),
    ("press", "r"),
    ("wait", "taken back:"),
    ("press", "\x1b"),
    ("wait", "shield"),
    ("mark", "and takes it back"),
)


class Event(NamedTuple):
    """One line of the cast: output ("o") or a mark ("m")."""

    seconds: float
    kind: str
    text: str


class Terminal:
    """`instar chat` on a terminal in memory, and what it wrote, with the times that the recording has."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.events: list[Event] = []
        self.screen = Screen()
        self._now = 0.0
        self._pid, self._descriptor = pty.fork()
        if self._pid == 0:
            termios.tcsetwinsize(0, (ROWS, COLUMNS))
            os.chdir(folder)
            arguments = ["-m", "instar", "chat", "-m", "scripted/story"]
            os.execve(sys.executable, [sys.executable, *arguments], environment)

    def put(self, text: str) -> None:
        """Add output."""
        self.events.append(Event(round(self._now, 2), "o", text))
        self.screen.feed(text)

    def read(self, seconds: float) -> bool:
        """Take what is written within `seconds`; False when nothing is."""
        began = time.monotonic()
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return False
        text = os.read(self._descriptor, 1 << 16).decode()
        self._now += min(time.monotonic() - began, NO_WAIT)
        self.put(text)
        return True

    def wait(self, text: str) -> None:
        """Read until the screen shows a text and nothing more is written. Raises `RuntimeError` with the screen."""
        until = time.monotonic() + PATIENCE
        while text not in "\n".join(self.screen.rows()) or self.read(0.4):
            if time.monotonic() > until:
                raise RuntimeError(f"{text!r} is not shown:\n" + "\n".join(self.screen.rows()))
            self.read(0.1)

    def press(self, key: str, seconds: float = 0.05) -> None:
        """Press a key and see what it does."""
        self._now += seconds
        os.write(self._descriptor, key.encode())
        self.read(1)

    def pause(self, seconds: float) -> None:
        """Let whoever looks on read."""
        self._now += seconds

    def mark(self, text: str) -> None:
        """Mark a moment, and stay at it."""
        self.events.append(Event(round(self._now, 2), "m", text))
        self._now += 2.5

    def close(self) -> None:
        """End the chat."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._descriptor)


class Screen:
    """What a terminal shows of output."""

    def __init__(self) -> None:
        self._pyte = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self._pyte)

    def feed(self, text: str) -> None:
        """Take output. pyte knows no dim text: it is grey here."""
        self._stream.feed(re.sub(r"\x1b\[(?:0;)?2((?:;\d+)*)m", "\x1b[90\\1m", text))

    def rows(self) -> list[str]:
        """Return the rows as text."""
        return [row.rstrip() for row in self._pyte.display]

    def runs(self, row: int) -> Iterator[tuple[int, str, pyte.screens.Char]]:
        """Yield the column, the text and the look of each run of like characters in a row."""
        cells = [self._pyte.buffer[row][column] for column in range(COLUMNS)]
        looks = groupby(range(COLUMNS), key=lambda column: cells[column]._replace(data=""))
        for look, columns in looks:
            first, *others = columns
            text = "".join(cells[column].data for column in (first, *others))
            if text.strip():
                yield first, text.rstrip(), look


def play(folder: Path) -> list[Event]:
    """Play the story in a folder; return what was recorded. Raises `RuntimeError` for what does not happen."""
    project = folder / "garden"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "xterm-256color",
        "INSTAR_SCRIPT": str(folder / "story.txt"),
    }
    project.mkdir()
    (project / "words.py").write_text(WORDS)
    (folder / "story.txt").write_text(SCRIPT)
    instar = [sys.executable, "-m", "instar"]
    subprocess.run([*instar, "init"], cwd=project, env=environment, check=True, capture_output=True)
    terminal = Terminal(project, environment)
    try:
        terminal.put("\x1b[1m~/garden $\x1b[0m instar chat\r\n")
        terminal.wait("/help says")
        for order, what in STORY:
            if order == "type":
                for letter in what:
                    terminal.press(letter)
                terminal.pause(0.5)
                terminal.press("\r")
            elif order == "press":
                terminal.press(what, 0.5)
            elif order == "wait":
                terminal.wait(what)
            else:
                terminal.mark(what)
        return terminal.events
    finally:
        terminal.close()


def moments(events: list[Event]) -> list[tuple[Event, Screen]]:
    """Return the screen at each mark."""
    found = []
    for at, event in enumerate(events):
        if event.kind == "m":
            screen = Screen()
            screen.feed("".join(one.text for one in events[:at] if one.kind == "o"))
            found.append((event, screen))
    return found


def written(events: list[Event]) -> str:
    """Return a recording as text."""
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "instar changes itself"}
    return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in (head, *events))


def read(text: str) -> list[Event]:
    """Return the events of a recording."""
    return [Event(*json.loads(line)) for line in text.splitlines()[1:]]


# -- the picture -------------------------------------------------------------------------------------

WIDE, HIGH, MARGIN = 8, 17, 16
SECONDS = 5
"""That each moment is shown."""
COLORS = {
    "default": "#d8dee9",
    "black": "#4c566a",
    "red": "#f07178",
    "green": "#a5d6a7",
    "brown": "#ffcb6b",
    "blue": "#82aaff",
    "magenta": "#d9a0f0",
    "cyan": "#7fdbca",
    "white": "#eceff4",
    "brightblack": "#8b93a5",
}
"""On the picture's own dark ground, which is read on light and dark pages."""


def picture(events: list[Event]) -> str:
    """Return the marked moments as an SVG that shows one after another, without a script."""
    shown = moments(events)
    wide, high = COLUMNS * WIDE + 2 * MARGIN, ROWS * HIGH + 2 * MARGIN
    share = 100 / len(shown)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">',
        "<style>text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}",
        f".m{{opacity:0;animation:m {SECONDS * len(shown)}s step-end infinite}}",
        f"@keyframes m{{0%{{opacity:1}}{share:.4g}%,100%{{opacity:0}}}}",
        "@media(prefers-reduced-motion){.m{animation:none}.m:nth-of-type(2){opacity:1}}</style>",
        f'<rect width="{wide}" height="{high}" rx="10" fill="#1b2028"/>',
    ]
    for number, (event, screen) in enumerate(shown):
        delay = SECONDS * number
        lines.append(f'<g class="m" style="animation-delay:{delay}s"><title>{escape(event.text)}</title>')
        lines += [line for row in range(ROWS) for line in drawn(screen, row)]
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def drawn(screen: Screen, row: int) -> Iterator[str]:
    """Yield the elements of a row."""
    for column, text, look in screen.runs(row):
        fill = COLORS.get(look.fg) or COLORS.get(look.fg.removeprefix("bright"), COLORS["default"])
        place = f'x="{MARGIN + column * WIDE}" y="{MARGIN + row * HIGH + 13}"'
        weight = ' font-weight="bold"' if look.bold else ""
        style = ' font-style="italic"' if look.italics else ""
        yield f'<text {place} textLength="{len(text) * WIDE}" fill="{fill}"{weight}{style}>{escape(text)}</text>'


def main() -> None:
    """Record."""
    with tempfile.TemporaryDirectory(prefix="instar-record-") as folder:
        events = play(Path(folder))
    CAST.write_text(written(events))
    PICTURE.write_text(picture(events))
    for file in (CAST, PICTURE):
        print(f"{file.relative_to(DOCS.parent)}: {file.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
