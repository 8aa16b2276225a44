"""A workspace at work, as the campaign of the gate meets it, and what must be so after each candidate."""

import asyncio
import contextlib
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from tests.campaign import bot as bots
from tests.campaign.bad import Bad
from tests.campaign.bot import FILE, Bot
from tests.campaign.good import Good
from tests.campaign.snippets import Case, Lures
from tests.running import arguments, pids

from instar.plugin import Means, Project, ToolFailure
from instar.plugins.evolve import settings, tools
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.ledger.own import Unkept
from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths

CALLS = 8
"""Calls for which a version is on probation here; one failure more than `FAILURES` takes it back."""
FAILURES = 1
TIMEOUT_MS = 4000
PATIENCE = 20.0
"""Seconds in which what was ended must be gone."""
_STAGE = re.compile(r"\(refused at the stage (\w+)\)")


class Wrong(Exception):
    """Something is not as it must be; the text says what."""


class Round(msgspec.Struct, frozen=True):
    """What a world is made of: which test, whether there is an eval, whether files may be created, which level."""

    test: str = "bash"
    scored: bool = True
    create: bool = False
    level: str = "bubblewrap"


class Caller:
    """What a running tool is given."""

    session_id, message_id, call_id, agent = "ses_1", "msg_1", "call_1", "build"

    def __init__(self) -> None:
        self.abort = asyncio.Event()


