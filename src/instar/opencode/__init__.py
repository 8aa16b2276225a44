"""What exists only for opencode: its newer routes, its database, the routes of its terminal interface, and the bridge.

May import `server` and what stands before it. Only the command line imports it; the server mounts `routes` by name.
Begin with `routes/sessions.py`; `bridge` runs instar's plugins in a real opencode.
"""
