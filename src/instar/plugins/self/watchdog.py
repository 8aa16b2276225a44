"""The watchdog: which restricted parameters are out of range, however they got there, and what they become.

Pure: it decides, the plugin acts before each step and each tool call (issue 9, item 4).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from instar.plugins.self import restricted
from instar.plugins.self.refusal import Refusal


class Repair(NamedTuple):
    """A parameter that is out of range: what it was, what it becomes (None: nothing can be set), and the warning."""

    name: str
    old: Any
    new: Any
    warning: str


def look(now: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[Repair]:
    """Return the repairs of parameters by name, one for each that is out of range."""
    found = []
    for name in restricted.RESTRICTED:
        if name not in now:
            continue
        try:
            restricted.check(name, now[name])
        except Refusal as why:
            new = restricted.default(name, defaults.get(name))
            found.append(Repair(name, now[name], new, _warning(str(why), name, defaults.get(name), new)))
    return found


def _warning(why: str, name: str, default: Any, new: Any) -> str:
    if new is None:
        return f"{why}; there is no value that it could be reset to"
    if restricted.is_sound(name, default):
        return f"{why}; it was reset to its default {new}"
    return f"{why}, and its default is out of range too; it was reset to {new}"