class World:
    """A workspace with a bot in it, an engine on it, and lures around it."""

    def __init__(self, folder: Path, made: Round, processes: Processes, lures: Lures) -> None:
        self.root, self.lures = lures.root, lures
        self._folder, self._made = folder, made
        self.bot = Bot("bot_test.sh" if made.test == "bash" else "bot_test.py")
        self.prompts: Mapping[str, str] = dict(bots.PROMPTS)
        self._processes = processes
        environment = {**os.environ, "HOME": str(lures.home), "XDG_DATA_HOME": str(lures.data.parents[2])}
        self._environment = environment
        paths = Paths.from_environment(environment)
        level: Any = made.level
        self._children = Children(processes, paths, environment, at_most=level)
        config = {
            "probation_calls": CALLS,
            "probation_failures": FAILURES,
            "replay_records": 2,
            "create": "allow" if made.create else "deny",
        }
        means = Means(
            children=self._children,
            processes=processes,
            kv=Unkept(),
            data=lures.data,
            config={"evolve": config},
            environment=environment,
            messages=_no_messages,
            halted=lambda: 0,
            resume=lambda: None,
            project=Project("global", Path("/"), self.root),
            directory=self.root,
            trusted=lambda _folder: True,
            origins={},
        )
        self._write()
        self.engine = EvolveEngine(means, self.root, processes, _heard, self._refresh)
        self.heard = 0

    # -- its life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin, and let a session pass, which leaves records."""
        self.engine.policy.begin()
        level = await self._children.level()
        if level.name != self._made.level:
            raise Wrong(f"this machine has no {self._made.level}: {level.missing}")
        await self.engine.open()
        self.engine.policy.take(settings.load(self.engine.real.config, self._environment).settings)
        await self._refresh()
        self._tools = tools.build(self.engine, [], [])
        await self.session("first")
        await self.session("second")

    async def session(self, said: str) -> None:
        """Let the hooks of a session be called."""
        for hook, fields in bots.inputs(said):
            await self.engine.scripts.call_all(hook, fields)

    async def close(self) -> None:
        """End it."""
        await self.engine.close()

    def case(self, chance: Any) -> Case:
        """Return what a generator of bad candidates is given."""
        return Case(chance, self.bot, self.prompts, self.lures)

    # -- candidates ------------------------------------------------------------------------------------

    async def good(self, one: Good) -> str:
        """Let a good candidate go live. Raises `Wrong` where it does not."""
        before = await self._head()
        try:
            await self._use(one.tool, one.args)
        except ToolFailure as error:
            raise Wrong(f"it was not installed: {error}") from None
        if one.bot.text() != self._live() or any(
            self._text(f"prompts/{p}") != t for p, t in one.prompts.items()
        ):
            raise Wrong("what is live is not what was proposed")
        if await self._head() == before or await self._git("status", "--porcelain"):
            raise Wrong("it was not committed")
        self.bot, self.prompts = one.bot, one.prompts
        await self.session("bell")
        if self.engine.problems or self.engine.scripts.problems or self.engine.observer.owed():
            owed = [one.why for one in self.engine.observer.owed()]
            raise Wrong(f"it has problems: {self.engine.problems + self.engine.scripts.problems + owed}")
        return "installed"

    async def bad(self, one: Bad) -> str:
        """Propose a bad candidate; return how it ended. Raises `Wrong` where something is not as it was."""
        if one.ends == "taken back":
            await self._settled()
        before, running = self._whole(), self._running()
        started = await self._head()
        try:
            await self._use(one.tool, one.args)
        except ToolFailure as error:
            said = str(error)
        else:
            if one.ends != "taken back":
                raise Wrong(f"it went live:\n{str(one.args)[-3000:]}")
            return await self._taken_back(started)
        changed = [path for path, _ in before.items() ^ self._whole().items()]
        if changed:
            raise Wrong(f"after the refusal {', '.join(sorted(changed))} was changed")
        await self._gone(running)
        stage = _STAGE.search(said)
        how = "waits" if "It waits for a person as" in said else stage[1] if stage else "not changed"
        if (one.ends == "waits") != (how == "waits"):
            raise Wrong(f"it ended otherwise than meant: {said}")
        return how

    async def _taken_back(self, before: str) -> str:
        """Let a version that went live show what it is; it must not stay."""
        await self._refresh()
        guarded = self._guarded()
        for _ in range(CALLS // len(bots.RECORDED)):
            await self.session("later")
            if self.engine.observer.owed():
                break
        said = await self.engine.rollback.settle()
        if self._live() != self.bot.text():
            raise Wrong(f"it stayed: {said}")
        if await self._git("diff", "--name-only", before, "HEAD") or await self._git("status", "--porcelain"):
            raise Wrong("the workspace is not what it was before")
        if guarded.keys() != self._guarded().keys() or self.engine.problems:
            raise Wrong(f"guarded files were changed: {self.engine.problems}")
        await self._gone(None)
        await self.engine.evolution.thaw()
        await self._refresh()
        return "taken back"

    async def _settled(self) -> None:
        """Let what is live pass its probation."""
        for _ in range(6):
            if self.engine.observer.describe(f"hooks/{FILE}") is None:
                return
            await self.session("bell")
        raise Wrong(f"a good version stays on probation: {self.engine.observer.describe(f'hooks/{FILE}')}")

    async def _use(self, tool: str, args: Mapping[str, Any]) -> None:
        caller: Any = Caller()
        await self._tools[f"evolve_{tool}"].execute(dict(args), caller)

    # -- what is so ------------------------------------------------------------------------------------

    def _whole(self) -> dict[str, str]:
        """Everything that a refusal may not change: the workspace with git's folder, the home, what lies outside."""
        found = {**snapshot(self.root), **snapshot(self.lures.home), **snapshot(self.lures.outside)}
        found |= {str(path): "made" for path in self.lures.data.rglob("*") if self.lures.mark in path.name}
        granted = self.engine.storage.database.rows("SELECT * FROM granted ORDER BY script")
        found |= {"grants": str(granted)}
        beside = {"ws", "home", "outside", "data", "tmp", "agent.sock"}
        found |= {str(path): "beside" for path in self._folder.iterdir() if path.name not in beside}
        return found | {"connections": str(self.heard)}

    def _guarded(self) -> dict[str, str]:
        return {path: said for path, said in snapshot(self.root).items() if "/.git/" not in path}

    async def _gone(self, before: set[int] | None) -> None:
        """Wait until nothing is left of what a candidate started, and of its copies."""
        for _ in range(int(PATIENCE / 0.02)):
            left = sorted(self._running() - (before or set()))
            names = [
                name
                for pid in left
                if (name := _argv(pid))
                and "instar/process/launcher.py" not in name
                and (before is not None or "zygote" not in name)
            ]
            copies = list((self._folder / "tmp").iterdir())
            if not names and not copies and not _marked(self.lures.mark):
                return
            await asyncio.sleep(0.02)
        raise Wrong(f"left behind: {names[:5]} {copies[:5]} {_marked(self.lures.mark)[:5]}")

    def _running(self) -> set[int]:
        """The processes that were started for this workspace."""
        word, own = str(self.root).encode(), os.getpid()
        found = set()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if word in path.read_bytes() and int(path.parts[2]) != own:
                    found.add(int(path.parts[2]))
        return found

    def _live(self) -> str:
        return self._text(f"hooks/{FILE}")

    def _text(self, path: str) -> str:
        return (self.root / path).read_text()

    async def _head(self) -> str:
        return await self._git("rev-parse", "HEAD")

    async def _git(self, *args: str) -> str:
        output = await self._processes.run(["git", *args], cwd=self.root, env=self._environment)
        return output.stdout.decode().strip()

    async def _refresh(self) -> None:
        await self.engine.scripts.refresh()

    def _write(self) -> None:
        suffix = self.bot.test.rpartition(".")[2]
        files = {f"prompts/{name}": (text, 0o644) for name, text in self.prompts.items()}
        files[f"hooks/{FILE}"] = self.bot.text(), 0o755
        files["hooks/other.sh"] = bots.OTHER, 0o755
        files[f"tests/bot_test.{suffix}"] = bots.TESTS[self._made.test], 0o755
        files["config/evolve.jsonc"] = json.dumps({"hook_timeout": TIMEOUT_MS, "heartbeat_ms": 0}), 0o644
        if self._made.scored:
            files["evals/words.sh"] = bots.EVAL, 0o755
        for path, (text, mode) in files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(mode)


@contextlib.asynccontextmanager
async def world(folder: Path, made: Round, mark: str) -> AsyncIterator[World]:
    """Make a world below `folder` and begin; its servers hear whoever calls."""
    root, home, outside = folder / "ws", folder / "home", folder / "outside"
    for one in (root, home / ".ssh", outside, folder / "tmp", folder / "data"):
        one.mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n")
    (home / ".bashrc").write_text("# Ada's\n")
    (home / ".ssh" / "id").write_text("secret\n")
    (outside / "precious").write_text("precious\n")
    heard: list[World] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard[0].heard += 1
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0, family=socket.AF_INET)
    local = await asyncio.start_unix_server(hear, home / "agent.sock")
    data = folder / "data" / "instar" / "plugins" / "evolve"
    port = server.sockets[0].getsockname()[1]
    processes = Processes()
    with _temporary(folder / "tmp", home):
        one = World(
            folder, made, processes, Lures(root, home, outside, data, home / "agent.sock", port, mark)
        )
        heard.append(one)
        try:
            await one.start()
            yield one
        finally:
            await one.close()
            await processes.close()
            server.close()
            local.close()


