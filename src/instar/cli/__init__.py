"""The door for a person at a terminal, and for scripts: the command ``instar``.

A command's module is imported when the command is called (design section 3): ``instar --help`` must not
pay for a server.
"""

from instar.cli.program import main

__all__ = ["main"]
