"""A soak: turns without an end on one server, and what grows meanwhile.

One `instar serve` answers prompts in sessions that come and go; every hundred turns its memory, its descriptors, its
threads, its children, the database, its log (WAL) and the rows of events are noted. From the second note on these are
flat: memory within `MEMORY_A_HUNDRED` and descriptors, threads and children not at all; the log stays below `LOG`.

``python -m tests.campaign.soak --count 1500``
"""

import contextlib
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from tests import parent
from tests.campaign.campaign import Campaign, given
from tests.campaign.kills import Machine, Served
from tests.running import pids

EACH = 100
"""Turns between two notes."""
WARM = 2
"""Notes that do not count: caches fill."""
MEMORY_A_HUNDRED = 0.5
"""MiB that memory may grow by in a hundred turns, over all."""
LOG = 64.0
"""MiB that the log of the database may take."""
A_SESSION = 25
"""Turns of one session."""
TEXTS = ("say", "add", "both", "file")


def note(machine: Machine, pid: int) -> dict[str, float]:
    """Return what the server takes now."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if len(line.split()) > 1}
    store = machine.database
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened:
        (rows,) = opened.execute("SELECT count(*) FROM event").fetchone()
    log = store.with_name(store.name + "-wal")
    return {
        "memory MiB": round(int(found["VmRSS"]) / 1024, 1),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(found["Threads"]),
        "children": sum(_parent(child) == pid for child in pids()),
        "database MiB": round(store.stat().st_size / 2**20, 1),
        "log MiB": round(log.stat().st_size / 2**20, 1) if log.exists() else 0.0,
        "event rows": rows,
    }


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def judge(notes: list[dict[str, float]]) -> list[str]:
    """Return what grew."""
    if len(notes) < WARM + 2:
        return []
    first, last = notes[WARM], notes[-1]
    found = [
        f"{name} grew from {first[name]} to {last[name]}"
        for name in ("descriptors", "threads", "children")
        if last[name] > first[name] + 2
    ]
    grown = (last["memory MiB"] - first["memory MiB"]) / (len(notes) - 1 - WARM)
    if grown > MEMORY_A_HUNDRED:
        found.append(f"memory grows by {grown:.2f} MiB in {EACH} turns")
    if last["log MiB"] > LOG:
        found.append(f"the log of the database takes {last['log MiB']} MiB")
    return found


def play(campaign: Campaign, folder: Path) -> list[dict[str, float]]:
    """Run turns on one server; the notes."""
    machine = Machine(folder / "machine", campaign.chance(0))
    program = machine.start("soak", ["serve", "--port", "0", "--no-auth"], None)
    port = program.line(r"listening on http://127.0.0.1:(\d+)")
    assert port is not None, machine.errors()
    served = Served(machine, program, int(port))
    notes, session = [], ""
    for number in campaign.numbers():
        if number % A_SESSION == 0:
            session = served.ask("POST", "/session", {})["id"]
        kind = campaign.chance(number).choice(TEXTS)
        body = {"parts": [{"type": "text", "text": f"{kind} n{number}"}]}
        served.ask("POST", f"/session/{session}/message", body)
        served.hear(0.001)
        if number % EACH == EACH - 1:
            time.sleep(1)
            notes.append(note(machine, program.pid))
            print(f"soak: {number + 1} turns: {notes[-1]}", file=sys.stderr, flush=True)
            for name, value in notes[-1].items():
                campaign.counts[f"after {number + 1:05} turns: {name}"] = value  # type: ignore[assignment]
    program.kill()
    served.close()
    return notes


def main(arguments: list[str] | None = None) -> int:
    """Play the campaign; the exit code."""
    campaign, options = given("soak", arguments, count=1500)
    parent.import_all()
    with tempfile.TemporaryDirectory() as folder:
        for text in judge(play(campaign, Path(folder))):
            campaign.find(text)
    return campaign.end(options.json)


if __name__ == "__main__":
    sys.exit(main())
