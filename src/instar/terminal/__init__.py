"""Terminals: programs that a person runs in a pseudo terminal of an instance, for clients that show it.

Their children are the person's own, not the model's: they are started by `Processes`, without the shield, with the
environment that has no secrets.

May import `turn` and what stands before it. Begin with `terminals.py`.
"""

from instar.terminal.terminal import LIMIT, Full, Lost, Scrollback, Terminal
from instar.terminal.terminals import LoginShell, NoTerminal, TerminalRequest, Terminals, shells

__all__ = [
    "LIMIT",
    "Full",
    "LoginShell",
    "Lost",
    "NoTerminal",
    "Scrollback",
    "Terminal",
    "TerminalRequest",
    "Terminals",
    "shells",
]
