"""The plugin `lsp`: what language servers find in the files that tools write. Names and texts are opencode's.

The setting `lsp` is true, or a map of servers by name: `disabled`, `command`, `extensions`, `env`, `initialization`.
A server is started with the first such file and ended with the instance. One that ends before costs its diagnostics.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import Hooks, PluginInput, Value, View, document, event, points, wire
from instar.plugins.files.connection import MOST_FILES, Diagnostic, LspConnection, LspError
from instar.plugins.files.programs import Programs
from instar.plugins.files.servers import SERVERS, LanguageServer, language

log = logging.getLogger("instar.lsp")

id = "lsp"  # noqa: A001 - the name that a V1 plugin module must export

PATIENCE: Final = 5.0
"""Seconds that a call waits for what a server finds in its file."""
FIRST: Final = 15.0
"""Seconds that a call waits for a server to start, which goes on behind that, and for what it finds at first."""
SHOWN: Final = 20
"""Errors of one file that the model reads."""
OTHERS: Final = 5
"""Other files whose errors it reads after a `write`."""
LARGEST: Final = 2 << 20
"""Bytes of a file that is shown to servers."""
_TOGETHER: Final = 0.1
"""Seconds within which several reports on one file are one event."""
_ERROR: Final = 1
_NONE: Final = LanguageServer((), ())


def configured(setting: Any) -> dict[str, LanguageServer]:
    """Return the servers that the setting leaves, by name: the table's with what it says of them, and its own."""
    found = dict(SERVERS)
    for name, one in (setting if isinstance(setting, dict) else {}).items():
        base = found.pop(name, _NONE)
        more: dict[str, Any] = {}
        if one.get("command"):
            more = {"commands": [one["command"]], "own": True}
        if one.get("extensions") is not None:
            more["extensions"] = one["extensions"]
        if one.get("initialization") is not None:
            more["initialization"] = _said(one["initialization"])
        changed = msgspec.structs.replace(base, environment=one.get("env") or {}, **more)
        if not one.get("disabled") and changed.commands:
            found[name] = changed
    return found


def _said(initialization: wire.Plain) -> Any:
    return lambda programs, root: initialization


async def server(input: PluginInput, options: wire.Plain | None = None) -> Hooks:  # noqa: A002 - opencode's name
    """Tell what language servers find, where the setting `lsp` switches it on."""
    if (setting := input.config.get(id)) in (None, False):
        input.registry.stands_idle(f"the setting {id} does not switch it on")
        return {}
    servers = LanguageServers(input, configured(setting))
    view = {"status": Value(doc="Those that were started.", read=lambda session_id: servers.status())}
    input.registry.add_view(View(id, "The language servers.", view))
    # It waits for servers as long as it says itself.
    return {"files.written": servers.written, "dispose": servers.close, "timeout": None}


