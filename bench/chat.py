"""What `instar chat` costs a person: start, going on with a long session, and keys typed while an answer streams.

`python -m bench.chat [--json] [--runs N] [--tokens N] [--messages N]`. The chat runs in a pseudo terminal of its own.
A key's echo is the time from writing it to the terminal until what comes back holds its letter. The long answer comes
as fast as the chat takes it, a short one at the pace of a real model.
"""

import os
import pty
import random
import select
import signal
import statistics
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.figure import Figure, Show, play
from bench.program import COMMAND, cpu_of, environment, memory_of, serving, timed

COLUMNS, ROWS = 100, 30
PATIENCE = 300.0
"""Seconds after which what hangs is given up."""
READY = b"build"
"""The agent's name in the last row: the input stands above it."""
FIRST_LETTER = 0xAC00
"""Of Hangul, which has thousands: each key's is another, and the answer holds none of them."""
END = "This is the last line."
SCRIPT = """== when "all at once"
chunk: 4
text: <<END
{text}
END

== when "slowly"
chunk: 4
pace: 10ms
text: <<END
{some}
END

== when ""
text: A short answer.
"""
SECTION = """## Part {n}

A paragraph of part {n} with **bold** and `code`, which goes on for some words so that a row of it wraps at the edge.

- the first item of part {n}
- the second, with a [link](https://example.org/{n})
  1. and one below it

| name | value |
|---|---:|
| row {n} | {n} |

```python
def part_{n}(words: list[str]) -> int:
    \"\"\"Return how many words of part {n} there are.\"\"\"
    return sum(1 for word in words if word != "part {n}")
```

"""


class Terminal:
    """A program on a pseudo terminal."""

    def __init__(self, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self.started = time.perf_counter()
        self.written = 0
        self.tail = b""
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, (ROWS, COLUMNS))
            os.chdir(folder)
            os.execve(COMMAND[0], [*COMMAND, *arguments], {**env, "TERM": "xterm-256color"})

    def type(self, text: str) -> None:
        """Type on the terminal's keyboard."""
        os.write(self._descriptor, text.encode())

    def read(self, seconds: float) -> bytes:
        """Return what is written within `seconds`, as soon as something is."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return b""
        data = os.read(self._descriptor, 1 << 16)
        self.written += len(data)
        self.tail = (self.tail + data)[-(1 << 16) :]
        return data

    def wait_for(self, text: bytes) -> float:
        """Read until `text` was written; return the moment. Raises `RuntimeError` when it does not come."""
        seen = b""
        until = time.perf_counter() + PATIENCE
        while text not in seen:
            if time.perf_counter() > until:
                raise RuntimeError(f"the chat did not write {text!r}: {self.tail[-2000:]!r}")
            seen = seen[-len(text) :] + self.read(1)
        return time.perf_counter()

    def rest(self, seconds: float = 0.5) -> None:
        """Read until nothing was written for so long."""
        while self.read(seconds):
            pass

    def close(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._descriptor)


@contextmanager
def chatting(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> Iterator[Terminal]:
    """A chat on a terminal of its own, from its start on."""
    terminal = Terminal(["chat", *arguments], folder, env)
    try:
        yield terminal
    finally:
        terminal.close()


def answer(tokens: int) -> str:
    """Markdown of so many tokens of four characters, with a last line that is known."""
    text, part = "", 0
    while len(text) < tokens * 4:
        part += 1
        text += SECTION.format(n=part)
    return f"{text}{END}"


def starts(folder: Path, env: Mapping[str, str], runs: int, messages: int) -> Iterator[Figure]:
    """From the start of the process to the input: without a session, and with a long one."""
    yield Figure("instar chat: first input", first_input(folder, env, [], runs), "ms")
    with serving(folder, env) as server:
        session = server.session()
        for _ in range(messages // 2):
            server.turn(session)
        short = server.session()
        server.turn(short)
    yield Figure("going on with 2 messages: first input", first_input(folder, env, ["-s", short], runs), "ms")
    took = first_input(folder, env, ["-s", session], runs)
    yield Figure(f"going on with {messages:,} messages: first input", took, "ms")


def first_input(folder: Path, env: Mapping[str, str], arguments: Sequence[str], runs: int) -> list[float]:
    """Milliseconds from each start to the first input."""
    took = []
    for _ in range(runs + 1):
        with chatting(arguments, folder, env) as terminal:
            took.append((terminal.wait_for(READY) - terminal.started) * 1000)
    return took[1:]


def streams(what: str, terminal: Terminal, asked: str, *others: int) -> Iterator[Figure]:
    """Type while an answer streams. The work of the processes `others` counts too."""

    def cpu() -> float:
        return sum(cpu_of(pid) for pid in (terminal.pid, *others))

    terminal.wait_for(READY)
    terminal.rest()
    before, wrote, began = cpu(), terminal.written, time.perf_counter()
    terminal.type(f"{asked}\r")
    terminal.wait_for(b"Part 1")
    keys = list(typed(terminal))
    took = time.perf_counter() - began
    terminal.rest()
    yield Figure(f"{what}: wall", [took], "s")
    yield Figure(f"{what}: CPU", [cpu() - before], "s")
    yield Figure(f"{what}: written", [(terminal.written - wrote) / 1024], "kB")
    yield Figure(f"{what}: memory of the chat", [memory_of(terminal.pid)], "MB")
    yield Figure(f"{what}: a key's echo", keys, "ms")
    yield Figure(f"{what}: a key's echo, p95", [statistics.quantiles(keys, n=20)[-1]], "ms")


def typed(terminal: Terminal) -> Iterator[float]:
    """Type letters until the answer's last line is there; yield the milliseconds of each echo."""
    pause, known, keys = random.Random(1), b"", 0
    end = END.split()[-1].encode()
    while end not in known:
        if keys % 30 == 29:
            terminal.type("\x15")  # an empty input again
            known = (known + drained(terminal, 0.1))[-4096:]
        letter = chr(FIRST_LETTER + keys)
        began, seen = time.perf_counter(), b""
        terminal.type(letter)
        while letter.encode() not in seen:
            if time.perf_counter() - began > PATIENCE:
                raise RuntimeError(f"{letter!r} was not echoed")
            seen += terminal.read(1)
        yield (time.perf_counter() - began) * 1000
        keys += 1
        known = (known + seen + drained(terminal, pause.uniform(0.02, 0.08)))[-4096:]


