"""The action `call`: a declared method, with checked arguments, within its time (seed 001)."""

from typing import Any

from instar.plugin import Method, wire
from instar.plugins.self import kind, limits, path, words
from instar.plugins.self.access import Access, Caller
from instar.plugins.self.refusal import Missing, Refusal


async def call(access: Access, caller: Caller, method: Any, args: Any) -> str:
    """Return what a method answers: a text as it is, anything else as Python writes it. Raises `Refusal`."""
    names = path.parse("method", method)
    tree = access.tree()
    found = tree.find(names)
    whole = ".".join(names)
    if found is None:
        raise Missing(
            words.missing(whole, f"there is no {words.key(names[0])} at the top", tree.nearest(whole))
        )
    if not isinstance(found.node, Method):
        raise Refusal(words.not_callable(whole))
    given = _arguments(whole, found.node, args)
    if found.node.writes and access.shown(given) != given:
        raise Refusal(
            words.call_failed(
                whole, "the arguments hold what looks like a secret, which is never written down"
            )
        )
    access.states.of(caller.session_id).calls += 1
    try:
        answer = access.shown(await access.called(found.node, caller.session_id, given), names[-1])
    except TimeoutError:
        raise Refusal(words.call_failed(whole, f"no answer within {found.node.timeout:g} s")) from None
    except Exception as error:
        raise Refusal(words.call_failed(whole, access.said(error))) from None
    return words.cut(answer if isinstance(answer, str) else repr(answer), words.ANSWER)


def _arguments(whole: str, method: Method, args: Any) -> wire.Plain:
    """A detached copy of the arguments, which fit the method's. Raises `Refusal`."""
    if args is not None and type(args) is not dict:
        raise Refusal(words.call_failed(whole, f"'args' must be dict, got {type(args).__name__}"))
    try:
        given: wire.Plain = limits.kept(args or {})
        properties = method.parameters.get("properties", {})
        for name in kind.needed(method.parameters):
            if name not in given:
                raise Refusal(f"missing argument {name!r}")
        for name, value in given.items():
            if name not in properties:
                takes = ", ".join(map(repr, properties)) or "no arguments"
                raise Refusal(f"unexpected argument {words.key(name)}; it takes {takes}")
            kind.check(name, value, properties[name])
    except Refusal as why:
        raise Refusal(words.call_failed(whole, str(why))) from None
    return given
