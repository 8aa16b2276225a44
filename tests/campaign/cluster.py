"""Workers on one PostgreSQL database, which faults meet every few seconds; what must be so of every turn.

Sessions are prompted over HTTP at any worker, one prompt after another and several at once, each a turn with calls of
a program that notes its start and its end. Clients follow the events and come back at another worker. The faults, each
drawn from the seed: a worker is killed and started again, stopped for longer than its lease and woken, cut off from the
database; the server is restarted, or its disk is slow. Then all must be quiet, and the notes, the histories and the
events are compared.

``python -m tests.campaign.cluster --minutes 20 --workers 3 --sessions 64``
"""

import argparse
import contextlib
import http.client
import itertools
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from tests import postgresql
from tests.campaign import evolutions
from tests.campaign.campaign import Campaign

ROOT = Path(__file__).parents[2]
ENGINES = {"absurd": "instar", "dbos": "tests.campaign.dbos_engine"}
"""What hands out the turns: the modules that a worker is started by."""
LEASE = 3
"""Seconds of a session's lease here: faults come more often than with the 10 of a real cluster."""
SETTINGS = ("shared_buffers=64MB", "max_connections=200", f"instar.lease_seconds={LEASE}")
CALLS = 3
"""Calls of one turn, one after another."""
GROWING = 0.05
"""How often a prompt asks for a change of a hook script."""
PATIENCE = 60.0
"""Seconds for which an answer is waited for."""
REST = 120.0
"""Seconds after the last fault in which every turn must come to its end, also what is queued."""
SEEN = 20
"""Messages in which the last prompt of a session is looked for."""
BUSY = (400, 409)
FAULTS = ("kill", "kill", "stop", "stop", "cut", "cut", "restart", "slow")
CLIENTS = 3
"""Who follows the events."""

ACT = r"""#!/bin/sh
echo "start $1 $2 $WORKER $(date +%s%N)" >> "$EFFECTS"
sleep 0.$((($$ % 4) + 1))
echo "end $1 $2 $WORKER $(date +%s%N)" >> "$EFFECTS"
echo "did $1 $2"
"""
SCRIPT = r"""
chunk: 8

== when "^work (\w+)"
text: I begin.
tool: bash {"command": "./act {{match.1}} 1"}

== when "^did (\w+) 1"
tool: bash {"command": "./act {{match.1}} 2"}

== when "^did (\w+) 2"
tool: bash {"command": "./act {{match.1}} 3"}
"""
SCRIPT += evolutions.SCRIPT
SCRIPT += '\n== when ""\ntext: all done\n'


NOTE_LEASES = """
CREATE TABLE campaign_taken (session_id text, pid integer, at double precision);
CREATE FUNCTION campaign_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' OR OLD.owner <> NEW.owner THEN
    INSERT INTO campaign_taken
    VALUES (NEW.session_id, split_part(NEW.owner, ':', 2)::int, extract(epoch FROM clock_timestamp()));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER campaign_note AFTER INSERT OR UPDATE ON instar_lease FOR EACH ROW EXECUTE FUNCTION campaign_note();
"""
"""Who took a session's lease over, and when."""


class Taken(NamedTuple):
    """A worker took the lease of a session (``s03``) from another one, in seconds since the epoch."""

    session: str
    worker: str
    when: float


class Effect(NamedTuple):
    """A line that a call has noted; `turn` is ``s03t007``, `when` in seconds since the epoch."""

    what: str
    turn: str
    step: int
    worker: str
    when: float

    @property
    def session(self) -> str:
        return self.turn.partition("t")[0]


def effects(path: Path) -> list[Effect]:
    """Return what was noted, in its order; a line that a kill has cut is none."""
    found = []
    for line in path.read_text().splitlines():
        words = line.split()
        if len(words) == 5 and words[0] in ("start", "end"):
            found.append(Effect(words[0], words[1], int(words[2]), words[3], int(words[4]) / 1e9))
    return found


