"""The tool `self`: its schema, its actions with the permission that each needs, and the answer to a call.

Whatever is wrong with a call is an answer that the model reads. Only a permission that is refused is raised.
"""

import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from instar.plugin import Ask, Branch, Method, PermissionDenied, Tool, ToolContext, ToolResult, Value, wire
from instar.plugins.self import bounds, paths, profile
from instar.plugins.self.access import Access, TreeChange, is_tighter
from instar.plugins.self.messages import (
    ANSWER,
    DESCRIPTION,
    ITEMS,
    KEY,
    HiddenName,
    PathNotFound,
    Refusal,
    UnfitValue,
    cut,
    only_tighter,
    quoted,
    value,
)
from instar.plugins.self.state import SelfSession, SettingsSnapshot
from instar.plugins.self.tree import SelfTree, TreeNode

COUNTED: Final = 10
"""Names that a line with a count shows."""
LINE: Final = 80
"""Characters of a tool's description in the list of tools."""
_ABOUT: Final = {"inspect": "key", "modify": "key", "reset": "key", "call": "method", "manage_tool": "name"}
"""The argument that a permission of an action names."""
_HIDDEN: Final = {"modify": "is protected and cannot be modified", "reset": "is protected"}
"""What an action says of a name that it may not reach; the others say that it is not accessible."""
_PERSIST: Final = "snapshot persist"


@dataclass(frozen=True)
class SelfCall:
    """One call of the tool."""

    access: Access
    context: ToolContext
    args: wire.Plain

    @property
    def session_id(self) -> str:
        """The session of the call."""
        return self.context.session_id

    @property
    def session(self) -> SelfSession:
        """What the agent set in the session of the call."""
        return self.access.sessions[self.session_id]

    async def changed(self, path: str, old: Any, new: Any) -> None:
        """Report a change that this call made."""
        await self.access.report(TreeChange(path, old, new, self.session_id, self.context.call_id))


# -- inspect and list_tools --------------------------------------------------------------------------


async def inspect(call: SelfCall) -> str:
    """Return what is at `key`; without one, a summary of the parameters and variables."""
    call.session.reads += 1
    if call.args.get("key") is None:
        return await _summary(call)
    names = paths.parse("key", call.args["key"])
    if names[0] == "_runtime_vars" and names[1:] and names[1] in call.session.variables:
        # As `modify` names a variable in its answer.
        names = names[1:]
    tree = call.access.tree()
    found = tree.find(names)
    if found is None:
        if names[0] not in call.session.variables:
            raise tree.unknown(names)
        data = call.access.shown(call.session.variables.get(names[0]), names[0])
        return _inside(call, ".".join(names), data, names[1:])
    if isinstance(found.node, Method):
        note = " (it writes to disk, through the gate)" if found.node.writes else ""
        needed = ", ".join(found.node.parameters.get("required", ()))
        return f"method {names[-1]}({needed}) — use 'call' action to invoke{note}"
    if isinstance(found.node, Branch):
        return await _branch(call, found.path, found.node)
    return await _value(call, found, found.node)


async def list_tools(call: SelfCall) -> str:
    """Return the tools that the session has now, this one among them."""
    call.session.reads += 1
    gone = call.session.unregistered
    tools = [
        f"  {name}: {_first_line(tool.description)}"
        for name, tool in (await call.context.tools()).items()
        if name not in gone and name != paths.ITSELF
    ]
    own = f"  {paths.ITSELF}: {_first_line(DESCRIPTION)}"
    return "\n".join([f"Tools ({len(tools) + 1}):", *tools, own])


def _first_line(description: str) -> str:
    first = next((one.strip() for one in description.splitlines() if one.strip()), "")
    return first if len(first) <= LINE else first[: LINE - 3].rstrip() + "..."


