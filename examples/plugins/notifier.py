"""A notifier: rings the terminal's bell, or runs a command, when instar is done or needs you.

Option ``command`` is a line for ``sh`` that gets the text as ``$1``, such as ``notify-send instar "$1"``.
"""

import sys
from typing import Any

from instar.plugin import Hooks, PluginInput, event

TEXTS = {
    "session.idle": "is done",
    "permission.asked": "needs your permission",
    "question.asked": "asks you something",
}


async def notifier(input: PluginInput, options: dict[str, Any]) -> Hooks:
    """Hear the events; a command that fails becomes a ``plugin.error`` and stops nothing."""

    async def heard(happened: event.Event) -> None:
        said = TEXTS.get(happened.type)
        if said is None or await is_subagent(happened.session_id):
            return
        text = f"{input.directory.name}: session {happened.session_id} {said}"
        if options.get("command"):
            await input.shell(options["command"], text, timeout=10)
        elif sys.stderr.isatty():
            sys.stderr.write("\a")

    async def is_subagent(session_id: str | None) -> bool:
        return session_id is not None and (await input.client.session.get(session_id)).parent_id is not None

    return {"event": heard}
