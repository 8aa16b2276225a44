"""Kills of `instar serve` and `instar run`, at random moments and at named steps, and what must be there afterwards.

Each round starts the program as a process of its own, lets it work, and kills it (SIGKILL). The next round starts it
on what is left and holds that against what the client was told:

- lost: an event, a part, a message or an accepted prompt that the client was told of and that is not stored;
- doubled: a number of an event, a prompt, or the effect of a tool call that is there twice;
- orphans: a process that the killed one started and that lives on;
- unusable: a session that does not answer the next prompt, a call that still counts as running, a damaged file.

``python -m tests.campaign.kills --count 2000 --seed 1 --state kills.json``
"""

import contextlib
import functools
import gc
import http.client
import importlib
import inspect
import json
import os
import random
import re
import runpy
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import parent
from tests.campaign.campaign import Campaign, given
from tests.campaign.corruption import MEMORY
from tests.running import arguments, lives, pids

from instar.plugins.evolve.ledger import install
from instar.testing import clean_environment

PATIENCE = 30.0
LIFE = 40
"""Rounds that a machine lives; then there is a new one."""
SETTLED = 3.0
"""Seconds after which nothing of a killed program lives."""
SLOW = 10.0
"""Seconds more that it may take on a busy machine."""
MARK = "CAMPAIGN_ROUND"
STEPS: Mapping[str, tuple[str, str]] = {
    "migration": ("instar.store.sqlite", "_apply"),
    "statements of a commit": ("instar.store.commit", "Commit.run"),
    "commit": ("instar.store.writer", "_transaction"),
    "events of a commit": ("instar.store.writer", "Writer._deliver"),
    "lease": ("instar.store.store", "Store.lease"),
    "release of a lease": ("instar.store.store", "Store.release"),
    "mark of what was interrupted": ("instar.store.store", "Store.interrupt"),
    "opening of a session": ("instar.session.sessions", "Sessions.open"),
    "prompt": ("instar.session.sessions", "Sessions.save_prompt"),
    "queued prompt": ("instar.session.sessions", "Sessions.queue"),
    "part": ("instar.session.sessions", "Sessions.save_part"),
    "start of a turn": ("instar.turn.turns", "Turns.start"),
    "end of a turn": ("instar.turn.turns", "Turns._finish"),
    "start of a call": ("instar.turn.calls", "execute"),
    "result of a call": ("instar.turn.calls", "report"),
    "start of a child": ("instar.process.child", "Child.start"),
    "end of a child": ("instar.process.child", "Child.end"),
    "install of evolve": ("instar.plugins.evolve.ledger.install", "Installer.install"),
    "owed commit of evolve": ("instar.plugins.evolve.ledger.install", "Installer.open"),
    "grant of evolve": ("instar.plugins.evolve.grants", "ScriptGrants.settle"),
    "audit log of evolve": ("instar.plugins.evolve.history.audit_log", "AuditLog.add"),
}
"""The functions before and after which a kill falls, by what they do."""
CHANGE = [f"step of evolve: {name}" for name in install.STEPS]
NAMED = [f"{side} {name}" for name in STEPS for side in ("before", "after")] + CHANGE

SCRIPT = r"""
chunk: 4
pace: 3ms

== when "^say (\w+)"
text: said {{match.1}} and then a little more, so that it streams for a while

== when "^add (\w+)"
text: I add it.
tool: bash {"command": "echo {{match.1}} >> effects.txt; echo done-{{match.1}}"}

== when "^wait (\w+)"
text: I wait.
tool: bash {"command": "echo {{match.1}} >> effects.txt; sleep 61 & sleep 62; echo done-{{match.1}}"}

== when "^both (\w+)"
tool: bash {"command": "echo {{match.1}}a >> effects.txt; sleep 0.1"}
tool: bash {"command": "echo {{match.1}}b >> effects.txt"}

== when "^file (\w+)"
tool: write {"filePath": "files/{{match.1}}.txt", "content": "{{match.1}}"}

== when "^ask (\w+)"
tool: task {"description": "ask", "prompt": "say {{match.1}}", "subagent_type": "general"}

== when "^later (\w+)"
tool: task {"description": "ask", "prompt": "say {{match.1}}", "subagent_type": "general", "background": true}

== when "^grow (\w+)"
tool: evolve_hook_write {"hook": "bot.sh"}
arg: content <<END
#!/bin/sh
case $1 in
discover) echo '{"tools": [{"name": "t"}]}';;
esac
# version {{match.1}}
END

== when ""
text: all done
"""
KINDS = ("say", "say", "add", "add", "wait", "both", "file", "ask", "later")
BOT = """#!/bin/sh
case $1 in
discover) echo '{"tools": [{"name": "t"}]}';;
esac
# version 0"""


