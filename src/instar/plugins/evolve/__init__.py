"""evolve: an agent that rewrites its own hook scripts, prompts and tools, tested before they go live.

The protocol of its hook scripts is that of opencode-evolve's README; docs/concepts/evolve.md describes it. `plugin`
is the V1 form of the plugin, `server` its function. It imports nothing of instar but `instar.plugin`. Begin with
`server.py`.
"""

from instar.plugins.evolve.server import server

id = "evolve"  # noqa: A001 - the name that a V1 plugin module must export
plugin = {"id": id, "server": server}

__all__ = ["id", "plugin", "server"]