def judge_effects(noted: Sequence[Effect], taken: Sequence[Taken] = ()) -> dict[str, list[str]]:
    """Return what of the calls must not be: one that ran twice, an old turn's or an old owner's that came later.

    An owner that has taken the lease again may come back.
    """
    found: dict[str, list[str]] = {"doubled": [], "overlapping": [], "out of order": []}
    starts = [one for one in noted if one.what == "start"]
    for (turn, step), count in Counter((one.turn, one.step) for one in starts).items():
        if count > 1:
            found["doubled"].append(f"call {step} of {turn} ran {count} times")
    of_session: dict[str, list[Effect]] = defaultdict(list)
    of_turn: dict[str, list[Effect]] = defaultdict(list)
    for one in starts:
        of_session[one.session].append(one)
        of_turn[one.turn].append(one)
    for session in of_session.values():
        for before, after in itertools.pairwise(session):
            if (after.turn, after.step) < (before.turn, before.step):
                found["out of order"].append(
                    f"{after.turn} {after.step} came after {before.turn} {before.step}"
                )
    for calls in of_turn.values():
        found["overlapping"] += _returns(calls, taken)
    return found


def _returns(calls: Sequence[Effect], taken: Sequence[Taken]) -> Iterator[str]:
    former: set[str] = set()
    for before, after in itertools.pairwise(calls):
        if after.worker == before.worker:
            continue
        former.add(before.worker)
        holders = [
            (one.when, one.worker) for one in taken if one.session == after.session and one.when < after.when
        ]
        if after.worker in former and max(holders, default=(0.0, ""))[1] != after.worker:
            yield f"{after.turn} was run by {after.worker} again after {before.worker}"


def judge_history(
    sent: Mapping[str, bool], messages: Sequence[Any], noted: Sequence[Effect]
) -> dict[str, list[str]]:
    """Return what of one session's history must not be.

    `sent` has its prompts in the order in which they were sent, and whether the answer said that they were accepted.
    """
    found: dict[str, list[str]] = {"lost": [], "doubled": [], "out of order": [], "unfinished": []}
    told = [_turn(one) for one in messages if one["info"]["role"] == "user"]
    asked = [turn for turn in told if turn is not None]
    for turn, count in Counter(asked).items():
        if count > 1:
            found["doubled"].append(f"the prompt {turn} stands {count} times in the history")
    found["lost"] += [
        f"the prompt {turn} was accepted and is gone"
        for turn, sure in sent.items()
        if sure and turn not in asked
    ]
    if asked != sorted(asked):
        found["out of order"].append(f"the prompts stand as {', '.join(asked)}")
    answered: Counter[str] = Counter()
    called: set[tuple[str, int]] = set()
    of = _prompts(messages)
    for one in messages:
        turn = of.get(one["info"].get("parentID", ""))
        if turn is None:
            continue
        answered[turn] += "completed" in one["info"]["time"] and one["info"].get("finish") != "tool-calls"
        for part in one["parts"]:
            if part["type"] == "tool":
                state = part["state"]
                command = state["input"].get("command", "")
                if command.startswith("./act "):
                    called.add((command.split()[1], int(command.split()[2])))
                if state["status"] in ("pending", "running"):
                    found["unfinished"].append(f"a call of {turn} counts as {state['status']}")
    # What was asked while a turn ran is answered together with what was asked after it.
    answers = [turn for turn in asked if answered[turn]]
    last = max(answers, default="")
    found["unfinished"] += [f"{turn} has no answer" for turn in asked if turn > last]
    lost = sorted({(one.turn, one.step) for one in noted} - called)
    found["lost"] += [f"call {step} of {turn} ran and is not in the history" for turn, step in lost]
    return found


def _prompts(messages: Sequence[Any]) -> dict[str, str | None]:
    """The turn of each user message; what evolve tells a session belongs to the prompt before it."""
    of: dict[str, str | None] = {}
    last = None
    for one in messages:
        if one["info"]["role"] == "user":
            last = of[one["info"]["id"]] = _turn(one) or last
    return of


def _turn(message: Any) -> str | None:
    said = " ".join(part.get("text", "") for part in message["parts"])
    matched = re.match(r"(?:work|grow) (s\d+t\d+)", said)
    return matched[1] if matched else None


def judge_events(stored: Sequence[str], heard: Sequence[str]) -> dict[str, list[str]]:
    """Return what a client missed or heard twice of the durable events that were stored since its first one."""
    twice = [one for one, count in Counter(heard).items() if count > 1]
    known = set(stored)
    ours = [one for one in dict.fromkeys(heard) if one in known]
    since = stored[stored.index(ours[0]) :] if ours else []
    missed = set(since) - set(heard)
    order = [one for one in since if one not in missed]
    found = {
        "events doubled": [f"{one} was heard twice" for one in twice],
        "events missed": [f"{one} was not heard" for one in missed],
    }
    moved = sum(one != other for one, other in zip(ours, order, strict=False))
    found["events out of order"] = [f"{moved} events were heard in another order"] if moved else []
    return found


