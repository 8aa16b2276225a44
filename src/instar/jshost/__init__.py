"""The JavaScript host: plugins that are written for opencode, in a child of their own.

May import `plugin` and the rooms below it. `plugin.load` imports this room by its name when a plugin is JavaScript,
and never otherwise. Begin with `host.py`; the protocol is in ``docs/reference/plugin-protocol.md``.
"""

from instar.jshost.host import JavaScript
from instar.plugin import PluginInput

__all__ = ["JavaScript", "open_host"]


def open_host(given: PluginInput) -> JavaScript:
    """Return the JavaScript host of an instance, of which `given` is any plugin's input. Its child is started later."""
    return JavaScript(given)
