"""self: a tool with which the agent inspects its own runtime and changes it, in memory and for its session.

Off unless the settings say ``tools.self_evolution: true``. docs/reference/self.md describes it; nanobot's tool
``self`` is the model. It imports nothing of instar but `instar.plugin`. Begin with `tool.py`; `tree.py` says what
can be reached.
"""

from instar.plugins.self.server import server

id = "self"  # noqa: A001 - the name that a V1 plugin module must export
plugin = {"id": id, "server": server}

__all__ = ["id", "plugin", "server"]