class Worker:
    """One `instar serve`, which is started again after it was killed."""

    def __init__(self, number: int, cluster: "Workers") -> None:
        self.number, self._cluster = number, cluster
        self.starts = 0
        self.named: dict[int, str] = {}
        """What its processes are called, by their ids."""
        self.address: str | None = None
        """None while it is down."""
        self._errors = cluster.folder / f"worker{number}.txt"

    def start(self) -> None:
        """Start it, and wait until it says where it listens."""
        self.starts += 1
        name = f"w{self.number}.{self.starts}"
        own = {**self._cluster.workspaces.environment(self.number), "WORKER": name}
        command = [sys.executable, "-m", self._cluster.program, "serve", "--port", "0", "--no-auth"]
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, "--database", self._cluster.database],
                cwd=self._cluster.project,
                env={**self._cluster.environment, **own},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self.named[self.process.pid] = name
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "listening on" in line:
                self.address = urllib.parse.urlsplit(line.split()[-1]).netloc
                return
        self.process.wait()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.address = None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Workers:
    """The workers, their project and their database."""

    def __init__(self, folder: Path, count: int, program: str) -> None:
        self.program = program
        self.folder, self.project = folder, folder / "project"
        self.project.mkdir(parents=True)
        self.effects = folder / "effects.txt"
        self.effects.touch()
        (folder / "script.txt").write_text(SCRIPT)
        act = self.project / "act"
        act.write_text(ACT)
        act.chmod(0o755)
        self.workspaces = evolutions.SharedWorkspaces(folder, count)
        config = {"model": "scripted/x", "snapshot": False, "permission": {"*": "allow"}}
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "INSTAR_TRUST": "all",
            "INSTAR_CONFIG_CONTENT": json.dumps(config),
            "INSTAR_SCRIPT": str(folder / "script.txt"),
            "EFFECTS": str(self.effects),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
            evolutions.git(self.project, *words)
        self.server = postgresql.cluster(SETTINGS)
        self.database = self.server.database()
        self.all = [Worker(number, self) for number in range(count)]

    def end(self) -> None:
        """End those that run, and keep what their database logged."""
        shutil.copy(self.server.folder / "log.txt", self.folder / "postgresql.txt")
        for worker in self.all:
            if worker.starts and worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.kill()

    def dump(self) -> None:
        """Keep what the database has, for who looks for causes."""
        dump = self.server.folder / "dump.sql"
        self.server.run(
            "pg_dump", "-h", str(self.server.folder), "-U", "postgres", "-f", str(dump), "postgres"
        )
        shutil.move(dump, self.folder)

    def agree(self, accepted: Sequence[str]) -> Iterator[tuple[str, str]]:
        """End all, let each bring its workspace together with the others', and yield what was accepted and is lost."""
        self.end()
        self.workspaces.agree(self.project, self.environment, self.database)
        yield from self.workspaces.judge(accepted)

    def up(self) -> list[str]:
        """The addresses of those that are not down."""
        return [one.address for one in self.all if one.address is not None]

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """Connect to their database, as soon as it is there."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return psycopg.connect(self.database, autocommit=True)
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)


class Refused(Exception):
    """A worker has answered with an error: its status and its text."""


def ask(address: str, method: str, path: str, body: Any = None) -> Any:
    """Ask a worker. Raises `Refused`, and `OSError` or `HTTPException` where no answer comes."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise Refused(answer.status, data.decode(errors="replace")[:300])
        return json.loads(data) if data else None


