"""evolve: an agent that rewrites its own hook scripts, prompts and tools, tested before they go live.

Source: seed 000. It is a plugin like anybody's: `plugin` is its V1 form, `server` its function.
"""

from instar.plugins.evolve.server import server

id = "evolve"  # noqa: A001 - the name that a V1 plugin module must export
plugin = {"id": id, "server": server}

__all__ = ["id", "plugin", "server"]
