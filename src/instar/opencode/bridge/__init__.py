"""The bridge: instar's Python plugins in a real opencode (``docs/guides/opencode.md``).

`instar opencode install` writes a plugin file for opencode; that one starts `instar bridge`, which opens the plugins of
a directory and serves them over its stdio as ``docs/reference/plugin-protocol.md`` says. Begin with `server.py`,
which answers opencode's half (``opencode.mjs``); `hooks.py` has opencode's hooks, `derived_hooks.py` those made of
its events.
"""
