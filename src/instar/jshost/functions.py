"""Values with functions in them (``auth``, ``provider``, workspace adapters): a function crosses over as a number.

``{"$function": 7}`` of the child is a coroutine function here; a coroutine function without arguments that is given
to one becomes ``{"$value": what it gives}``.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

from instar import wire
from instar.jshost.speaking import Speaking

_SYNCHRONOUS: Final = ("validate", "condition")
"""Functions of a login's questions that opencode calls at once; over the socket nothing can be: they are left out."""


def revived(host: Speaking, value: Any) -> Any:
    """Return `value` of the child with its functions callable."""
    if isinstance(value, dict):
        if "$function" in value:
            return function(host, value["$function"])
        return {key: revived(host, item) for key, item in value.items() if key not in _SYNCHRONOUS}
    return [revived(host, item) for item in value] if isinstance(value, list) else value


def function(host: Speaking, number: int) -> Callable[..., Awaitable[Any]]:
    """Return a function of the child. It raises `JavaScriptError`."""

    async def called(*args: Any) -> Any:
        sent = [await _portable(arg) for arg in args]
        return revived(host, await host.request("call", {"function": number, "args": sent}))

    return called


async def _portable(arg: Any) -> Any:
    if inspect.iscoroutinefunction(arg):
        return {"$value": wire.to_plain(await arg())}
    return wire.to_plain(arg)