@contextlib.contextmanager
def _temporary(folder: Path, home: Path) -> Any:
    """Let copies be made in `folder`, so that it can be seen whether they are removed."""
    import tempfile

    kept = tempfile.tempdir
    names = {
        "TMPDIR": str(folder),
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "XDG_CONFIG_HOME": str(home / ".config"),
    }
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = kept
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def snapshot(folder: Path) -> dict[str, str]:
    """Return every entry below `folder` with its kind, permission bits and a hash of its content."""
    found = {}
    for above, folders, files in os.walk(folder):
        for name in folders + files:
            path = f"{above}/{name}"
            info = os.lstat(path)
            said = oct(info.st_mode)
            if os.path.islink(path):
                said += f" to {os.readlink(path)}"
            elif os.path.isfile(path):
                said += f" {sha256(Path(path).read_bytes()).hexdigest()}"
            found[path] = said
    return found


def _argv(pid: int) -> str:
    return arguments(pid).replace(b"\0", b" ").decode(errors="replace")[:300]


def _marked(mark: str) -> list[str]:
    """The processes that have the mark in their arguments."""
    return [said for pid in pids() if mark in (said := _argv(pid)).split()]


async def _heard(properties: Any) -> None:
    """Nobody listens."""


async def _no_messages(session_id: str) -> Any:
    return []
