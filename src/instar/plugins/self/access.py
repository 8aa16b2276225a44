"""Reading and setting what the tree declares: detached, without secrets, within a time, and every change told."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from instar.plugin import Method, Value, secret
from instar.plugins.self import limits, restricted, words
from instar.plugins.self.refusal import Refusal
from instar.plugins.self.state import States
from instar.plugins.self.tree import Tree

log = logging.getLogger("instar.self")

READING: Final = 5.0
"""Seconds that a reader may take."""
TOOLS: Final = "tools.registered"
"""Where the core shows the session's tools by name."""


class Caller(NamedTuple):
    """Who asks: the session, and the call that it asks in ("" for the watchdog)."""

    session_id: str
    call_id: str = ""


class Change(NamedTuple):
    """A change that was made: a path, what was there, what is there, by whom."""

    path: str
    old: Any
    new: Any
    caller: Caller


class Access:
    """What an action works with. `tree` gives the tree as it is now, `secrets` all that must not be seen.

    `publish` tells of a change; what it is given holds no secret and is as long as an answer may be.
    """

    def __init__(
        self,
        tree: Callable[[], Tree],
        states: States,
        secrets: Callable[[], Iterable[secret.Secret]],
        publish: Callable[[Change], Awaitable[None]],
    ) -> None:
        self.tree = tree
        self.states = states
        self._secrets = secrets
        self._publish = publish

    async def raw(self, path: str, read: Callable[[str], Any], session_id: str) -> Any:
        """Return what a reader gives as it is, to be set again. Raises `Refusal`, also where a secret stands in it."""
        found = await self._asked(path, read, session_id)
        try:
            return limits.detached(found)
        except Refusal as why:
            raise Refusal(words.read_failed(path, str(why))) from None

    async def read(self, path: str, value: Value, session_id: str) -> Any:
        """Return a value as it may be seen. Raises `Refusal` with the sentence for the model."""
        found = await self._asked(path, value.read, session_id)
        if path == TOOLS and isinstance(found, dict):
            # Taken away in this step, a tool is still one of the room's until the next.
            gone = self.states.of(session_id).unregistered
            found = {name: told for name, told in found.items() if name not in gone}
        try:
            return self.shown(found, path.rpartition(".")[2])
        except Refusal as why:
            raise Refusal(words.read_failed(path, str(why))) from None

    def write(self, path: str, value: Value, new: Any, session_id: str) -> None:
        """Set a value in its room. Raises `Refusal` when the room does not take it."""
        assert value.write is not None
        try:
            value.write(session_id, new)
        except Exception as error:
            raise Refusal(words.unset(path, self.said(error))) from None

    async def default(self, path: str, value: Value, session_id: str) -> Any:
        """Return what a reset of a value sets. Raises `Refusal`."""
        assert value.default is not None
        given = await self.raw(path, value.default, session_id)
        return restricted.default(path, given) if path in restricted.RESTRICTED else given

    def shown(self, given: Any, name: str = "") -> Any:
        """Return plain data as it may be seen. Raises `Refusal`."""
        return limits.shown(given, self._secrets(), name)

    def said(self, error: BaseException) -> str:
        """Return what an exception says, without secrets: the sentence of a `ValueError`, else its type too."""
        try:
            text = str(error)
        except Exception:
            text = ""
        held = list(self._secrets())
        # A KeyError says its key as Python writes it: a quote or a backslash of a secret is escaped there.
        written = [secret.Secret(repr(one.reveal())[1:-1]) for one in held]
        text = secret.redact(text, [*held, *written])
        kind = type(error).__name__
        # KeyError and its like say no more than a name.
        return text if text and type(error) in (ValueError, Refusal) else f"{kind}: {text}" if text else kind

    async def tell(self, change: Change) -> None:
        """Tell of a change that was made, as it may be seen."""
        name = change.path.rpartition(".")[2]
        told = change._replace(old=self._brief(change.old, name), new=self._brief(change.new, name))
        self.states.of(change.caller.session_id).changes += 1
        log.info("changed path=%s session=%s call=%s", change.path, *change.caller)
        await self._publish(told)

    def _brief(self, given: Any, name: str) -> Any:
        try:
            seen = self.shown(given, name)
        except Refusal as why:
            return f"({why})"
        text = repr(seen)
        return seen if len(text) <= words.SHOWN else words.cut(text)

    async def _asked(self, path: str, read: Callable[[str], Any], session_id: str) -> Any:
        try:
            found = read(session_id)
            return await within(found, READING) if inspect.isawaitable(found) else found
        except TimeoutError:
            raise Refusal(words.read_failed(path, f"no answer within {READING:g} s")) from None
        except Exception as error:
            raise Refusal(words.read_failed(path, self.said(error))) from None

    async def called(self, method: Method, session_id: str, args: Any) -> Any:
        """Run a method and return what it returns. Raises what it raises, and `TimeoutError`."""
        if method.blocking:
            return await within(asyncio.to_thread(method.run, session_id, args), method.timeout)
        found = method.run(session_id, args)
        return await within(found, method.timeout) if inspect.isawaitable(found) else found


async def within(work: Awaitable[Any], seconds: float) -> Any:
    """Return what `work` gives. Raises `TimeoutError` after `seconds`, also when it does not let itself be ended."""
    task: asyncio.Future[Any] = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        task.add_done_callback(_forget)
        raise TimeoutError
    if task.cancelled():
        raise InterruptedError("it was cancelled from within")
    return task.result()


def _forget(task: "asyncio.Future[Any]") -> None:
    """What became of work that took too long is of no interest: it was answered for."""
    if not task.cancelled():
        task.exception()
