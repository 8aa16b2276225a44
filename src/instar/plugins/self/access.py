"""Reads and sets what the tree declares: values are copied, secrets masked, time limited, changes published."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from instar.plugin import Method, Value, secret
from instar.plugins.self import bounds
from instar.plugins.self.messages import SHOWN, Refusal, cut, quoted
from instar.plugins.self.state import SelfSessions
from instar.plugins.self.tree import SelfTree

log = logging.getLogger("instar.self")

READING: Final = 5.0
"""Seconds that a reader may take."""
TOOLS: Final = "tools.registered"
"""The path of the session's tools by name."""


class TreeChange(NamedTuple):
    """A change that was made: at which path, the old and the new value, in which session, by which tool call.

    `call_id` is "" for a change by the watchdog or a profile.
    """

    path: str
    old: Any
    new: Any
    session_id: str
    call_id: str = ""


@dataclass
class Access:
    """Reads and sets the declared values. `tree` returns the tree as it is now, `secrets` all that must be masked.

    `publish` is called with each change; its values are masked and cut to the length of an answer.
    """

    tree: Callable[[], SelfTree]
    sessions: SelfSessions
    secrets: Callable[[], Iterable[secret.Secret]]
    publish: Callable[[TreeChange], Awaitable[None]]

    async def raw(self, path: str, read: Callable[[str], Any], session_id: str) -> Any:
        """Return what a reader returns, unmasked, to be set again. Raises `Refusal`, also for a `Secret` in it."""
        with self.explained(f"Error: {quoted(path)} cannot be read"):
            return bounds.detached(await within(read(session_id), READING))

    async def read(self, path: str, value: Value, session_id: str) -> Any:
        """Return a value with secrets masked. Raises `Refusal` with the sentence for the model."""
        with self.explained(f"Error: {quoted(path)} cannot be read"):
            found = await within(value.read(session_id), READING)
            if path == TOOLS and isinstance(found, dict):
                # A tool that was taken away in this step is in the core's table until the next one.
                gone = self.sessions[session_id].unregistered
                found = {name: tool for name, tool in found.items() if name not in gone}
            return self.shown(found, path.rpartition(".")[2])

    def write(self, path: str, value: Value, new: Any, session_id: str) -> None:
        """Set a value through its writer. Raises `Refusal` when the writer refuses it."""
        assert value.write is not None
        with self.explained(f"Error: {quoted(path)} cannot be set"):
            value.write(session_id, new)

    def settable(self) -> dict[str, Value]:
        """Return the restricted parameters that are declared and can be set."""
        top = self.tree().top
        found = {name: top.get(name) for name in bounds.RESTRICTED}
        return {name: node for name, node in found.items() if isinstance(node, Value) and node.write}

    def shown(self, given: Any, name: str = "") -> Any:
        """Return plain data with secrets masked. Raises `Refusal`."""
        return bounds.shown(given, self.secrets(), name)

    def said(self, error: BaseException) -> str:
        """Return an exception's text with secrets masked; the type's name comes first unless it is a `ValueError`."""
        text = ""
        with contextlib.suppress(Exception):
            text = str(error)
        held = list(self.secrets())
        # A KeyError prints its key with `repr`, which escapes quotes and backslashes of a secret.
        written = [secret.Secret(repr(one.reveal())[1:-1]) for one in held]
        text, kind = secret.redact(text, [*held, *written]), type(error).__name__
        if text and (type(error) is ValueError or isinstance(error, Refusal)):
            return text
        return f"{kind}: {text}" if text else kind

    @contextlib.contextmanager
    def explained(self, what: str) -> Iterator[None]:
        """Turn what is raised inside into a `Refusal` that says `what` failed, and why."""
        try:
            yield
        except Exception as error:
            raise Refusal(cut(f"{what}: {self.said(error)}")) from None

    async def report(self, change: TreeChange) -> None:
        """Count, log and publish a change that was made."""
        name = change.path.rpartition(".")[2]
        masked = change._replace(old=self._brief(change.old, name), new=self._brief(change.new, name))
        self.sessions[change.session_id].changes += 1
        log.info("changed path=%s session=%s call=%s", change.path, change.session_id, change.call_id)
        await self.publish(masked)

    def _brief(self, given: Any, name: str) -> Any:
        seen = self.shown(given, name)
        text = repr(seen)
        return seen if len(text) <= SHOWN else cut(text)

    async def called(self, method: Method, session_id: str, args: Any) -> Any:
        """Run a method and return what it returns. Raises what it raises, and `Refusal` after its time limit."""
        found = (
            asyncio.to_thread(method.run, session_id, args)
            if method.blocking
            else method.run(session_id, args)
        )
        return await within(found, method.timeout)


def is_tighter(guard: Value, old: Any, new: Any) -> bool:
    """Return whether a value is a guard that allows a change. A guard whose check fails allows none."""
    try:
        return guard.tighter is not None and guard.tighter(old, new) is True
    except Exception:
        return False


async def within(found: Any, seconds: float) -> Any:
    """Return `found`, or the result of what can be awaited.

    Raises `Refusal` after `seconds`, also when the work ignores being cancelled.
    """
    if not inspect.isawaitable(found):
        return found
    task: asyncio.Future[Any] = asyncio.ensure_future(found)
    # Fetches the error of work that takes too long; asyncio logs errors that nobody fetched.
    task.add_done_callback(lambda over: over.cancelled() or over.exception())
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    if not done:
        raise Refusal(f"no answer within {seconds:g} s")
    if task.cancelled():
        raise InterruptedError("it was cancelled from within")
    return task.result()
