"""The actions that change: `modify`, `reset`, `manage_tool`, `snapshot` and `restore` (seed 001)."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from instar.plugin import Branch, Method, Tool, Value
from instar.plugins.self import blocked, kind, limits, path, restricted, words
from instar.plugins.self.access import Access, Caller, Change
from instar.plugins.self.refusal import Hidden, Missing, Refusal
from instar.plugins.self.snapshots import Snapshot
from instar.plugins.self.tree import Found, Tree


async def modify(access: Access, caller: Caller, key: Any, value: Any) -> str:
    """Set a value, a part of one, or a runtime variable. Raises `Refusal`."""
    names = _names(key, words.protected)
    tree = access.tree()
    found = _found(tree, names, words.protected)
    if found is None:
        return await _set_variable(access, caller, names, value, tree)
    node = found.node
    if isinstance(node, Method):
        raise Refusal(words.is_method(found.path))
    if isinstance(node, Branch):
        raise Refusal(words.is_branch(found.path, list(node.children)))
    if node.write is None:
        raise Refusal(words.read_only(found.path))
    return await _set_value(access, caller, found, node, value)


async def reset(access: Access, caller: Caller, key: Any) -> str:
    """Give a value its default again, or forget a runtime variable. Raises `Refusal`."""
    names = _names(key, words.protected_from_reset)
    whole = ".".join(names)
    try:
        found = _found(access.tree(), names, words.protected_from_reset)
    except Missing:
        raise Refusal(words.unknown_property(whole)) from None
    state = access.states.of(caller.session_id)
    if found is None and len(names) == 1 and names[0] in state.variables:
        old = state.variables.delete(names[0])
        await access.tell(Change(f"_runtime_vars.{names[0]}", old, None, caller))
        return words.was_deleted(names[0])
    if found is None or not isinstance(found.node, Value) or found.rest:
        raise Refusal(words.unknown_property(whole))
    return await _reset_value(access, caller, whole, found.node)


async def _reset_value(access: Access, caller: Caller, whole: str, value: Value) -> str:
    if value.guard is not None:
        raise Refusal(words.only_tighter(whole, await access.read(whole, value, caller.session_id)))
    if value.write is None or value.default is None:
        raise Refusal(words.read_only(whole))
    old = await access.raw(whole, value.read, caller.session_id)
    new = await access.default(whole, value, caller.session_id)
    access.write(whole, value, new, caller.session_id)
    access.states.of(caller.session_id).changed.pop(whole, None)
    await access.tell(Change(whole, old, new, caller))
    name = whole.rpartition(".")[2]
    return words.was_reset(whole, access.shown(new, name), access.shown(old, name))


async def _set_value(access: Access, caller: Caller, found: Found, node: Value, value: Any) -> str:
    at, whole = ".".join(found.at), found.path
    old = await access.raw(at, node.read, caller.session_id)
    try:
        if type(value) is int and not found.rest:
            # Before its bits are counted: one that is out of the range hears the range.
            _check(at, value, node)
        new = limits.kept(path.replaced(old, found.rest, limits.kept(value)))
        _check(at, new, node)
    except KeyError as why:
        raise Missing(words.missing(whole, str(why.args[0]))) from None
    except Refusal as why:
        raise Refusal(words.error(str(why))) from None
    if node.guard is not None and not is_tighter(node, old, new):
        raise Refusal(words.only_tighter(at, access.shown(old, found.at[-1])))
    access.write(at, node, new, caller.session_id)
    if node.scope == "session":
        access.states.of(caller.session_id).changed[at] = new
    await access.tell(Change(at, old, new, caller))
    if found.rest:
        return words.was_set_inside(whole, access.shown(value, found.rest[-1]))
    return words.was_set(whole, access.shown(new, found.at[-1]), access.shown(old, found.at[-1]))


def _check(at: str, new: Any, node: Value) -> None:
    """Raise `Refusal` where a value is none that a place may have."""
    restricted.check(at, new)
    kind.check(at, new, node.kind)


def is_tighter(node: Value, old: Any, new: Any) -> bool:
    """Whether a guard lets a change through; one that fails lets none."""
    assert node.tighter is not None
    try:
        return node.tighter(old, new) is True
    except Exception:
        return False


async def _set_variable(access: Access, caller: Caller, names: path.Names, value: Any, tree: Tree) -> str:
    held = access.states.of(caller.session_id).variables
    whole = ".".join(names)
    if len(names) > 1 and names[0] not in held:
        raise Missing(
            words.missing(whole, f"there is no {words.key(names[0])} at the top", tree.nearest(whole))
        )
    if names[0] in restricted.RESTRICTED:
        # Kept as a variable it would look like the parameter, and change nothing.
        raise Missing(words.missing(whole, "nothing declares this parameter here"))
    old = held.get(names[0])
    try:
        held.set(names[0], path.replaced(old, names[1:], limits.kept(value)))
    except KeyError as why:
        raise Missing(words.missing(whole, str(why.args[0]))) from None
    except Refusal as why:
        raise Refusal(words.error(str(why))) from None
    await access.tell(Change(f"_runtime_vars.{names[0]}", old, held.get(names[0]), caller))
    seen = access.shown(value, names[-1])
    return words.was_set_inside(whole, seen) if len(names) > 1 else words.was_stored(whole, seen)


def registered(name: str, offered: Mapping[str, Tool]) -> str:
    """Return the name under which a tool is registered that may be called by an alias; else the name itself."""
    return next((one for one, tool in offered.items() if name in tool.aliases and name not in offered), name)


async def manage_tool(
    access: Access, caller: Caller, name: Any, action: Any, offered: Mapping[str, Tool]
) -> str:
    """Take a tool away from the session, or give back one that was taken away. Raises `Refusal`."""
    wanted = path.text("name", name)
    state = access.states.of(caller.session_id)
    if action is None or (type(action) is str and not action.strip()):
        raise Refusal(words.NO_MANAGE_ACTION)
    if action == "register":
        if wanted not in state.unregistered:
            raise Refusal(words.never_unregistered(wanted))
        del state.unregistered[wanted]
        await access.tell(Change(f"tools.{wanted}", "unregistered", "registered", caller))
        return words.registered(wanted)
    if action != "unregister":
        raise Refusal(words.unknown_manage_action(action))
    if blocked.folded(wanted) == blocked.ITSELF:
        raise Refusal(words.LOCKOUT)
    named = registered(wanted, offered)
    if named not in offered or named in state.unregistered:
        raise Refusal(words.not_registered(wanted))
    state.unregister(named)
    await access.tell(Change(f"tools.{named}", "registered", "unregistered", caller))
    return words.unregistered(named)


async def snapshot(access: Access, caller: Caller, name: Any) -> str:
    """Keep the restricted parameters and the runtime variables under a name. Raises `Refusal`."""
    wanted = path.text("name", name)
    state = access.states.of(caller.session_id)
    values = {
        one: await access.raw(one, value.read, caller.session_id) for one, value in parameters(access).items()
    }
    state.snapshots.save(wanted, values, state.variables.all())
    return words.saved(wanted)


async def restore(access: Access, caller: Caller, name: Any) -> str:
    """Set all that a snapshot holds, or nothing of it. Raises `Refusal`."""
    wanted = path.text("name", name)
    await put(access, caller, access.states.of(caller.session_id).snapshots.load(wanted))
    return words.restored(wanted)


async def put(access: Access, caller: Caller, held: Snapshot) -> None:
    """Set parameters and variables, or nothing of them. Raises `Refusal`."""
    state = access.states.of(caller.session_id)
    declared = parameters(access)
    now = {one: await access.raw(one, value.read, caller.session_id) for one, value in declared.items()}
    done: list[str] = []
    try:
        # The model first: how large a window may be depends on it.
        for one in sorted((one for one in held.values if one in declared), key=lambda name: name != "model"):
            access.write(one, declared[one], held.values[one], caller.session_id)
            done.append(one)
    except Refusal:
        for one in done:
            with contextlib.suppress(Refusal):  # the room held this value a moment ago
                access.write(one, declared[one], now[one], caller.session_id)
        raise
    before = state.variables.all()
    state.variables.replace(held.variables)
    changes = {one: (now[one], held.values[one]) for one in done}
    for one in sorted({*before, *held.variables}):
        changes[f"_runtime_vars.{one}"] = (before.get(one), held.variables.get(one))
    for one, (old, new) in changes.items():
        if type(old) is not type(new) or old != new:
            await access.tell(Change(one, old, new, caller))
    state.changed.update({one: held.values[one] for one in done})


def parameters(access: Access) -> dict[str, Value]:
    """Return the restricted parameters that are declared and can be set."""
    top = access.tree().top
    return {
        name: value
        for name in restricted.RESTRICTED
        if isinstance(value := top.get(name), Value) and value.write is not None
    }


def _names(key: Any, refused: Callable[[str], str]) -> path.Names:
    try:
        return path.parse("key", key)
    except Hidden as why:
        raise Refusal(refused(why.name)) from None


def _found(tree: Tree, names: path.Names, refused: Callable[[str], str]) -> Found | None:
    """Where a path leads; the refusal of a blocked name in this action's words."""
    try:
        return tree.find(names)
    except Hidden as why:
        raise Refusal(refused(why.name)) from None
