"""The bridge: instar's Python plugins in a real opencode (issue 11, paragraph 2).

`instar opencode install` writes a plugin file for opencode; that one starts `instar bridge`, which opens the plugins of
a directory and serves them over its stdio in the words of ``docs/plugin-protocol.md``.
"""
