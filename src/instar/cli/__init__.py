"""The command line: the command ``instar``, for people at a terminal and for scripts.

May import every other room. Begin with `program.py`, the table of commands; each command is one file, imported when
the command is called, so that ``instar --help`` stays fast. Shared: `door.py` wraps a command (log options, one-line
errors, exit codes, an open runtime); `person.py` asks the person at the terminal; `follow.py` takes a turn's events
and `output.py` shows them; `check.py` finds mistakes in settings; `text.py` makes text safe to print.
"""

import sys
from collections.abc import Callable
from typing import Any

from instar.cli import collector


def main(arguments: list[str] | None = None, exit_with: Callable[[int], Any] = sys.exit) -> None:
    """Run the command line and end the process with its exit code."""
    collector.starting()
    # Start-up time: what is imported from here on is not searched for garbage.
    from instar.cli.program import run

    run(sys.argv[1:] if arguments is None else arguments, exit_with)