class LanguageServers:
    """The servers of one instance: one for each name and folder."""

    def __init__(self, given: PluginInput, servers: dict[str, LanguageServer]) -> None:
        self._client = given.client
        self._programs = Programs(given)
        self._servers = servers
        self._starts: dict[tuple[str, Path], asyncio.Task[LspConnection | None]] = {}
        self._lost: set[tuple[str, Path]] = set()
        self._updated: dict[tuple[str, str], None] = {}
        self._due = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None
        self._closing = False

    def status(self) -> list[wire.Plain]:
        """Return the servers that were started, as opencode lists them: one that ended is an error."""
        here = str(self._programs.directory)
        return [
            {
                "id": name,
                "name": name,
                "root": "" if str(root) == here else os.path.relpath(root, here),
                "status": "error" if (name, root) in self._lost else "connected",
            }
            for (name, root), start in self._starts.items()
            if start.done()
        ]

    async def written(self, given: points.FilesWrittenInput, output: points.FilesWrittenOutput) -> None:
        """Add what is wrong in the files to what the model reads, and to the metadata."""
        files = [Path(file) for file in given.files]
        lookers = await asyncio.gather(*(self._look(file) for file in files))
        around = {one for found in lookers for one in found}
        known = {file: _together(file, around) for file in files if around}
        notes = [f"LSP errors detected in this file, please fix:\n{text}" for text in _reports(known)]
        if given.tool == "write":
            others = {
                file: _together(file, around)
                for one in around
                for file in (*one.pushed, *one.pulled)
                if file not in known and file.is_relative_to(self._programs.root)
            }
            reports = [f"LSP errors detected in other files:\n{text}" for text in _reports(others)]
            notes += reports[:OTHERS]
            known |= others
        if around:
            output.notes += notes
            output.metadata["diagnostics"] = {
                str(file): msgspec.to_builtins(found) for file, found in known.items() if found
            }

    async def close(self) -> None:
        """End every server."""
        self._closing = True
        if self._telling is not None:
            self._telling.cancel()
        for start in self._starts.values():
            if not start.done():
                start.cancel()
        started = await asyncio.gather(*self._starts.values(), return_exceptions=True)
        await asyncio.gather(*(one.close() for one in started if isinstance(one, LspConnection)))

    async def _look(self, file: Path) -> list[LspConnection]:
        """Let the servers of a file look at it; return those that could."""
        text = await asyncio.to_thread(_text, file)
        if text is None or not file.is_relative_to(self._programs.root):
            return []
        before = len(self._starts)
        starts = [start for name, one in self._servers.items() if (start := self._started(name, one, file))]
        if not starts:
            return []
        done, _ = await asyncio.wait(starts, timeout=FIRST if len(self._starts) > before else PATIENCE)
        there = [one for start in done if (one := start.result()) is not None and not one.lost.done()]
        looks = (one.look(file, text, language(file), PATIENCE if one.looked else FIRST) for one in there)
        await asyncio.gather(*looks)
        return there

    def _started(
        self, name: str, server: LanguageServer, file: Path
    ) -> "asyncio.Task[LspConnection | None] | None":
        """Start the server for a file, once in its folder; None where it is for other files, or not there."""
        if server.extensions and not self._programs.concerns(file, server.extensions):
            return None
        root = server.root(self._programs, file)
        if root is None:
            return None
        if (name, root) not in self._starts and (words := server.words(self._programs)) is not None:
            self._starts[name, root] = asyncio.create_task(self._start(name, server, root, words))
        return self._starts.get((name, root))

    async def _start(
        self, name: str, server: LanguageServer, root: Path, words: list[str]
    ) -> LspConnection | None:
        connection = LspConnection(name, root, lambda file: self._update(name, str(file)))
        environment = self._programs.environment(server.environment)
        settings = server.initialization(self._programs, root)
        try:
            await connection.start(words, self._programs.children, environment, settings)
        except LspError as error:
            self._lose(name, root, str(error))
            return None
        connection.lost.add_done_callback(lambda lost: self._lose(name, root, lost.result()))
        self._update(name, "")
        return connection

    def _lose(self, name: str, root: Path, why: str) -> None:
        if not self._closing:
            log.warning("lsp=lost name=%s root=%s reason=%s", name, root, why)
            self._lost.add((name, root))
            self._update(name, "")

    def _update(self, name: str, file: str) -> None:
        """Publish soon that a server has news of a file; without one, of itself."""
        if len(self._updated) < MOST_FILES:
            self._updated[name, file] = None
        self._due.set()
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        while await self._due.wait():
            await asyncio.sleep(_TOGETHER)
            updated, self._updated = self._updated, {}
            self._due.clear()
            for name, file in updated:
                about = {"server_id": name, "path": file} if file else {}
                await self._client.publish(event.make(event.LspUpdated(**about)))


def _text(file: Path) -> str | None:
    """The text of a file; None for one that is gone, or too large to be shown."""
    try:
        with document.open_regular(file) as opened:
            data = opened.read(LARGEST + 1)
    except OSError:
        return None
    return data.decode(errors="replace") if len(data) <= LARGEST else None


def _together(file: Path, servers: Iterable[LspConnection]) -> list[Diagnostic]:
    return list(dict.fromkeys(found for one in servers for found in one.found(file)))


def _reports(known: Mapping[Path, Sequence[Diagnostic]]) -> Iterator[str]:
    """Yield what the model reads of files with errors, a text for each."""
    for file, found in known.items():
        errors = [one for one in found if one.severity == _ERROR]
        lines = [
            f"ERROR [{one.range.start.line + 1}:{one.range.start.character + 1}] {one.message}"
            for one in errors[:SHOWN]
        ]
        more = [f"... and {len(errors) - SHOWN} more"] if len(errors) > SHOWN else []
        if errors:
            yield "\n".join([f'<diagnostics file="{file}">', *lines, *more, "</diagnostics>"])
