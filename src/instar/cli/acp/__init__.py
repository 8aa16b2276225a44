"""``instar acp``: the Agent Client Protocol, by which editors talk with instar.

It uses the client's operations alone, as the chat does. Begin with `command.py`; `agent.py` has the protocol's
requests, `session.py` one session, `convert.py` what instar's words are in the protocol's; `remote.py` is what
``instar serve`` has of it. Only these import the library ``acp``.
"""
