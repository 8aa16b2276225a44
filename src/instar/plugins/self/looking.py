"""The actions that look: `inspect` and `list_tools` (seed 001)."""

from collections.abc import Mapping
from typing import Any

from instar.plugin import Branch, Method, Tool, Value
from instar.plugins.self import kind, path, restricted, words
from instar.plugins.self.access import Access, Caller
from instar.plugins.self.blocked import ITSELF
from instar.plugins.self.refusal import Missing
from instar.plugins.self.tree import Found, Tree


async def inspect(access: Access, caller: Caller, key: Any) -> str:
    """Return what stands under a key, the summary without one. Raises `Refusal`."""
    access.states.of(caller.session_id).reads += 1
    if key is None:
        return await _summary(access, caller)
    names = path.parse("key", key)
    tree = access.tree()
    found = tree.find(names)
    if found is None:
        return _variable(access, caller, names, tree)
    if isinstance(found.node, Method):
        return words.method(names[-1], kind.needed(found.node.parameters), writes=found.node.writes)
    if isinstance(found.node, Branch):
        return await _branch(access, caller, found.path, found.node)
    return await _value(access, caller, found, found.node)


def tools(access: Access, caller: Caller, offered: Mapping[str, Tool], own: str) -> str:
    """Return the tools that the session has now, this one (described by `own`) among them."""
    access.states.of(caller.session_id).reads += 1
    gone = access.states.of(caller.session_id).unregistered
    there = {name: tool.description for name, tool in offered.items() if name not in gone and name != ITSELF}
    return words.tools([*there.items(), (ITSELF, own)])


async def _summary(access: Access, caller: Caller) -> str:
    top = access.tree().top
    lines = []
    for name in restricted.RESTRICTED:
        if isinstance(value := top.get(name), Value):
            lines.append(words.line(name, await access.read(name, value, caller.session_id)))
    held = access.states.of(caller.session_id).variables.all()
    if held:
        lines.append(words.variables(access.shown(held)))
    return "\n".join(lines) or words.NOTHING


async def _branch(access: Access, caller: Caller, at: str, branch: Branch) -> str:
    for name, node in branch.children.items():
        if isinstance(node, Value) and node.counted:
            return _counted(at, node.counted, await access.read(f"{at}.{name}", node, caller.session_id))
    shown = [f"{name}()" if isinstance(node, Method) else name for name, node in branch.children.items()]
    return words.branch(at, shown)


async def _value(access: Access, caller: Caller, found: Found, value: Value) -> str:
    at = ".".join(found.at)
    data = await access.read(at, value, caller.session_id)
    if value.counted and not found.rest and len(found.at) > 1:
        return _counted(".".join(found.at[:-1]), value.counted, data)
    return words.line(found.path, _inside(access, found.path, data, found.rest))


def _variable(access: Access, caller: Caller, names: path.Names, tree: Tree) -> str:
    held = access.states.of(caller.session_id).variables
    whole = ".".join(names)
    if names[0] not in held:
        raise Missing(
            words.missing(whole, f"there is no {words.key(names[0])} at the top", tree.nearest(whole))
        )
    data = access.shown(held.get(names[0]), names[0])
    return words.line(whole, _inside(access, whole, data, names[1:]))


def _inside(access: Access, whole: str, data: Any, rest: path.Names) -> Any:
    try:
        return access.shown(path.inside(data, rest), whole.rpartition(".")[2])
    except KeyError as why:
        raise Missing(words.missing(whole, str(why.args[0]))) from None


def _counted(at: str, word: str, data: Any) -> str:
    names = [str(one) for one in data] if isinstance(data, dict | list) else []
    return words.counted(at, word, names)
