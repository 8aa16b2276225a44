"""The JavaScript host: plugins that are written for opencode, in a child of their own.

Source: issue 11, paragraph 1; the reference's section 3.3; the protocol is in ``docs/plugin-protocol.md``.
`plugin.load` imports this room by its name when a plugin is JavaScript, and never otherwise.
"""

from instar.jshost.host import JavaScript
from instar.plugin import PluginInput

__all__ = ["JavaScript", "open_host"]


def open_host(given: PluginInput) -> JavaScript:
    """Return the JavaScript host of an instance, of which `given` is any plugin's input. Its child is started later."""
    return JavaScript(given)
