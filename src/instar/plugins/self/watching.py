"""The watchdog at work: before each step and each tool call what went out of range is reset, and said once."""

import logging

from instar.plugins.self import restricted, watchdog
from instar.plugins.self.access import Access, Caller, Change
from instar.plugins.self.changing import parameters
from instar.plugins.self.refusal import Refusal

log = logging.getLogger("instar.self")


async def watch(access: Access, session_id: str) -> list[str]:
    """Reset a session's parameters that are out of range, and return a warning for each. Never raises."""
    try:
        async with access.states.of(session_id).changing:
            return [
                text
                for repair in await _repairs(access, session_id)
                if (text := await _mend(access, session_id, repair))
            ]
    except Exception as error:
        # The gate before a tool call must not be shut by its own guard.
        log.error("watchdog failed session=%s error=%s", session_id, access.said(error))
        return []


async def _repairs(access: Access, session_id: str) -> list[watchdog.Repair]:
    declared = parameters(access)
    now = {}
    for name, value in declared.items():
        try:
            now[name] = await access.raw(name, value.read, session_id)
        except Refusal:
            now[name] = None
    if all(restricted.is_sound(name, value) for name, value in now.items()):
        return []
    defaults = {}
    for name, value in declared.items():
        try:
            defaults[name] = (
                None if value.default is None else await access.raw(name, value.default, session_id)
            )
        except Refusal:
            defaults[name] = None
    return watchdog.look(now, defaults)


async def _mend(access: Access, session_id: str, repair: watchdog.Repair) -> str:
    """Make one repair; return its warning, empty when it was given before."""
    if repair.new is not None:
        try:
            access.write(repair.name, parameters(access)[repair.name], repair.new, session_id)
        except Refusal as why:
            return _warn(access, session_id, repair, f"{repair.warning}, which failed: {why}")
        await access.tell(Change(repair.name, repair.old, repair.new, Caller(session_id)))
    return _warn(access, session_id, repair, repair.warning)


def _warn(access: Access, session_id: str, repair: watchdog.Repair, text: str) -> str:
    if not access.states.of(session_id).warns(repair.name, repair.old):
        return ""
    log.warning("watchdog session=%s problem=%s", session_id, text)
    return text
