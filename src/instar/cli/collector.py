"""Python's garbage collector: while the program starts, while it works, and at its end.

What a start makes, modules above all, stays; to search it for garbage again and again takes a tenth of the start.
A turn makes some hundreds of objects that live until it ends; to search them several times takes a thirtieth of it.
The end of the process frees everything; Python would search it all first, which takes a twentieth of a short command.
"""

import atexit
import gc
from typing import Final

RARELY: Final = 100_000
"""Objects after which garbage is collected during the start; Python's own figure is 700."""
WORKING: Final = 5_000
"""Objects after which the new ones are collected afterwards."""
_before: list[tuple[int, int, int]] = []


def starting() -> None:
    """Collect garbage rarely from now on, and not at the end, unless `started` comes."""
    if not _before:
        # Registered before others register theirs, it is called after them.
        atexit.register(gc.freeze)
        _before.append(gc.get_threshold())
        gc.set_threshold(RARELY)


def started() -> None:
    """Collect seldom, and leave alone what the start made. Does nothing without `starting`."""
    # Plugins work from here on: the end searches for what they left open, so that files are written.
    atexit.unregister(gc.freeze)
    if _before:
        gc.freeze()
        young, *old = _before.pop()
        # A person who switched collection off, or set it rarer, meant it.
        gc.set_threshold(max(young, WORKING) if young else 0, *old)
