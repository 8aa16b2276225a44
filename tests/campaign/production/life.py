"""The life of a workspace of production size: turns, heartbeats, evolutions in one instar, and what must be so after.

The workspace is `ws` beside this file: a script of 1,500 lines with forty tools. The model is the scripted one; the
heart beats by ``instar heartbeat now``.
"""

import asyncio
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from tests.e2e.conftest import Door, Person

from instar.message import Assistant, ToolPart
from instar.plugin import SessionBody

WORKSPACE = Path(__file__).parent / "ws"
MEMORY = 64 << 20
"""Bytes by which the process may grow after its first ten turns."""
_AFTER = 10


class Wrong(Exception):
    """Something is not as it must be; the text says what."""


class Span(msgspec.Struct, frozen=True):
    """How much a workspace lives through. A session has `each` turns."""

    turns: int = 50
    beats: int = 20
    evolutions: int = 10
    each: int = 10


class Life:
    """A workspace at work."""

    def __init__(self, person: Person, span: Span) -> None:
        self.person, self.span = person, span
        self.sessions: list[str] = []
        self.installed: list[str] = []
        self._greeting = "Hello."
        self._extra: list[str] = []
        self._memory = 0
        self._taken = Counter[str]()

    async def live(self) -> dict[str, int]:
        """Live; return numbers for whoever looks on. Raises `Wrong`."""
        shutil.copytree(WORKSPACE, self.person.root, dirs_exist_ok=True)
        self.person.config(evolve={"replay_records": 4, "replay_seconds": 1, "probation_calls": 10})
        self.person.tell(_story(""))
        door = await self.person.open()
        turns = self.span.turns
        for number in range(turns):
            if number % self.span.each == 0:
                await self._begin(door)
            await self._turn(door, number)
            for _ in range(_share(number, turns, self.span.evolutions)):
                await self._evolve(door, len(self.installed))
            for _ in range(_share(number, turns, self.span.beats)):
                await self._beat()
            if number == _AFTER:
                self._memory = _resident()
        grown = _resident() - self._memory if self._memory else 0
        if grown > MEMORY:
            raise Wrong(f"the process grew by {grown >> 20} MiB after its first {_AFTER} turns")
        await self._last(door)
        found = await self._judge(door)
        return {**found, "memory grown by": grown}

    # -- what happens ----------------------------------------------------------------------------------

    async def _begin(self, door: Door) -> None:
        made = await door.runtime.session.create(SessionBody(title=f"session {len(self.sessions)}"))
        self.sessions.append(made.id)

    async def _turn(self, door: Door, number: int) -> None:
        calls = [*_calls(number), *((f"persona_{name}", {}) for name in self._extra[-1:])]
        await self._say(door, f"turn {number}", calls, f"TODO: look after plant {number}")

    async def _evolve(self, door: Door, number: int) -> None:
        """Change the script or a prompt; before that try a change that must be refused."""
        bad = {"hook": "persona.py", "oldString": "def main():", "newString": "def main(:"}
        said = await self._say(door, f"spoil {number}", [("evolve_hook_edit", bad)], "no")
        if "refused" not in said[-1]:
            raise Wrong(f"a change that breaks the script was not refused: {said}")
        tool, args = self._change(number)
        said = await self._say(door, f"evolve {number}", [(tool, args)], "yes")
        if "(commit " not in said[-1]:
            raise Wrong(f"evolution {number} was not installed: {said}")
        self.installed.append(f"{tool} {next(iter(args.values()))}")

    def _change(self, number: int) -> tuple[str, dict[str, Any]]:
        if number % 3 == 0:
            before, self._greeting = self._greeting, f"Hello, {number}."
            old, new = f'GREETING = "{before}"', f'GREETING = "{self._greeting}"'
            return "evolve_hook_edit", {"hook": "persona.py", "oldString": old, "newString": new}
        if number % 3 == 1:
            new = f"Answer briefly ({number}). "
            old = "Answer briefly. " if number == 1 else f"Answer briefly ({number - 3}). "
            return "evolve_prompt_edit", {"prompt": "chat.md", "oldString": old, "newString": new}
        name = f"extra_{number}"
        self._extra.append(name)
        head = "@hook\ndef discover(ctx):"
        body = f'@tool("Say {number}.")\ndef {name}(args):\n    return "extra {number}"\n\n\n'
        return "evolve_hook_edit", {"hook": "persona.py", "oldString": head, "newString": body + head}

    async def _beat(self) -> None:
        command = [sys.executable, "-m", "instar", "heartbeat", "now", "--json"]
        child = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.person.project,
            env=self.person.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await child.communicate()
        if child.returncode:
            raise Wrong(f"a heartbeat failed: {out.decode()}{err.decode()}")

    async def _last(self, door: Door) -> None:
        """Sum a session up, and use every tool once more that was not used yet."""
        await door.runtime.session.summarize(self.sessions[0])
        rest = [
            ("persona_trait_move", {"old_trait": "KIND6", "new_trait": "KINDER"}),
            ("persona_trait_delete", {"trait": "KINDER"}),
            ("persona_note_delete", {"name": "topic-0"}),
            ("persona_task_edit", {"id": 1, "priority": "high"}),
            ("persona_task_done", {"id": 1, "how": "well"}),
            ("persona_task_drop", {"id": 2}),
            ("persona_reminder_done", {"id": 1}),
            ("persona_habit_check", {"id": 1}),
            ("persona_note_read", {"name": "topic-0"}),
        ]
        rest.insert(2, rest.pop())
        for number, call in enumerate(rest):
            await self._say(door, f"last {number}", [call], "done")

    async def _say(
        self, door: Door, prompt: str, calls: list[tuple[str, dict[str, Any]]], answer: str
    ) -> list[str]:
        """Prompt the newest session; the model makes these calls one after another. Return what it read of them."""
        session = self.sessions[-1]
        # A session's answers take the script's turns in their order.
        self.person.tell(_story("== turn\ntext: -\n" * self._taken[session] + _section(calls, answer)))
        self._taken[session] += len(calls) + 1
        before = len(await door.calls(session))
        await door.ask(session, prompt)
        made = (await door.calls(session))[before:]
        if len(made) != len(calls):
            raise Wrong(f"{prompt}: {len(made)} calls were made of {len(calls)}")
        return [getattr(part.state, "output", None) or getattr(part.state, "error", "") for part in made]

    # -- what must be so -------------------------------------------------------------------------------

    async def _judge(self, door: Door) -> dict[str, int]:
        person = self.person
        if person.git("status", "--porcelain"):
            raise Wrong(f"not all is committed:\n{person.git('status', '--porcelain')}")
        commits = person.git("log", "--format=%x00%s%n%b").split("\0")[1:]
        await self._commits(door, commits)
        beats = [one for one in commits if one.startswith("heartbeat")]
        if len(beats) != self.span.beats:
            raise Wrong(f"{len(beats)} heartbeats were committed of {self.span.beats}")
        said = person.instar("evolve", "status").stdout
        if re.search(r"^problem", said, re.M):
            raise Wrong(f"there are problems:\n{said}")
        await self._tools(door)
        calls = await self._usage(door)
        return {"commits": len(commits), "model calls": calls, "sessions": len(self.sessions)}

    async def _commits(self, door: Door, commits: list[str]) -> None:
        """Each evolution, and each call that changed something, is one commit that names session and call."""
        installed = [one.partition("\n")[0] for one in commits if one.startswith("evolve_")]
        if Counter(installed) != Counter(self.installed):
            raise Wrong(f"installed were {self.installed}, committed {installed}")
        for session in self.sessions:
            for part in await door.calls(session):
                metadata = getattr(part.state, "metadata", None) or {}
                if metadata.get("commit"):
                    wanted = f"Session: {session}\nCall: {part.call_id}\n"
                    if sum(wanted in f"{one}\n" for one in commits) != 1:
                        raise Wrong(f"{part.tool} {part.call_id} of {session} is not one commit")

    async def _tools(self, door: Door) -> None:
        """Every tool of the script was used and worked."""
        used = Counter[str]()
        for session in self.sessions:
            for part in await door.calls(session):
                if part.tool.startswith("persona_"):
                    self._worked(part)
                    used[part.tool] += 1
        offered = {name for name in self.person.tools() if name.startswith("persona_")}
        if offered - used.keys():
            raise Wrong(f"never used: {', '.join(sorted(offered - used.keys()))}")

    def _worked(self, part: ToolPart) -> None:
        if part.state.__struct_config__.tag != "completed":
            raise Wrong(f"{part.tool} failed: {part.state}")

    async def _usage(self, door: Door) -> int:
        """What was booked is what the answers say."""
        store = door.runtime.instance.store
        booked = await store.usage()
        listed = await door.runtime.session.list()
        told = 0
        for session in listed:
            for message in await door.history(session.id):
                if isinstance(message.info, Assistant):
                    told += message.info.tokens.input + message.info.tokens.output
        spent = sum(one.tokens.input + one.tokens.output for one in booked)
        if told != spent:
            raise Wrong(f"answers say {told} tokens, booked are {spent}")
        causes = Counter(one.origin for one in booked)
        if causes["heartbeat"] < self.span.beats:
            raise Wrong(f"booked by origin: {dict(causes)}")
        return len(booked)


