"""A language server that runs: JSON-RPC with its child, and what it has found in files (LSP 3.17).

https://microsoft.github.io/language-server-protocol/. Only what diagnostics need is spoken; a request of the server's
that is not known is refused, as the protocol says. What it sends is bounded and read as data.
"""

import asyncio
import contextlib
import logging
import re
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from instar.plugin import Children, process, wire

log = logging.getLogger("instar.lsp")

LONGEST: Final = 16 << 20
"""Bytes of one message; a server that sends a longer one is ended."""
MOST_FILES: Final = 500
"""Files of which is kept what was found in them; the oldest go first."""
MOST_KEPT: Final = 200
"""Diagnostics that are kept of one file."""
LARGEST: Final = 1000
"""Characters of a diagnostic's text."""
STARTING: Final = 45.0
"""Seconds that a server may take to answer `initialize`."""
SETTLING: Final = 0.15
"""Seconds without another word of the server's after which it has looked."""
_HEAD: Final = 4096
"""Bytes before a message."""
_HEADER: Final = b"content-"
"""How every header begins."""
_STDERR: Final = 16 << 10
_FAREWELL: Final = 0.3
"""Seconds that a server gets to end by itself."""
_LENGTH: Final = re.compile(rb"content-length: *(\d{1,12})\r\n", re.IGNORECASE)
_UNKNOWN: Final = -32601
"""JSON-RPC's code for a method that is not there."""


class LspError(Exception):
    """A server that cannot be used; the text says why."""


class DiagnosticPosition(msgspec.Struct, frozen=True):
    """A place in a file, both counted from 0."""

    line: int
    character: int


class DiagnosticRange(msgspec.Struct, frozen=True):
    """A part of a file."""

    start: DiagnosticPosition
    end: DiagnosticPosition


class Diagnostic(msgspec.Struct, frozen=True):
    """What a server found: `severity` 1 is an error, 2 a warning, 3 and 4 are hints."""

    range: DiagnosticRange
    message: str
    severity: int = 1
    code: int | str | msgspec.UnsetType = msgspec.UNSET
    source: str | msgspec.UnsetType = msgspec.UNSET


class _Report(msgspec.Struct, frozen=True):
    """The answer to a request for what is wrong in a file; `items` are left out where nothing changed."""

    items: list[Diagnostic] = []


class _Published(msgspec.Struct, frozen=True):
    uri: str
    diagnostics: list[Diagnostic]
    version: int | None = None