def armed(step: str, left: int) -> None:
    """End this process by SIGKILL when `step` comes for the `left`-th time."""

    def reached(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def told(name: str) -> None:
        reached(f"step of evolve: {name}")

    defaults = install.Installer.__init__.__kwdefaults__
    assert defaults is not None
    defaults["step"] = told
    for name, (module, path) in STEPS.items():
        if step.endswith(f" {name}"):
            *holders, last = path.split(".")
            holder = functools.reduce(getattr, holders, importlib.import_module(module))
            setattr(holder, last, _between(getattr(holder, last), name, reached))


def _between(function: Any, name: str, reached: Callable[[str], None]) -> Any:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            reached(f"before {name}")
            given = await function(*args, **kwargs)
            reached(f"after {name}")
            return given

        return wrapped

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        reached(f"before {name}")
        given = function(*args, **kwargs)
        reached(f"after {name}")
        return given

    return plain


class Program:
    """`instar` as a process, a fork of this one, which has imported it."""

    def __init__(
        self, arguments: list[str], cwd: Path, environment: Mapping[str, str], step: tuple[str, int] | None
    ) -> None:
        self.out, out = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(arguments, cwd, environment, step, out)
        os.close(out)
        self.printed = b""

    def line(self, pattern: str) -> str | None:
        """Wait for a line that matches; None when the program ends before."""
        until = time.monotonic() + PATIENCE
        while not (found := re.search(pattern.encode(), self.printed)):
            assert time.monotonic() < until, f"{pattern!r} was not printed: {self.printed!r}"
            if not self.read(0.5):
                return None
        return found[1].decode()

    def read(self, seconds: float) -> bool:
        """Read what is printed within `seconds`; False at the end."""
        if not select.select([self.out], [], [], seconds)[0]:
            return True
        data = os.read(self.out, 65536)
        self.printed += data
        return bool(data)

    def kill(self) -> int:
        """Kill it, and read the rest of what it printed; return its exit code."""
        os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        # A child of it may still hold the other end.
        while select.select([self.out], [], [], 0)[0] and (data := os.read(self.out, 65536)):
            self.printed += data
        os.close(self.out)
        return code


def _become(
    arguments: list[str],
    cwd: Path,
    environment: Mapping[str, str],
    step: tuple[str, int] | None,
    out: int,
) -> None:
    """Be `instar ARGUMENTS` in this fork, to its end."""
    code = 70
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        errors = os.open(Path(environment["HOME"]) / "stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        request = {"arguments": arguments, "cwd": str(cwd), "environment": dict(environment)}
        parent.become(request, [nothing, out, errors])
        if step is not None:
            armed(*step)
        runpy.run_module("instar", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
    finally:
        os._exit(code & 0xFF)


class Told:
    """What the client was told, and what it asked for."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.parts: dict[str, dict[str, Any]] = {}
        self.accepted: dict[str, str] = {}
        self.sent: dict[str, str] = {}

    def hear(self, stream: bytes) -> None:
        """Take the durable events out of a stream of server-sent events."""
        for line in stream.split(b"\n")[:-1]:
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if event.get("seq"):
                    self.events[event["id"]] = event

    def read(self, printed: bytes) -> str | None:
        """Take the parts out of what `instar run --format json` printed; return the session."""
        session = None
        for line in printed.split(b"\n")[:-1]:
            found = json.loads(line)
            session = found["sessionID"]
            if "part" in found:
                self.parts[found["part"]["id"]] = found["part"]
        return session


class Machine:
    """A home, a project and a database in which one program after the other is killed."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.project = folder, folder / "project"
        self.project.mkdir(parents=True)
        self.environment = {**clean_environment(folder / "home"), "INSTAR_TRUST": "all"}
        self.environment["INSTAR_SCRIPT"] = str(folder / "script.txt")
        (folder / "script.txt").write_text(SCRIPT)
        self.settings()
        self.evolves = chance.random() < 0.4
        if chance.random() < 0.5:
            self.git(self.project, "init", "-q")
        if self.evolves:
            self.workspace()
        self.told = Told()
        self.sessions: list[str] = []
        self.last: str | None = None
        self.killed: dict[str, float] = {}
        self.rounds = 0
        self.counts: Counter[str] = Counter()
        self.grown = ["0"]

    def settings(self) -> None:
        """The person's own settings: which model answers."""
        path = Path(self.environment["XDG_CONFIG_HOME"]) / "instar" / "instar.json"
        path.parent.mkdir(parents=True)
        path.write_text('{"model": "scripted/x"}')

    def workspace(self) -> None:
        """A workspace of evolve with one script, committed."""
        root = self.folder / "workspace"
        (root / "hooks").mkdir(parents=True)
        (root / "hooks" / "bot.sh").write_text(BOT)
        (root / "hooks" / "bot.sh").chmod(0o755)
        self.git(root, "init", "-q")
        self.git(root, "add", ".")
        self.git(root, "commit", "-q", "-m", "first")
        self.environment["INSTAR_WORKSPACE"] = str(root)

    def git(self, folder: Path, *words: str) -> str:
        """Run git in a folder; what it printed."""
        named = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words]
        done = subprocess.run(named, cwd=folder, env=self.environment, check=True, capture_output=True)
        return done.stdout.decode()

    @property
    def database(self) -> Path:
        """The file with the sessions."""
        return Path(self.environment["XDG_DATA_HOME"]) / "instar" / "instar.db"

    def errors(self) -> str:
        """What the programs printed on stderr."""
        return (self.folder / "home" / "stderr.txt").read_text()

    def start(self, name: str, arguments: list[str], step: tuple[str, int] | None) -> Program:
        """Start a program whose children can be known by the round's name."""
        self.killed[name] = time.monotonic()
        return Program(arguments, self.project, {**self.environment, MARK: f"{name};"}, step)

    def orphans(self) -> Iterator[str]:
        """Yield the processes of programs that were killed a while ago and that live on."""
        over = [name for name, started in self.killed.items() if started < time.monotonic() - SETTLED]
        marks = {f"{MARK}={name};".encode(): name for name in over if self.killed.pop(name)}
        for pid in pids():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                name = next((name for mark, name in marks.items() if mark in environment), None)
                if name is not None and not _ends(pid):
                    words = arguments(pid).replace(b"\0", b" ").decode()
                    os.kill(pid, signal.SIGKILL)
                    yield f"orphan: process {pid} of {name} lives on: {words}"

    def check(self) -> Iterator[str]:
        """Yield what of the database does not agree with what was told, or with itself."""
        if not self.database.exists():
            return
        address = f"file:{self.database}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=PATIENCE)) as store:
            store.execute("BEGIN")
            known = "SELECT count(*) FROM sqlite_master WHERE name = 'instar_follow_up'"
            if not self.told.events and store.execute(known).fetchone() == (0,):
                return  # killed before the tables were made
            if store.execute("PRAGMA quick_check").fetchone() != ("ok",):
                yield "unusable: the database is damaged"
            for session, count, most in store.execute(
                "SELECT aggregate_id, count(*), max(seq) FROM event GROUP BY aggregate_id"
            ):
                if count != most:
                    yield f"doubled or lost: {count} events of {session}, the last has the number {most}"
            yield from self._check_events(store)
            yield from self._check_prompts(store)

    def _check_events(self, store: sqlite3.Connection) -> Iterator[str]:
        stored: dict[str, Any] = {}
        versions = defaultdict[str, list[Any]](list)
        for key, *at, text in store.execute(
            "SELECT id, aggregate_id, seq, data FROM event ORDER BY aggregate_id, seq"
        ):
            data = json.loads(text)
            stored[key] = (*at, data)
            # Both tables have rows of what was said last of a message and of a part.
            what = data.get("part") or data.get("info")
            if what is not None:
                versions[what["id"]].append(_bare(what))
        for key, event in self.told.events.items():
            wanted = (event["properties"]["sessionID"], event["seq"], event["properties"])
            if stored.get(key) != wanted:
                yield f"lost: event {key} {event['type']} is stored as {str(stored.get(key))[:300]}"
        for part in self.told.parts.values():
            if _bare(part) not in versions[part["id"]]:
                yield f"lost: the part {part} was printed; its events: {versions[part['id']]}"
        rows = "SELECT id, data FROM part UNION ALL SELECT id, data FROM message"
        kept = {key: _bare(json.loads(text)) for key, text in store.execute(rows)}
        for key, known in versions.items():
            if not key.startswith("ses") and kept.get(key) != known[-1]:
                yield f"lost: {key} is {kept.get(key)}, its last event says {known[-1]}"
        yield from (f"doubled: {key} has no event" for key in kept.keys() - versions.keys())

    def _check_prompts(self, store: sqlite3.Connection) -> Iterator[str]:
        texts = Counter(
            json.loads(part).get("text")
            for part, message in store.execute(
                "SELECT part.data, message.data FROM part JOIN message ON message.id = part.message_id"
            )
            if json.loads(message)["role"] == "user"
        )
        texts.update(
            part.get("text")
            for (prompt,) in store.execute("SELECT prompt FROM instar_follow_up")
            for part in json.loads(prompt).get("parts", [])
        )
        for text in self.told.accepted:
            if not texts[text]:
                yield f"lost: the prompt {text!r} of {self.told.accepted[text]} was accepted"
        for text in self.told.sent:
            if texts[text] > 1:
                yield f"doubled: the prompt {text!r} is there {texts[text]} times"
        path = self.project / "effects.txt"
        effects = Counter(path.read_text().split() if path.exists() else [])
        yield from (
            f"doubled: the effect {name} is there {count} times"
            for name, count in effects.items()
            if count > 1
        )
        for event in self.told.events.values():
            state = event["properties"].get("part", {}).get("state", {})
            for name in re.findall(r"^done-(\w+)$", str(state.get("output")), re.MULTILINE):
                if state["status"] == "completed" and not effects[name]:
                    yield f"lost: the effect {name} of a call that ended"

    def check_workspace(self) -> Iterator[str]:
        """Yield what of the workspace is half done, once a server has started on it."""
        root = self.folder / "workspace"
        text = (root / "hooks" / "bot.sh").read_text()
        for event in self.told.events.values():
            state = event["properties"].get("part", {}).get("state", {})
            if state.get("status") == "completed" and str(state.get("output")).startswith(
                "Installed hooks/bot.sh"
            ):
                version = re.findall(r"# version (\w+)", state["input"]["content"])[0]
                self.grown = self.grown[self.grown.index(version) :] if version in self.grown else self.grown
        if text not in [BOT.replace("version 0", f"version {version}") for version in self.grown]:
            yield f"lost: hooks/bot.sh is none of the versions {self.grown}: {text!r}"
        if left := self.git(root, "status", "--porcelain"):
            yield f"unusable: the workspace has what is not committed: {left}"


def _ends(pid: int) -> bool:
    """Whether a process ends by itself: on a busy machine the guard that ends it is slow."""
    until = time.monotonic() + SLOW
    while lives(pid) and time.monotonic() < until:
        time.sleep(0.1)
    return not lives(pid)


def _bare(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in ("id", "sessionID", "messageID")}


class Served:
    """A client of one server."""

    def __init__(self, machine: Machine, program: Program, port: int) -> None:
        self._machine, self._program, self._port = machine, program, port
        self._stream = b""
        self._events = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._events.sendall(b"GET /instar/event HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request; what it is answered with. Raises `OSError` and `HTTPException` once it is killed."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            data = answer.read()
            if answer.status >= 300:
                raise AssertionError(
                    f"unusable: {method} {path} is answered with {answer.status} {data[:300]!r}"
                )
            return json.loads(data) if data else None

    def prompt(self, session: str, text: str) -> None:
        """Send a prompt, and note when it is accepted."""
        machine = self._machine
        machine.told.sent[text] = session
        machine.last = session
        self.ask("POST", f"/session/{session}/prompt_async", {"parts": [{"type": "text", "text": text}]})
        machine.told.accepted[text] = session

    def is_usable(self, name: str) -> Iterator[str]:
        """Yield why the last session is not usable."""
        session = self._machine.last
        if session is None:
            return
        text = f"say check{name}"
        self._machine.told.sent[text] = session
        body = {"parts": [{"type": "text", "text": text}]}
        answer = self.ask("POST", f"/session/{session}/message", body)
        # What the last turn had queued, such as the end of a task, is answered in the same turn.
        answers = [*self.ask("GET", f"/session/{session}/message?limit=6"), answer]
        said = "".join(part.get("text", "") for one in answers for part in one["parts"])
        if f"said check{name}" not in said:
            yield f"unusable: {session} answers {text!r} with {answer}"
        for message in self.ask("GET", f"/session/{session}/message"):
            for part in message["parts"]:
                if part.get("state", {}).get("status") in ("pending", "running"):
                    yield f"unusable: a call counts as running: {part}"

    def hear(self, seconds: float) -> None:
        """Read events for `seconds`, or until the server ends."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._events, self._program.out], [], [], left)
            if self._program.out in ready and not self._program.read(0):
                return
            if self._events in ready and not self._receive():
                return

    def close(self) -> None:
        """Read what the killed server has sent still."""
        while self._receive():
            pass
        self._events.close()
        self._machine.told.hear(self._stream)

    def _receive(self) -> bool:
        try:
            data = self._events.recv(1 << 18)
        except OSError:
            return False
        self._stream += data
        return bool(data)


class Round:
    """One start of a program and its kill; `findings` are what does not hold."""

    def __init__(self, machine: Machine, number: int, chance: random.Random) -> None:
        self.findings: list[str] = []
        self._machine, self._chance = machine, chance
        self._name = f"r{number}"
        self._step = None
        if chance.random() < 0.6:
            names = NAMED if machine.evolves else [one for one in NAMED if "evolve" not in one]
            step = chance.choice(names)
            self._step = step, 1 if "evolve" in step else chance.choice((1, 1, 2, 3, 5, 8))

    def play(self) -> None:
        """Start, work, kill, and look at what is left."""
        machine = self._machine
        play, how = (self._run, "run") if self._chance.random() < 0.35 else (self._serve, "serve")
        found = list(machine.orphans())
        code, is_by_step = play()
        found += machine.check()
        if code != -signal.SIGKILL:
            machine.counts["runs that ended before their kill"] += 1
            if how == "serve" or code:
                found.append(f"unusable: it ended by itself with {code}: {machine.errors()[-600:]}")
        else:
            machine.counts[f"kills of {how}"] += 1
            machine.counts["kills at a named step"] += is_by_step
            if is_by_step:
                machine.counts[f"at: {self._step[0]}"] += 1
        self.findings += [f"{one} (round {self._name}, {how}, {self._step})" for one in found]

    def _run(self) -> tuple[int, bool]:
        machine, chance = self._machine, self._chance
        last = machine.last if chance.random() < 0.5 else None
        text = self._text(self._name)
        machine.told.sent[text] = last or ""
        words = ["run", "--format", "json", *(["--session", last] if last else []), text]
        program = machine.start(self._name, words, self._step)
        until = time.monotonic() + (5.0 if self._step else chance.uniform(0.0, self._span()))
        ended = False
        while not ended and (left := until - time.monotonic()) > 0:
            ended = not program.read(left)
        code = program.kill()
        machine.last = machine.told.read(program.printed) or machine.last
        return code, ended

    def _serve(self) -> tuple[int, bool]:
        machine, chance = self._machine, self._chance
        program = machine.start(self._name, ["serve", "--port", "0", "--no-auth"], self._step)
        served = None
        ended = False
        try:
            if chance.random() < 0.1:
                until = time.monotonic() + chance.uniform(0.0, 0.4)
                while not ended and (left := until - time.monotonic()) > 0:
                    ended = not program.read(left)
            elif port := program.line(r"listening on http://127.0.0.1:(\d+)"):
                served = Served(machine, program, int(port))
                self._work(served)
        except (OSError, http.client.HTTPException):
            ended = True
        ended = ended or not program.read(0)
        code = program.kill()
        if served is not None:
            served.close()
        return code, ended

    def _work(self, served: Served) -> None:
        machine, chance = self._machine, self._chance
        self.findings += served.is_usable(self._name)
        if machine.evolves:
            self.findings += machine.check_workspace()
        for letter in "ab"[: chance.choice((1, 1, 2))]:
            session = machine.last if chance.random() < 0.5 else None
            session = session or served.ask("POST", "/session", {})["id"]
            served.prompt(session, self._text(f"{self._name}{letter}"))
        served.hear(
            (4.0 if self._is_of_evolve() else 1.5) if self._step else chance.uniform(0.0, self._span())
        )

    def _text(self, name: str) -> str:
        kind = self._chance.choice((*KINDS, *("grow",) * 4) if self._machine.evolves else KINDS)
        if kind == "grow" or self._is_of_evolve():
            kind = "grow"
            self._machine.grown.append(name)
        return f"{kind} {name}"

    def _is_of_evolve(self) -> bool:
        return self._step is not None and "evolve" in self._step[0]

    def _span(self) -> float:
        """Seconds within which most kinds of work are done; those of evolve last longer."""
        return 1.5 if self._machine.evolves else 0.6


def play(campaign: Campaign, folder: Path) -> None:
    """Play rounds on one machine after the other."""
    machine: Machine | None = None
    for number in campaign.numbers():
        chance = campaign.chance(number)
        if machine is None or machine.rounds == LIFE:
            if machine is not None:
                _leave(campaign, machine)
            machine = Machine(folder / f"m{number}", chance)
        machine.rounds += 1
        played = Round(machine, number, chance)
        try:
            played.play()
        except AssertionError as error:
            played.findings.append(f"{error} (round {number})")
        campaign.counts.update(machine.counts)
        machine.counts.clear()
        for text in played.findings:
            campaign.find(text)
        if played.findings:
            # What was found once would be found in each later round.
            _leave(campaign, machine)
            machine = None
    if machine is not None:
        _leave(campaign, machine)


def _leave(campaign: Campaign, machine: Machine) -> None:
    """Look once more at what is left of a machine, and remove it."""
    time.sleep(SETTLED)
    for text in machine.orphans():
        campaign.find(text)
    told = machine.told
    kept = [event["properties"] for event in told.events.values()]
    parts = {one["part"]["id"] for one in kept if "part" in one} | told.parts.keys()
    messages = {one["info"]["id"] for one in kept if one.get("info", {}).get("role")}
    campaign.counts["events told"] += len(told.events)
    campaign.counts["parts told"] += len(parts)
    campaign.counts["messages told"] += len(messages)
    campaign.counts["prompts accepted"] += len(told.accepted)
    shutil.rmtree(machine.folder)


def main(arguments: list[str] | None = None) -> int:
    """Play the campaign; the exit code."""
    campaign, options = given("kills", arguments, count=2000)
    parent.import_all()
    gc.freeze()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        play(campaign, Path(folder))
    return campaign.end(options.json)


if __name__ == "__main__":
    sys.exit(main())