async def _summary(call: SelfCall) -> str:
    top = call.access.tree().top
    lines = []
    for name in bounds.RESTRICTED:
        if isinstance(declared := top.get(name), Value):
            lines.append(f"{name}: {value(await call.access.read(name, declared, call.session_id))}")
    if held := dict(call.session.variables):
        lines.append(f"_runtime_vars: {cut(repr(call.access.shown(held)))}")
    return "\n".join(lines) or "no parameters are declared"


async def _branch(call: SelfCall, at: str, branch: Branch) -> str:
    for name, node in branch.children.items():
        if isinstance(node, Value) and node.counted:
            return _counted(at, node.counted, await call.access.read(f"{at}.{name}", node, call.session_id))
    shown = [f"{name}()" if isinstance(node, Method) else name for name, node in branch.children.items()]
    more = f" ({len(shown)} in all)" if len(shown) > ITEMS else ""
    return f"<{at}> attributes: {shown[:ITEMS]}{more}"


async def _value(call: SelfCall, found: TreeNode, declared: Value) -> str:
    data = await call.access.read(".".join(found.at), declared, call.session_id)
    if declared.counted and not found.rest and len(found.at) > 1:
        return _counted(".".join(found.at[:-1]), declared.counted, data)
    return _inside(call, found.path, data, found.rest)


def _inside(call: SelfCall, whole: str, data: Any, rest: paths.Names) -> str:
    """Return what is at the path `whole`, which is `rest` in `data`."""
    inner = paths.inside(whole, data, rest)
    return f"{whole}: {value(call.access.shown(inner, whole.rpartition('.')[2]))}"


def _counted(branch: str, word: str, data: Any) -> str:
    """Return how many there are, with the first names: ``subagents: 2 running — ['a', 'b']``."""
    names = [str(one) for one in data] if isinstance(data, dict | list) else []
    return cut(f"{branch}: {len(names)} {word} — {names[:COUNTED]}")


# -- modify and reset --------------------------------------------------------------------------------


async def modify(call: SelfCall) -> str:
    """Set a value, a part of one, or a runtime variable."""
    names = paths.parse("key", call.args.get("key"))
    if "value" not in call.args:
        raise Refusal("Error: 'value' is required to modify a key")
    async with call.session.changing:
        tree = call.access.tree()
        found = tree.find(names)
        if found is None:
            return await _set_variable(call, names, tree)
        refused, node = f"Error: {quoted(found.path)}", found.node
        if isinstance(node, Method):
            raise Refusal(f"{refused} is a method and cannot be modified — use 'call' action to invoke")
        if isinstance(node, Branch):
            children = ", ".join(list(node.children)[:ITEMS])
            raise Refusal(f"{refused} cannot be modified as a whole; it holds {children}")
        if node.write is None:
            free = ", ".join(one.path for one in tree.walk() if getattr(one.node, "write", None))
            raise Refusal(
                f"{refused} is read-only: it is a person's to change (instar docs self). You may set {free}"
            )
        return await _set_value(call, found, node)


async def reset(call: SelfCall) -> str:
    """Give a value its default again, or delete a runtime variable."""
    names = paths.parse("key", call.args.get("key"))
    whole, found = ".".join(names), None
    async with call.session.changing:
        with contextlib.suppress(PathNotFound):
            found = call.access.tree().find(names)
        if found is None and whole in call.session.variables:
            old = call.session.variables.pop(whole)
            await call.changed(f"_runtime_vars.{whole}", old, None)
            return f"Deleted _runtime_vars.{whole}"
        if found is None or not isinstance(found.node, Value) or found.rest:
            raise Refusal(f"{quoted(whole)} is not a known property or runtime variable")
        return await _reset_value(call, whole, found.node)


async def _reset_value(call: SelfCall, whole: str, declared: Value) -> str:
    if declared.guard is not None:
        raise only_tighter(whole, await call.access.read(whole, declared, call.session_id))
    if declared.write is None or declared.default is None:
        raise Refusal(f"Error: {quoted(whole)} is read-only")
    old = await call.access.raw(whole, declared.read, call.session_id)
    new = bounds.default(whole, await call.access.raw(whole, declared.default, call.session_id))
    call.access.write(whole, declared, new, call.session_id)
    call.session.changed.pop(whole, None)
    await call.changed(whole, old, new)
    return f"Reset {_from_to(call, whole, old, new)}"


