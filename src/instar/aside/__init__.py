"""Sessions apart: a model works for a moment, with few tools, where no hook fires and nothing is kept.

Source: issue 8, item 6; seed 003. By construction: such a session has an instance of its own, with plugins, a bus and
a store of its own, of which nobody knows. What it uses is booked where its caller's is, and limits and `instar stop`
hold. `docs/hooks.md` says what confines its tools.
"""

from instar.aside.session import run

__all__ = ["run"]
