"""Terminals: programs that a person runs in a pseudo terminal of an instance, for clients that show it.

Their children are the person's own, not the model's: they are started by `Processes`, without the shield, with the
environment that has no secrets.
"""

from instar.terminal.scrollback import LIMIT, Lost, Scrollback
from instar.terminal.shells import LoginShell, shells
from instar.terminal.terminal import Full, Terminal
from instar.terminal.terminals import NoTerminal, TerminalRequest, Terminals

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