def _from_to(call: SelfCall, whole: str, old: Any, new: Any) -> str:
    shown = [value(call.access.shown(one, whole.rpartition(".")[2])) for one in (new, old)]
    return f"{whole} = {shown[0]} (was {shown[1]})"


async def _set_value(call: SelfCall, found: TreeNode, node: Value) -> str:
    at, given = ".".join(found.at), call.args["value"]
    if not found.rest:
        given = bounds.number(given, node.kind)
    old = await call.access.raw(at, node.read, call.session_id)
    new = bounds.kept(paths.replaced(found.path, old, found.rest, bounds.kept(given)))
    bounds.check_parameter(at, new, node.kind)
    if node.guard is not None and not is_tighter(node, old, new):
        raise only_tighter(at, call.access.shown(old, found.at[-1]))
    call.access.write(at, node, new, call.session_id)
    if node.scope == "session":
        call.session.changed[at] = new
    await call.changed(at, old, new)
    if found.rest:
        return f"Set {found.path} = {value(call.access.shown(given, found.rest[-1]))}"
    return f"Set {_from_to(call, at, old, new)}"


async def _set_variable(call: SelfCall, names: paths.Names, tree: SelfTree) -> str:
    variables, given = call.session.variables, call.args["value"]
    name, whole = names[0], ".".join(names)
    if len(names) > 1 and name not in variables:
        raise tree.unknown(names)
    if name in bounds.RESTRICTED:
        # Kept as a variable it would look like the parameter, and change nothing.
        raise PathNotFound(whole, "nothing declares this parameter here")
    old = variables.get(name)
    variables[name] = paths.replaced(whole, old, names[1:], bounds.kept(given))
    await call.changed(f"_runtime_vars.{name}", old, variables.get(name))
    prefix = "" if len(names) > 1 else "_runtime_vars."
    return f"Set {prefix}{whole} = {value(call.access.shown(given, names[-1]))}"


# -- call --------------------------------------------------------------------------------------------


async def call_method(call: SelfCall) -> str:
    """Run a declared method with checked arguments, within its time limit."""
    names = paths.parse("method", call.args.get("method"))
    tree = call.access.tree()
    found = tree.find(names)
    if found is None:
        raise tree.unknown(names)
    whole, method = ".".join(names), found.node
    if not isinstance(method, Method):
        raise Refusal(f"Error: {quoted(whole)} is not callable")
    with call.access.explained(f"Error calling {whole}"):
        given = _arguments(method, call.args.get("args"))
        if method.writes and call.access.shown(given) != given:
            raise Refusal("the arguments hold what looks like a secret, which is never written down")
        call.session.calls += 1
        answer = call.access.shown(await call.access.called(method, call.session_id, given), names[-1])
        return cut(answer if isinstance(answer, str) else repr(answer), ANSWER)


def _arguments(method: Method, args: Any) -> wire.Plain:
    """Return a detached copy of the arguments. Raises `Refusal` when they do not fit the method's parameters."""
    given: wire.Plain = bounds.kept(args or {})
    properties = method.parameters.get("properties", {})
    for name in method.parameters.get("required", ()):
        if name not in given:
            raise Refusal(f"missing argument {name!r}")
    for name, argument in given.items():
        if name not in properties:
            takes = ", ".join(map(repr, properties)) or "no arguments"
            raise Refusal(f"unexpected argument {quoted(name)}; it takes {takes}")
        given[name] = bounds.number(argument, properties[name])
        bounds.check(name, given[name], properties[name])
    return given


# -- manage_tool -------------------------------------------------------------------------------------