class LspConnection:
    """One server in one folder. `lost` is set to the reason why it ended.

    `pushed` has what it told of files, `pulled` what it answered when it was asked about one; some do both.
    """

    def __init__(self, name: str, root: Path, published: Callable[[Path], None]) -> None:
        self.name = name
        self.root = root
        self.pushed: OrderedDict[Path, list[Diagnostic]] = OrderedDict()
        self.pulled: OrderedDict[Path, list[Diagnostic]] = OrderedDict()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._told = published
        self._settings: wire.Plain = {}
        self._buffer = bytearray()
        self._wanted = -1
        self._why = "it was ended"
        self._pulls = False
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._versions: dict[Path, int] = {}
        self._real: dict[Path, Path] = {}
        self._news = asyncio.Event()
        self._seen: dict[Path, int] = {}
        self._running: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def start(
        self, words: Sequence[str], children: Children, environment: Mapping[str, str], settings: wire.Plain
    ) -> None:
        """Start the server and greet it. Raises `LspError` where it does not answer."""
        self._settings = settings
        ours, theirs = socket.socketpair()
        _, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._running = asyncio.create_task(
            self._run(words, children, environment, theirs), name=f"language server {self.name}"
        )
        try:
            async with asyncio.timeout(STARTING):
                greeted = await self._request("initialize", self._greeting())
        except TimeoutError:
            await self.close()
            raise LspError(f"it did not answer within {STARTING:g} s") from None
        except BaseException:
            await self.close()
            raise
        can = greeted.get("capabilities") if isinstance(greeted, dict) else None
        self._pulls = isinstance(can, dict) and bool(can.get("diagnosticProvider"))
        self._notify("initialized", {})
        if settings:
            self._notify("workspace/didChangeConfiguration", {"settings": settings})

    async def look(self, file: Path, text: str, language: str, patience: float) -> None:
        """Show the server a file as it was saved, and wait until it has looked, for `patience` seconds at most."""
        if self._writer is not None and self._writer.transport.get_write_buffer_size() > LONGEST:
            self._why = "it does not read what it is sent"
            await self.close()
        version = self._next_version(file)
        document: wire.Plain = {"uri": file.as_uri(), "version": version}
        if version == 1:
            self._notify(
                "textDocument/didOpen", {"textDocument": document | {"languageId": language, "text": text}}
            )
        else:
            changed = {"textDocument": document, "contentChanges": [{"text": text}]}
            self._notify("textDocument/didChange", changed)
        self._notify("textDocument/didSave", {"textDocument": {"uri": file.as_uri()}})
        with contextlib.suppress(TimeoutError, LspError, msgspec.ValidationError):
            async with asyncio.timeout(patience):
                if self._pulls:
                    asked = {"textDocument": {"uri": file.as_uri()}}
                    report = await self._request("textDocument/diagnostic", asked)
                    self._keep(self.pulled, file, msgspec.convert(report, _Report).items)
                    return
                while self._seen.get(file, 0) < version and not self.lost.done():
                    await self._hears()
                # Some say first what is no word of the language, then what does not fit.
                while not self.lost.done():
                    await asyncio.wait_for(self._hears(), SETTLING)

    def _next_version(self, file: Path) -> int:
        # Some servers tell of the place that a link leads to.
        self._real[file.resolve()] = file
        self._seen.pop(file, None)
        self._versions[file] = self._versions.get(file, 0) + 1
        return self._versions[file]

    async def _hears(self) -> None:
        self._news.clear()
        await self._news.wait()

    async def close(self) -> None:
        """Ask it to end, then end it with all that it started."""
        if self._running is None or self._running.done():
            return
        with contextlib.suppress(TimeoutError, LspError):
            async with asyncio.timeout(_FAREWELL):
                await self._request("shutdown", None)
                self._notify("exit", None)
                await asyncio.wait([self._running])
        self._running.cancel()
        await asyncio.wait([self._running])

    # -- the child -----------------------------------------------------------------------------------

    async def _run(
        self, words: Sequence[str], children: Children, environment: Mapping[str, str], theirs: socket.socket
    ) -> None:
        why = ""
        try:
            done = await children.run(
                words,
                cwd=self.root,
                env=environment,
                stdin=theirs.fileno(),
                limit=_STDERR,
                on_output=self._take,
            )
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            how = f"by signal {done.signal}" if done.signal else f"with exit code {done.code}"
            why = f"it ended {how}" + (f": {lines[-1][:300]}" if lines else "")
        except (process.ProcessError, LspError) as error:
            why = str(error)
        finally:
            theirs.close()
            self._end(why or self._why)

    def _end(self, why: str) -> None:
        if self._writer is not None:
            self._writer.close()
        self.lost.set_result(why)
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(LspError(why))
        self._news.set()

    # -- messages ------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """Take what the child printed. Raises `LspError` for what is no message, or a too long one."""
        self._buffer += data
        while True:
            if self._wanted < 0:
                end = self._buffer.find(b"\r\n\r\n")
                is_head = _HEADER.startswith(self._buffer[: len(_HEADER)].lower())
                if end < 0 and is_head and len(self._buffer) <= _HEAD:
                    return
                length = _LENGTH.search(self._buffer, 0, end + 2) if is_head and 0 <= end <= _HEAD else None
                if length is None:
                    raise LspError(f"it printed what is no message: {bytes(self._buffer[:80])!r}")
                self._wanted = int(length[1])
                if self._wanted > LONGEST:
                    raise LspError(f"it sent a message of more than {LONGEST >> 20} MiB")
                del self._buffer[: end + 4]
            if len(self._buffer) < self._wanted:
                return
            body = bytes(self._buffer[: self._wanted])
            del self._buffer[: self._wanted]
            self._wanted = -1
            try:
                self._hear(msgspec.json.decode(body, type=dict[str, Any]))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                log.debug("lsp=odd name=%s error=%s", self.name, error)

    def _hear(self, message: Mapping[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            self._answered(message)
        elif "id" in message:
            answer = self._answer(str(method), message.get("params"))
            self._send({"id": message["id"], **answer})
        elif method == "textDocument/publishDiagnostics":
            self._publish(msgspec.convert(message.get("params"), _Published))

    def _answered(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        asked = self._asked.get(number) if isinstance(number, int) else None
        if asked is None or asked.done():
            return
        if (error := message.get("error")) is not None:
            said = error.get("message") if isinstance(error, dict) else error
            asked.set_exception(LspError(f"it refused: {str(said)[:300]}"))
        else:
            asked.set_result(message.get("result"))

    def _answer(self, method: str, params: Any) -> wire.Plain:
        """What the server is answered that asks something of its client."""
        if method == "workspace/configuration":
            items = params.get("items") if isinstance(params, dict) else None
            sections = [one.get("section") for one in items or () if isinstance(one, dict)]
            return {"result": [self._section(section) for section in sections]}
        if method == "workspace/workspaceFolders":
            return {"result": self._folders()}
        if method in ("client/registerCapability", "window/workDoneProgress/create"):
            return {"result": None}
        return {"error": {"code": _UNKNOWN, "message": f"instar does not know {method}"}}

    def _section(self, section: Any) -> Any:
        found: Any = self._settings
        for key in str(section or "").split("."):
            found = (found.get(key) if isinstance(found, dict) else None) if key else found
        return found

    def _publish(self, said: _Published) -> None:
        address = urlsplit(said.uri)
        if address.scheme != "file":
            return
        named = Path(unquote(address.path))
        file = self._real.get(named, named)
        if said.version is not None and said.version < self._versions.get(file, 0):
            return
        self._keep(self.pushed, file, said.diagnostics)
        if file in self._versions:
            self._seen[file] = self._versions[file]
        self._news.set()

    def _keep(
        self, found: OrderedDict[Path, list[Diagnostic]], file: Path, diagnostics: list[Diagnostic]
    ) -> None:
        kept = diagnostics[:MOST_KEPT]
        found[file] = [msgspec.structs.replace(one, message=one.message[:LARGEST]) for one in kept]
        found.move_to_end(file)
        while len(found) > MOST_FILES:
            found.popitem(last=False)
        self._told(file)

    @property
    def looked(self) -> bool:
        """Whether it was shown a file before."""
        return bool(self._versions)

    def found(self, file: Path) -> list[Diagnostic]:
        """Return what it found in a file."""
        return [*self.pushed.get(file, ()), *self.pulled.get(file, ())]

    async def _request(self, method: str, params: Any) -> Any:
        if self.lost.done():
            raise LspError(self.lost.result())
        number = next(self._numbers)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        try:
            return await asked
        finally:
            self._asked.pop(number, None)

    def _notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: wire.Plain) -> None:
        if self._writer is None or self._writer.is_closing():
            return
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        self._writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def _folders(self) -> list[wire.Plain]:
        return [{"name": self.root.name or "/", "uri": self.root.as_uri()}]

    def _greeting(self) -> wire.Plain:
        return {
            "processId": None,
            "clientInfo": {"name": "instar"},
            "rootUri": self.root.as_uri(),
            "workspaceFolders": self._folders(),
            "initializationOptions": self._settings,
            "capabilities": {
                "workspace": {"configuration": True, "workspaceFolders": True},
                "window": {"workDoneProgress": True},
                "textDocument": {
                    "synchronization": {"didSave": True},
                    "publishDiagnostics": {"versionSupport": True},
                    "diagnostic": {},
                },
            },
        }