class Play:
    """One campaign: sessions, followers and faults, each in a thread of its own."""

    def __init__(self, campaign: Campaign, workers: Workers, sessions: int) -> None:
        self.campaign, self.workers = campaign, workers
        self.names = [f"s{number:02}" for number in range(sessions)]
        self.ids: dict[str, str] = {}
        self.sent: dict[str, dict[str, bool]] = {name: {} for name in self.names}
        self.heard: list[list[tuple[str, str, float]]] = [[] for _ in range(CLIENTS)]
        self.faults: list[tuple[str, float, set[str]]] = []
        """Of those that stopped a worker: which, when, and the sessions that it ran then."""
        self.over = threading.Event()
        self.deadline = float("inf")
        """When nobody waits any longer."""
        self.quiet = threading.Event()
        self._lock = threading.Lock()

    def count(self, name: str, number: int = 1) -> None:
        """Add to the report."""
        with self._lock:
            self.campaign.counts[name] += number

    # -- sessions --------------------------------------------------------------------------------------

    def anywhere(self, chance: random.Random, method: str, path: str, body: Any = None) -> Any:
        """Ask any worker until one answers. Raises `Refused`."""
        until = min(time.monotonic() + PATIENCE, self.deadline + PATIENCE)
        while True:
            try:
                return ask(chance.choice(self.workers.up()), method, path, body)
            except (OSError, http.client.HTTPException, IndexError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
            except Refused as error:
                # While the database is away every worker says so.
                if error.args[0] not in (500, 503) or time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def converse(self, name: str) -> None:
        """Prompt a session until the time is up."""
        chance = self.campaign.chance(int(name[1:]))
        number = 0
        while not self.over.is_set():
            batch = chance.choice((1, 1, 1, 2, 3))
            grows = chance.random() < GROWING
            for _ in range(batch):
                number += 1
                turn = f"{name}t{number:03}"
                text = f"grow {turn} in {chance.choice(evolutions.HOOKS)}" if grows else f"work {turn}"
                self.prompt(chance, name, turn, text, waits=batch == 1 and chance.random() < 0.5)
            self.settle(chance, name, REST)
            time.sleep(chance.random())

    def prompt(self, chance: random.Random, name: str, turn: str, text: str, *, waits: bool) -> None:
        """Send one prompt; what came of it is in `sent`."""
        path = f"/session/{self.ids[name]}/{'message' if waits else 'prompt_async'}"
        try:
            self.sent[name][turn] = False
            ask(
                chance.choice(self.workers.up()),
                "POST",
                path,
                {"parts": [{"type": "text", "text": text}]},
            )
            self.sent[name][turn] = True
            self.count("prompts accepted")
        except Refused as error:
            status, said = error.args
            self.count("refused: busy" if status in BUSY else "refused: otherwise")
            if status in BUSY:
                self.count(
                    f"refusal {status}: {re.sub(r'(ses|msg)_[0-9A-Za-z]+|[0-9.]{3,}', '…', said)[:120]}"
                )
            time.sleep(0.3)
        except (OSError, http.client.HTTPException, IndexError):
            self.count("prompts without an answer")
            time.sleep(0.3)

    def settle(self, chance: random.Random, name: str, seconds: float) -> bool:
        """Wait until the session's last prompt that was accepted is answered; whether it is."""
        until = time.monotonic() + seconds
        accepted = [turn for turn, sure in self.sent[name].items() if sure]
        while time.monotonic() < min(until, self.deadline):
            with contextlib.suppress(Refused, OSError, http.client.HTTPException, IndexError):
                path = f"/session/{self.ids[name]}/message?limit={SEEN}"
                found = self.anywhere(chance, "GET", path)
                # Until then it stands in the session's queue.
                is_there = not accepted or accepted[-1] in map(_turn, found)
                if is_there and (not found or _finished(found[-1])):
                    return True
            time.sleep(0.5)
        return False

    def rest(self) -> None:
        """Wait until no session is busy any more, also with what nobody knows to be accepted."""
        chance, quiet = self.campaign.chance(5000), 0
        while quiet < 3 and time.monotonic() < self.deadline:
            quiet = 0 if self.anywhere(chance, "GET", "/session/status") else quiet + 1
            time.sleep(1)

    # -- events ----------------------------------------------------------------------------------------

    def follow(self, number: int) -> None:
        """Read the events, and come back at another worker when the stream ends, or by chance."""
        chance = self.campaign.chance(1000 + number)
        last = ""
        while not self.quiet.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, IndexError):
                address = chance.choice(self.workers.up())
                last = self._stream(number, address, last, time.monotonic() + chance.uniform(5, 40))
            time.sleep(0.2)

    def _stream(self, number: int, address: str, last: str, until: float) -> str:
        connection = http.client.HTTPConnection(address, timeout=15)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/instar/event", headers={"Last-Event-ID": last} if last else {})
                answer = connection.getresponse()
                if last:
                    self.count(f"came back: {answer.headers.get('Instar-Resumed', 'nothing said')}")
                data = None
                while not self.quiet.is_set() and (time.monotonic() < until or data):
                    line = answer.readline().decode()
                    if not line:
                        break
                    if line.startswith("data:"):
                        data = json.loads(line[5:])
                    elif line.startswith("id:") and data is not None:
                        last = line[3:].strip()
                        if data.get("seq") is not None:
                            session = data["properties"].get("sessionID", "")
                            self.heard[number].append((data["id"], session, time.time()))
                        data = None
            except (OSError, http.client.HTTPException):
                self.count("streams that broke")
        return last

    # -- faults ----------------------------------------------------------------------------------------

    def harm(self, pause: float) -> None:
        """Play faults until the time is up."""
        chance = self.campaign.chance(2000)
        while not self.over.wait(chance.uniform(pause / 2, pause * 1.5)):
            fault = chance.choice(FAULTS)
            self.count(f"fault {fault}")
            getattr(self, f"_{fault}")(chance)

    def _ran(self, worker: Worker) -> set[str]:
        """The sessions whose lease the worker holds."""
        with contextlib.suppress(psycopg.Error), self.workers.connect() as connection:
            owned = connection.execute(
                "SELECT session_id FROM instar_lease WHERE split_part(owner, ':', 2) = %s"
                " AND time_expires > extract(epoch FROM now()) * 1000",
                (str(worker.process.pid),),
            )
            return {str(row[0]) for row in owned.fetchall()}
        return set()

    def _hit(self, fault: str, worker: Worker) -> None:
        ran = self._ran(worker)
        self.faults.append((fault, time.time(), ran))

    def _kill(self, chance: random.Random) -> None:
        worker = chance.choice(self.workers.all)
        self._hit("kill", worker)
        worker.kill()
        time.sleep(chance.uniform(0, 2 * LEASE))
        worker.start()

    def _stop(self, chance: random.Random) -> None:
        worker = chance.choice(self.workers.all)
        self._hit("stop", worker)
        worker.process.send_signal(signal.SIGSTOP)
        # Nobody's fault that it does not answer meanwhile: a balancer would have taken it out.
        address, worker.address = worker.address, None
        time.sleep(LEASE + chance.uniform(0.5, 2 * LEASE))
        worker.process.send_signal(signal.SIGCONT)
        worker.address = address

    def _cut(self, chance: random.Random) -> None:
        """Drop half of the connections."""
        with contextlib.suppress(psycopg.Error), self.workers.connect() as connection:
            dropped = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'instar' AND random() < 0.5"
            ).fetchall()
            self.count("connections dropped", len(dropped))

    def _restart(self, chance: random.Random) -> None:
        self.workers.server.stop(chance.choice(("fast", "immediate")))
        time.sleep(chance.uniform(0, 2))
        self.workers.server.start()

    def _slow(self, chance: random.Random) -> None:
        """Let each commit wait for a tenth of a second, as on a disk that is busy."""
        with contextlib.suppress(psycopg.Error), self.workers.connect() as connection:
            for setting in ("commit_delay = 100000", "commit_siblings = 0"):
                connection.execute(f"ALTER SYSTEM SET {setting}")  # type: ignore[arg-type]
            connection.execute("SELECT pg_reload_conf()")
        time.sleep(chance.uniform(2, 6))
        with contextlib.suppress(psycopg.Error), self.workers.connect() as connection:
            connection.execute("ALTER SYSTEM RESET ALL")
            connection.execute("SELECT pg_reload_conf()")

    # -- the end ---------------------------------------------------------------------------------------

    def judge(self) -> Iterator[tuple[str, str]]:
        """Yield what does not hold: its column and what it is."""
        noted = effects(self.workers.effects)
        yield from _flat(judge_effects(noted, self.taken()))
        chance = self.campaign.chance(3000)
        accepted = []
        for name in self.names:
            messages = self.anywhere(chance, "GET", f"/session/{self.ids[name]}/message")
            (self.workers.folder / f"{name}.json").write_text(json.dumps(messages, indent=1))
            of = [one for one in noted if one.session == name]
            self.count("turns done", sum(_finished(one) for one in messages))
            yield from _flat(judge_history(self.sent[name], messages, of))
            for turn, status in evolutions.versions(messages):
                self.count(f"versions {status}")
                if status == "completed":
                    accepted.append(turn)
        with self.workers.connect() as connection:
            stored = [row[0] for row in connection.execute("SELECT id FROM event ORDER BY rowid").fetchall()]
        self.count("events stored", len(stored))
        for heard in self.heard:
            self.count("events heard", len(heard))
            yield from _flat(judge_events(stored, [one for one, _, _ in heard]))
        self.workers.dump()
        yield from self.workers.agree(accepted)

    def taken(self) -> list[Taken]:
        """Who took over which session when."""
        sessions = {one: name for name, one in self.ids.items()}
        workers = {pid: name for worker in self.workers.all for pid, name in worker.named.items()}
        with self.workers.connect() as connection:
            rows = connection.execute("SELECT session_id, pid, at FROM campaign_taken").fetchall()
        return [Taken(sessions[one], workers[pid], at) for one, pid, at in rows if one in sessions]

    def takeovers(self) -> list[float]:
        """Seconds from each fault that stopped a worker to the next event of each session that it ran."""
        heard: dict[str, list[float]] = defaultdict(list)
        for _, session, when in sorted(self.heard[0] + self.heard[1], key=lambda one: one[2]):
            heard[session].append(when)
        found = []
        for _, begun, sessions in self.faults:
            for session in sessions:
                after = next((when for when in heard[session] if when > begun + 0.3), None)
                if after is not None:
                    found.append(after - begun)
        return found