async def manage_tool(call: SelfCall) -> str:
    """Take a tool away from the session, or give back one that was taken away."""
    offered = await call.context.tools()
    name, action = call.args.get("name"), call.args.get("manage_action", "").strip()
    wanted = registered = name or ""
    if wanted not in offered:
        registered = next((one for one, tool in offered.items() if wanted in tool.aliases), wanted)
    if registered != wanted:
        # Only here it is known which tool an alias means; a rule about that tool's name holds for this call too.
        for ask in permissions({**call.args, "name": registered}, call.context):
            await call.context.ask(ask)
    paths.text("name", name)
    if not action:
        raise Refusal("Error: manage_action is required ('register' or 'unregister')")
    gone = call.session.unregistered
    if action == "register":
        if gone.get(wanted) is not False:
            why = "was not previously unregistered (cannot register arbitrary tools)"
            raise Refusal(f"Error: {quoted(wanted)} {why}")
        del gone[wanted]
        await call.changed(f"tools.{wanted}", "unregistered", "registered")
        return f"Re-registered tool {wanted!r}"
    if action != "unregister":
        raise Refusal(f"Unknown manage_action: {cut(action, KEY)}")
    if paths.ITSELF in (paths.folded(wanted), paths.folded(registered)):
        raise Refusal("Error: cannot unregister the 'self' tool (would cause lockout)")
    if registered not in offered or registered in gone:
        raise Refusal(f"Tool {quoted(wanted)} is not currently registered")
    gone[registered] = False
    await call.changed(f"tools.{registered}", "registered", "unregistered")
    return f"Unregistered tool {registered!r}"


# -- snapshots ---------------------------------------------------------------------------------------


async def snapshot(call: SelfCall) -> str:
    """Keep the restricted parameters and the variables under a name; with `persist` in the evolve workspace too."""
    persist = call.args.get("persist")
    name = paths.text("name", call.args.get("name"))
    keep = call.access.tree().at(profile.KEEP) if persist else None
    if persist and not isinstance(keep, Method):
        raise Refusal(
            f"Error: snapshot {quoted(name)} was not saved: persist needs an evolve workspace in use "
            "(instar run --workspace PATH, or INSTAR_WORKSPACE); without persist it is kept in memory"
        )
    declared = call.access.settable()
    values = {one: await call.access.raw(one, node.read, call.session_id) for one, node in declared.items()}
    call.session.snapshots[name] = SettingsSnapshot(values, call.session.variables)
    saved = f"Snapshot {name!r} saved"
    return f"{saved} and kept: {await _persisted(call, keep, name)}" if isinstance(keep, Method) else saved


async def _persisted(call: SelfCall, keep: Method, name: str) -> Any:
    held = call.session.snapshots[name]
    given = {"parameters": dict(held.values), "variables": dict(held.variables)}
    with call.access.explained(f"Error: snapshot {quoted(name)} was saved in memory, but not kept"):
        if call.access.shown(given) != given:
            raise Refusal("it holds what looks like a secret, which is never written down")
        args = {"name": name, "profile": given}
        return call.access.shown(await call.access.called(keep, call.session_id, args))


async def restore(call: SelfCall) -> str:
    """Set everything that a snapshot holds, or nothing of it."""
    name = paths.text("name", call.args.get("name"))
    async with call.session.changing:
        held = call.session.snapshots[name]
        await profile.apply(call.access, held, call.session_id, call.context.call_id)
    return f"Restored snapshot {name!r}"


async def list_snapshots(call: SelfCall) -> str:
    """Return the names of the session's snapshots."""
    names = list(call.session.snapshots)
    return f"Snapshots ({len(names)}): {names}" if names else "No snapshots saved"


ACTIONS: Final[Mapping[str, Callable[[SelfCall], Awaitable[str]]]] = {
    "inspect": inspect,
    "modify": modify,
    "call": call_method,
    "list_tools": list_tools,
    "manage_tool": manage_tool,
    "snapshot": snapshot,
    "restore": restore,
    "list_snapshots": list_snapshots,
    "reset": reset,
}