def drained(terminal: Terminal, seconds: float) -> bytes:
    """Read for so long, as a terminal does while nobody types."""
    found, until = b"", time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        found += terminal.read(left)
    return found


def imports(runs: int) -> Iterator[Figure]:
    """What the parts of a chat cost other commands, were they imported there."""
    for code in (
        "import prompt_toolkit",
        "import prompt_toolkit.application, rich.console",
        "import rich.console",
    ):
        alone = [alone_took("pass") for _ in range(runs)]
        took = [alone_took(code) - statistics.median(alone) for _ in range(runs)]
        yield Figure(code, took, "ms")


def alone_took(code: str) -> float:
    """Milliseconds that an interpreter takes for `code`."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - started) * 1000


def measure(root: Path, show: Show, runs: int, tokens: int, messages: int) -> None:
    """Measure everything and show each figure as it comes."""
    script = root / "script.txt"
    script.write_text(SCRIPT.format(text=answer(tokens), some=answer(1000)))
    env = environment(
        root / "home", INSTAR_SCRIPT=str(script), INSTAR_CONFIG_CONTENT='{"model": "scripted/bench"}'
    )
    folder = root / "project"
    folder.mkdir()
    for arguments in (["--version"], ["run", "hi"]):
        took = [timed(arguments, folder, env).wall * 1000 for _ in range(runs + 1)][1:]
        show(Figure(f"instar {' '.join(arguments)}: wall", took, "ms"))
    for figure in imports(runs):
        show(figure)
    for figure in starts(folder, env, runs, messages):
        show(figure)
    for asked, what in (
        ("all at once", f"{tokens:,} tokens"),
        ("slowly", "100 tokens a second"),
    ):
        with chatting([], folder, env) as terminal:
            for figure in streams(what, terminal, asked):
                show(figure)
        with serving(folder, env) as server, chatting(["--attach", server.url], folder, env) as terminal:
            for figure in streams(f"{what}, attached", terminal, asked, server.process.pid):
                show(figure)


def main() -> None:
    """Parse the command line and measure."""
    play(
        "bench.chat",
        __doc__,
        measure,
        runs=(5, "runs of each start"),
        tokens=(20_000, "tokens of the streamed answer"),
        messages=(3_000, "messages of the long session"),
    )


if __name__ == "__main__":
    main()
