"""Python's garbage collector while the program starts.

What a start makes, modules above all, stays; going through it again and again for garbage takes a tenth of the start.
"""

import gc
from typing import Final

RARELY: Final = 100_000
"""Objects after which garbage is collected during the start; Python's own figure is 700."""
_before: list[tuple[int, int, int]] = []


def starting() -> None:
    """Collect garbage rarely from now on."""
    if not _before:
        _before.append(gc.get_threshold())
        gc.set_threshold(RARELY)


def started() -> None:
    """Collect as before, but leave alone what the start made. Does nothing without `starting`."""
    if _before:
        gc.freeze()
        gc.set_threshold(*_before.pop())