def permissions(args: wire.Plain, context: ToolContext) -> list[Ask]:
    """Return what a call needs: the permission ``self`` for its action and what it is about, as ``modify model``."""
    action = args["action"]
    if action not in ACTIONS:
        return [Ask(paths.ITSELF, ["unknown"], [], {})]
    if action == "snapshot" and args.get("persist"):
        # It writes a file: a rule of its own may ask about it.
        return [Ask(paths.ITSELF, [_PERSIST], [_PERSIST], {"action": action})]
    about = args.get(_ABOUT[action]) if action in _ABOUT else None
    sound = isinstance(about, str) and 0 < len(about) <= paths.LONGEST and paths.is_plain(about)
    pattern = f"{action} {about}" if sound else action
    # A name with a wildcard in it would allow others for always.
    always = [] if any(one in pattern for one in "*?") else [pattern]
    # The method that `persist` calls can be called too: a rule about it holds for both.
    more = [_PERSIST] if action == "call" and about == profile.KEEP else []
    return [Ask(paths.ITSELF, [pattern, *more], [*always, *more], {"action": action})]


log = logging.getLogger("instar.self")

_PERSIST_TEXT: Final = "Keep it in the evolve workspace too, for instar run --profile (snapshot)."
SCHEMA: Final[wire.Plain] = {
    "type": "object",
    "properties": {
        # No `enum`: the tool itself answers an unknown action, in nanobot's words.
        "action": {"type": "string", "description": f"One of {', '.join(ACTIONS)}."},
        "key": {"type": "string", "description": "A dot-path (inspect, modify, reset)."},
        "value": {"description": "The new value, any JSON (modify)."},
        "method": {"type": "string", "description": "The dot-path of a method (call)."},
        "args": {"type": "object", "description": "The method's arguments by name (call)."},
        "name": {"type": "string", "description": "A tool (manage_tool) or a snapshot (snapshot, restore)."},
        "persist": {"type": "boolean", "description": _PERSIST_TEXT},
        "manage_action": {"type": "string", "description": "register or unregister (manage_tool)."},
    },
    "required": ["action"],
    "additionalProperties": False,
}


def self_tool(access: Access, top: Sequence[str]) -> Tool:
    """Return the tool as the model is offered it. `top` are the names at the top of the tree, which it lists."""
    text = f"{DESCRIPTION}\n\nAt the top: {', '.join(top)}." if top else DESCRIPTION
    execute = functools.partial(_execute, access)
    return Tool(text, SCHEMA, execute, permissions, repeatable=True, ordered=True)


async def _execute(access: Access, args: wire.Plain, context: ToolContext) -> ToolResult:
    """Return the answer to a call, also where it cannot be done. Raises `PermissionDenied`."""
    action: str = args["action"]
    if action not in ACTIONS:
        return _result(action, f"Unknown action: {cut(action, KEY)}")
    try:
        return _result(action, await ACTIONS[action](SelfCall(access, context, args)))
    except PermissionDenied:
        raise
    except HiddenName as why:
        refused = _HIDDEN.get(action, "is not accessible")
        return _result(action, f"Error: {quoted(str(why))} {refused}")
    except Refusal as why:
        return _result(action, f"Error: {why}" if isinstance(why, UnfitValue) else str(why))
    except Exception as error:
        # Without a traceback, which might hold a secret.
        text = access.said(error)
        log.error("action failed action=%s session=%s error=%s", action, context.session_id, text)
        return _result(action, cut(f"Error: {text}"))


def _result(action: str, answer: str) -> ToolResult:
    """Return an answer with a title for people: a change's first line, else the action."""
    changes = action in ("modify", "reset", "manage_tool", "restore")
    title = cut(answer.partition("\n")[0], 120) if changes else action[:40]
    return ToolResult(answer, title=title, truncate=False)
