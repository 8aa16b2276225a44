"""The watchdog: before each step and each tool call, restricted parameters that are out of range are reset."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from instar.plugins.self import parameters
from instar.plugins.self.access import Access, TreeChange
from instar.plugins.self.messages import Refusal

log = logging.getLogger("instar.self")


class Repair(NamedTuple):
    """A parameter that is out of range: the old value, the new one (None: none can be set), and the warning."""

    name: str
    old: Any
    new: Any
    warning: str


def look(now: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[Repair]:
    """Return a repair for each parameter of `now` that is out of range."""
    found = []
    for name, value in now.items():
        try:
            parameters.check_parameter(name, value)
        except Refusal as why:
            new = parameters.default(name, defaults.get(name))
            found.append(Repair(name, value, new, _warning(str(why), name, defaults.get(name), new)))
    return found


def _warning(why: str, name: str, default: Any, new: Any) -> str:
    if new is None:
        return f"{why}; there is no value that it could be reset to"
    if parameters.is_sound(name, default):
        return f"{why}; it was reset to its default {new}"
    return f"{why}, and its default is out of range too; it was reset to {new}"


async def watch(access: Access, session_id: str) -> list[str]:
    """Reset a session's parameters that are out of range. Return a warning for each value not warned of before.

    Never raises.
    """
    try:
        async with access.sessions.of(session_id).changing:
            repairs = await _repairs(access, session_id)
            return [text for one in repairs if (text := await _mend(access, session_id, one))]
    except Exception as error:
        # A watchdog that fails must not refuse the tool call that it looks at.
        log.error("watchdog failed session=%s error=%s", session_id, access.said(error))
        return []


async def _repairs(access: Access, session_id: str) -> list[Repair]:
    declared = access.settable()
    now = {name: await _raw(access, name, value.read, session_id) for name, value in declared.items()}
    if all(parameters.is_sound(name, value) for name, value in now.items()):
        return []
    defaults = {name: await _raw(access, name, value.default, session_id) for name, value in declared.items()}
    return look(now, defaults)


async def _raw(access: Access, name: str, read: Any, session_id: str) -> Any:
    """Return what a reader returns, None where there is no reader or it fails."""
    try:
        return None if read is None else await access.raw(name, read, session_id)
    except Refusal:
        return None


async def _mend(access: Access, session_id: str, repair: Repair) -> str:
    """Make one repair. Return its warning, "" when this value was warned of before."""
    warning = repair.warning
    if repair.new is not None:
        try:
            access.write(repair.name, access.settable()[repair.name], repair.new, session_id)
        except Refusal as why:
            warning = f"{warning}, which failed: {why}"
        else:
            await access.report(TreeChange(repair.name, repair.old, repair.new, session_id))
    warned, seen = access.sessions.of(session_id).warned, (repair.name, repr(repair.old)[:100])
    if seen in warned:
        return ""
    warned.add(seen)
    log.warning("watchdog session=%s problem=%s", session_id, warning)
    return warning
