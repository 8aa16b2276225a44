"""Every message of the tool. Where the seed prints one, it is the seed's; else the reference's, else ours.

Pure functions: they are given detached plain data, in which secrets read ``***`` already.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

SHOWN: Final = 2000
"""Characters of a value that is shown; the rest is cut, and its size is named."""
ANSWER: Final = 30_000
"""Characters of what a called method returned."""
ITEMS: Final = 20
"""Items of a map or a list that are shown."""
NAMES: Final = 10
"""Names of what is counted that are shown."""
KEY: Final = 80
"""Characters of a key that are repeated in an answer."""
_LINE: Final = 80
"""Characters of a tool's description in the list of tools."""


def cut(text: str, most: int = SHOWN) -> str:
    """Return a text of at most `most` characters; the size of one that was cut is named."""
    return text if len(text) <= most else f"{text[:most]}... (truncated: {len(text):,} characters)"


def key(name: Any) -> str:
    """Return a name as answers quote it."""
    text = name if isinstance(name, str) else f"<{type(name).__name__}>"
    return repr(text if len(text) <= KEY else f"{text[:KEY]}... ({len(text):,} characters)")


def value(given: Any) -> str:
    """Return a value as the seed prints it, as Python writes it; long ones by their first items."""
    if isinstance(given, dict) and len(given) > ITEMS:
        first = ", ".join(f"{name!r}: {item!r}" for name, item in list(given.items())[:ITEMS])
        return cut(f"{{{first}") + f", ...}} ({len(given)} items)"
    if isinstance(given, list) and len(given) > ITEMS:
        return cut(f"[{', '.join(map(repr, given[:ITEMS]))}") + f", ...] ({len(given)} items)"
    return cut(repr(given))


def line(name: str, given: Any) -> str:
    """Return a value under its path."""
    return f"{name}: {value(given)}"


def counted(branch: str, word: str, names: Sequence[str]) -> str:
    """Return what there is by number and names: ``subagents: 2 running — ['a', 'b']``."""
    return cut(f"{branch}: {len(names)} {word} — {list(names[:NAMES])}")


def method(name: str, needed: Sequence[str], *, writes: bool) -> str:
    """Return what is said of a method that is looked at."""
    note = " (it writes to disk, through the gate)" if writes else ""
    return f"method {name}({', '.join(needed)}) — use 'call' action to invoke{note}"


def branch(name: str, children: Sequence[str]) -> str:
    """Return what is said of a place that holds others."""
    return f"<{name}> attributes: {list(children[:ITEMS])}" + (
        f" ({len(children)} in all)" if len(children) > ITEMS else ""
    )


def variables(given: Mapping[str, Any]) -> str:
    """Return the line of the runtime variables."""
    return f"_runtime_vars: {cut(repr(dict(given)))}"


NOTHING: Final = "no parameters are declared"


# -- changes -----------------------------------------------------------------------------------------


def was_set(name: str, new: Any, old: Any) -> str:
    """Return that a value was set."""
    return f"Set {name} = {value(new)} (was {value(old)})"


def was_set_inside(name: str, new: Any) -> str:
    """Return that a part of a value was set."""
    return f"Set {name} = {value(new)}"


def was_stored(name: str, new: Any) -> str:
    """Return that a runtime variable was set."""
    return f"Set _runtime_vars.{name} = {value(new)}"


def was_reset(name: str, new: Any, old: Any) -> str:
    """Return that a value has its default again."""
    return f"Reset {name} = {value(new)} (was {value(old)})"


def was_deleted(name: str) -> str:
    """Return that a runtime variable is gone."""
    return f"Deleted _runtime_vars.{name}"


# -- refusals ----------------------------------------------------------------------------------------


def error(text: str) -> str:
    """Return a refusal."""
    return f"Error: {text}"


def blank(argument: str) -> str:
    """Return that an argument is needed."""
    return error(f"{argument!r} cannot be empty or whitespace")


def no_text(argument: str, given: Any) -> str:
    """Return that an argument is no text."""
    return error(f"{argument!r} must be str, got {type(given).__name__}")


def hidden(name: str) -> str:
    """Return that a name is refused as such."""
    return error(f"{key(name)} is not accessible")


def protected(name: str) -> str:
    """Return that a name cannot be set."""
    return error(f"{key(name)} is protected and cannot be modified")


def protected_from_reset(name: str) -> str:
    """Return that a name cannot be reset."""
    return error(f"{key(name)} is protected")


