"""self: the agent looks at its own runtime and tunes it, in memory and for its session (seed 001, issue 9).

It is a plugin like anybody's: `plugin` is its V1 form, `server` its function. Off unless the settings say
``tools.self_evolution: true``.
"""

from instar.plugins.self.server import server

id = "self"  # noqa: A001 - the name that a V1 plugin module must export
plugin = {"id": id, "server": server}

__all__ = ["id", "plugin", "server"]