def _finished(message: Any) -> bool:
    info = message["info"]
    return info["role"] == "assistant" and "completed" in info["time"] and info.get("finish") != "tool-calls"


def _flat(found: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    for column, texts in found.items():
        for text in texts:
            yield column, text


COLUMNS = (
    "refused",
    "lost",
    "doubled",
    "overlapping",
    "out of order",
    "unfinished",
    "versions lost",
    "events missed",
    "events doubled",
    "events out of order",
)
"""What must be 0."""
SHOWN = 5


def play(campaign: Campaign, folder: Path, options: argparse.Namespace) -> None:
    """Play it, and fill in the campaign's counts and findings."""
    workers = Workers(folder, options.workers, ENGINES[options.engine])
    played = Play(campaign, workers, options.sessions)
    try:
        for worker in workers.all:
            worker.start()
        with workers.connect() as connection:
            connection.execute(NOTE_LEASES)
        chance = campaign.chance(4000)
        for name in played.names:
            played.ids[name] = played.anywhere(chance, "POST", "/session", {"title": name})["id"]
        followers = _threads(played.follow, range(CLIENTS))
        talkers = _threads(played.converse, played.names)
        harming = _threads(played.harm, [options.pause] if options.pause else [])
        _wait(played, options.minutes * 60)
        for thread in harming:
            thread.join()
        played.deadline = time.monotonic() + REST
        for thread in talkers:
            thread.join(max(played.deadline - time.monotonic(), 0) + LEASE)
        played.rest()
        time.sleep(2)
        played.quiet.set()
        for thread in followers:
            thread.join(20)
        report(campaign, played)
    finally:
        workers.end()


def report(campaign: Campaign, played: Play) -> None:
    """Judge what is left, and fill in the counts and the findings; of each column the first few."""
    columns: Counter[str] = Counter()
    for column, text in played.judge():
        columns[column] += 1
        if column in COLUMNS and columns[column] <= SHOWN:
            campaign.find(f"{column}: {text}")
    columns["refused"] = campaign.counts["refused: busy"]
    if columns["refused"]:
        campaign.find(f"refused: {columns['refused']} prompts, since another worker ran the session")
    for column in (*COLUMNS, "versions not committed"):
        campaign.counts[column] = columns[column]
    took = played.takeovers()
    campaign.counts["takeovers"] = len(took)
    if len(took) > 1:
        campaign.counts["takeover p50 (ms)"] = round(statistics.median(took) * 1000)
        campaign.counts["takeover p99 (ms)"] = round(statistics.quantiles(took, n=100)[98] * 1000)


def _threads(work: Callable[[Any], None], given: Sequence[Any]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=[one], daemon=True) for one in given]
    for thread in threads:
        thread.start()
    return threads


def _wait(played: Play, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(10.0, left))
        with played._lock:
            said = {name: number for name, number in played.campaign.counts.items() if ":" not in name}
        print(f"cluster: {seconds - max(left, 0):.0f} s: {said}", file=sys.stderr, flush=True)
    played.over.set()


def main(arguments: list[str] | None = None) -> int:
    """Play the campaign; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.cluster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--engine", choices=ENGINES, default="absurd", help="what hands out the turns")
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between two faults; 0: none")
    parser.add_argument("--keep", type=Path, help="a folder that does not exist, which is left afterwards")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    campaign = Campaign("cluster", count=1, seed=options.seed)
    with tempfile.TemporaryDirectory(prefix="instar-cluster-", ignore_cleanup_errors=True) as folder:
        for _ in campaign.numbers():
            play(campaign, options.keep or Path(folder) / "cluster", options)
    return campaign.end(options.json)


if __name__ == "__main__":
    sys.exit(main())