def missing(name: str, why: str, near: Sequence[str] = ()) -> str:
    """Return that a path ends nowhere, with the nearest there are."""
    hint = f"; the nearest are {', '.join(map(repr, near))}" if near else ""
    return error(f"{key(name)} not found: {why}{hint}")


def is_method(name: str) -> str:
    """Return that a method is no value."""
    return error(f"{key(name)} is a method and cannot be modified — use 'call' action to invoke")


def is_branch(name: str, children: Sequence[str]) -> str:
    """Return that a place that holds others is no value."""
    return error(f"{key(name)} cannot be modified as a whole; it holds {', '.join(children[:ITEMS])}")


def read_only(name: str) -> str:
    """Return that a value is only read."""
    return error(f"{key(name)} is read-only")


def only_tighter(name: str, old: Any) -> str:
    """Return that a guard is not loosened."""
    return error(f"{key(name)} guards this runtime and may only be tightened (it is {value(old)})")


def not_callable(name: str) -> str:
    """Return that a value is no method."""
    return error(f"{key(name)} is not callable")


def call_failed(name: str, why: str) -> str:
    """Return that a call came to nothing."""
    return cut(f"Error calling {name}: {why}")


def read_failed(name: str, why: str) -> str:
    """Return that a value could not be read."""
    return cut(error(f"{key(name)} cannot be read: {why}"))


def unset(name: str, why: str) -> str:
    """Return that a room did not take a value."""
    return cut(error(f"{key(name)} cannot be set: {why}"))


def unknown_property(name: str) -> str:
    """Return that there is nothing to reset."""
    return f"{key(name)} is not a known property or runtime variable"


# -- tools -------------------------------------------------------------------------------------------


def tools(found: Sequence[tuple[str, str]]) -> str:
    """Return the tools with the beginning of their descriptions."""
    return "\n".join([f"Tools ({len(found)}):", *(f"  {name}: {_short(text)}" for name, text in found)])


def _short(text: str) -> str:
    first = next((one.strip() for one in text.splitlines() if one.strip()), "")
    return first if len(first) <= _LINE else first[: _LINE - 3].rstrip() + "..."


def unregistered(name: str) -> str:
    """Return that a tool was taken away."""
    return f"Unregistered tool {name!r}"


def registered(name: str) -> str:
    """Return that a tool was given back."""
    return f"Re-registered tool {name!r}"


def not_registered(name: str) -> str:
    """Return that there is no such tool to take away."""
    return f"Tool {key(name)} is not currently registered"


def never_unregistered(name: str) -> str:
    """Return that a tool was not taken away before."""
    return error(f"{key(name)} was not previously unregistered (cannot register arbitrary tools)")


LOCKOUT: Final = "Error: cannot unregister the 'self' tool (would cause lockout)"
NO_MANAGE_ACTION: Final = "Error: manage_action is required ('register' or 'unregister')"


def unknown_manage_action(given: Any) -> str:
    """Return that there is no such thing to do with a tool."""
    return f"Unknown manage_action: {_bare(given)}"


def unknown_action(given: Any) -> str:
    """Return that there is no such action."""
    return f"Unknown action: {_bare(given)}"


def _bare(given: Any) -> str:
    return cut(given, KEY) if isinstance(given, str) else f"<{type(given).__name__}>"


# -- snapshots ---------------------------------------------------------------------------------------


def saved(name: str) -> str:
    """Return that a snapshot was taken."""
    return f"Snapshot {name!r} saved"


def kept(said: str, where: Any) -> str:
    """Return that a snapshot was taken, and where it is kept."""
    return f"{said} and kept: {where}"


NO_WORKSPACE: Final = (
    "was not saved: persist needs an evolve workspace in use (instar run --workspace PATH, or INSTAR_WORKSPACE); "
    "without persist it is kept in memory"
)
NO_PROFILES: Final = "profiles stand in an evolve workspace, and none is in use (instar run --workspace PATH)"


def not_kept(name: str, why: str) -> str:
    """Return that a snapshot was taken, but not kept."""
    return cut(error(f"snapshot {key(name)} was saved in memory, but not kept: {why}"))


def restored(name: str) -> str:
    """Return that a snapshot is in force."""
    return f"Restored snapshot {name!r}"


def no_snapshot(name: str) -> str:
    """Return that there is no such snapshot."""
    return error(f"snapshot {key(name)} not found")


def snapshots(names: Sequence[str]) -> str:
    """Return the snapshots there are."""
    return f"Snapshots ({len(names)}): {list(names)}" if names else "No snapshots saved"


def refused_snapshot(name: str, why: str) -> str:
    """Return that a snapshot does not hold what may be set."""
    return error(f"snapshot {key(name)} {why}")