def _share(number: int, turns: int, things: int) -> int:
    """How many of some things come after a turn, spread evenly over all turns."""
    return (number + 1) * things // turns - number * things // turns


def _calls(number: int) -> list[tuple[str, dict[str, Any]]]:
    """What the model does in a turn."""
    n = number
    kinds: list[list[tuple[str, dict[str, Any]]]] = [
        [
            (
                "note_write",
                {"name": f"topic-{n}", "content": f"# Topic {n}\n\nSee [[topic-0]]. Water the plant."},
            ),
            ("note_append", {"name": f"topic-{n}", "content": f"More on {n}."}),
            ("note_links", {"name": f"topic-{n}"}),
        ],
        [("task_add", {"title": f"Task {n}", "due": "tomorrow", "tags": ["home"]}), ("task_list", {})],
        [
            ("person_add", {"name": f"Ada the {n}th", "birthday": "12-10"}),
            ("person_note", {"name": f"Ada the {n}th", "text": "likes engines"}),
            ("person_find", {"name": f"Ada the {n}th"}),
            ("person_list", {}),
        ],
        [("journal_write", {"text": f"watered plant {n}", "mood": "calm"}), ("journal_read", {})],
        [("reminder_add", {"text": f"call {n}", "day": "friday", "every": "week"}), ("reminder_list", {})],
        [("mood_set", {"mood": "curious", "why": f"turn {n}"}), ("mood_history", {}), ("status", {})],
        [("trait_write", {"trait": f"KIND{n}", "content": f"# Kind\n\nI am kind, {n}."}), ("trait_list", {})],
        [
            ("data_update", {"file": "plants", "values": {f"p{n}": n}}),
            ("data_read", {"file": "plants"}),
            ("trait_read", {"trait": "SOUL"}),
        ],
        [("habit_add", {"name": f"walk {n}"}), ("habit_list", {}), ("day_plan", {}), ("timeline", {})],
        [
            ("recall", {"words": "plant"}),
            ("note_search", {"words": "water"}),
            ("note_list", {}),
            ("journal_search", {"words": "watered"}),
            ("journal_summary", {}),
        ],
    ]
    return [(f"persona_{name}", args) for name, args in kinds[n % len(kinds)]]


def _section(calls: list[tuple[str, dict[str, Any]]], answer: str) -> str:
    """Answers to a prompt: a call at a time, then a text."""
    turns = [f"tool: {name} {json.dumps(args)}" for name, args in calls]
    return "".join(f"== turn\n{one}\n" for one in turns) + f"== turn\ntext: {answer}\n"


def _story(turns: str) -> str:
    return f'== when "\\[heartbeat\\]"\ntext: All is quiet.\n{turns}'


def _resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
