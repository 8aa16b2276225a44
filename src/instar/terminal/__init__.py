"""Terminals: programs that a person runs in a pseudo terminal of an instance, for clients that show it.

Their children are the person's own, not the model's: they are started by `Processes`, without the shield, with the
environment that has no secrets (issue 10, items 2 and 4).
"""

from instar.terminal.scrollback import LIMIT, Lost, Scrollback
from instar.terminal.shells import Shell, shells
from instar.terminal.terminal import Full, Terminal
from instar.terminal.terminals import Asked, NoTerminal, Terminals

__all__ = [
    "LIMIT",
    "Asked",
    "Full",
    "Lost",
    "NoTerminal",
    "Scrollback",
    "Shell",
    "Terminal",
    "Terminals",
    "shells",
]
