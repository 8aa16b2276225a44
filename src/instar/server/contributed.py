"""What plugins contributed to the HTTP interface: ``/instar/…`` beyond the core's own operations.

The operations of the flagships stand in the document whether or not they are in use, so that a client is the same
everywhere; a stranger's belong to the instances that load it. Each is carried out by the plugin as it was loaded for
the directory that the request names (issue 10, item 3).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import Response

from instar.flagship import FLAGSHIPS
from instar.plugin import NotFound, Registry
from instar.plugin.route import Bound, Signature, operations, signature
from instar.server.call import Call
from instar.server.dispatch import answer
from instar.server.errors import answer_for, refusal
from instar.server.instances import Instances
from instar.server.routing import allowed

PATH: Final = "/instar/{rest:path}"


@cache
def declared() -> Mapping[str, Sequence[Bound]]:
    """Return the flagships' operations by their names; the methods are those of classes, which nobody can call."""
    found = {}
    for name, flagship in FLAGSHIPS.items():
        if flagship.routes:
            module, _, attribute = flagship.routes.partition(":")
            found[name] = tuple(operations(getattr(import_module(module), attribute)))
    return found


class Contributed:
    """Carries out what no operation of the core's (`own`) does."""

    def __init__(self, instances: Instances, own: Iterable[Bound]) -> None:
        self._instances = instances
        self._own = tuple(own)
        self._known: WeakKeyDictionary[Callable[..., Any], Signature] = WeakKeyDictionary()

    async def carry(self, request: Request) -> Response:
        """Answer a request for a path of `PATH`."""
        try:
            return await self._answer(request)
        except SystemExit as error:  # a plugin ends no server
            return answer_for(RuntimeError(f"a plugin exited: {error}"), request.url.path)
        except Exception as error:
            return answer_for(error, request.url.path)

    async def _answer(self, request: Request) -> Response:
        call = Call(request, self._instances)
        method = "GET" if request.method == "HEAD" else request.method
        path = str(request.scope["path"])
        registry = (await call.runtime()).registry
        found = _find(registry.routes, method, path)
        if found is not None:
            bound, parts = found
            return await answer(bound, self._signature(bound), call, parts)
        for name, bounds in declared().items():
            if _find(bounds, method, path) is not None:
                raise NotFound(f"{name} is not in use in this directory: {_why(registry, name)}")
        others = [
            *self._own,
            *registry.routes,
            *(bound for bounds in declared().values() for bound in bounds),
        ]
        known = {one.operation.method for one in others if _parts(one, path) is not None}
        if known:
            refused = refusal(405, "BadRequest", f"{method} {path}: it is asked for by {allowed(known)}")
            refused.headers["Allow"] = allowed(known)
            return refused
        raise NotFound(f"{method} {path}: Not Found")

    def _signature(self, bound: Bound) -> Signature:
        function = getattr(bound.handler, "__func__", bound.handler)
        known = self._known.get(function)
        if known is None:
            known = self._known[function] = signature(bound.handler)
        return known


def _why(registry: Registry, name: str) -> str:
    return registry.idle.get(name) or FLAGSHIPS[name].idle


def _find(bounds: Iterable[Bound], method: str, path: str) -> tuple[Bound, dict[str, str]] | None:
    """The operation of a request, and the variable parts of its path; a fixed path stands before a pattern."""
    for bound in sorted(bounds, key=lambda one: one.operation.path.count("{")):
        if bound.operation.method == method and (parts := _parts(bound, path)) is not None:
            return bound, parts
    return None


def _parts(bound: Bound, path: str) -> dict[str, str] | None:
    """The variable parts of a path by their wire names; None where it is no path of this operation."""
    pattern, given = bound.operation.path.split("/"), path.split("/")
    if len(pattern) != len(given):
        return None
    parts = {}
    for one, text in zip(pattern, given, strict=True):
        if one.startswith("{") and text:
            parts[one[1:-1]] = text
        elif one != text:
            return None
    return parts
