"""The command line: the command ``instar``, for people at a terminal and for scripts.

May import every other room. Begin with `program.py`, the table of commands; each command is one file, imported when
the command is called, so that ``instar --help`` stays fast. Shared: `door.py` wraps a command (log options, one-line
errors, exit codes, an open runtime); `person.py` asks the person at the terminal; `follow.py` takes a turn's events
and `output.py` shows them; `check.py` finds mistakes in settings; `text.py` makes text safe to print.
"""

from instar.cli.program import main

__all__ = ["main"]
