"""Python's garbage collector: while the program starts, and while it works.

What a start makes, modules above all, stays; to search it for garbage again and again takes a tenth of the start.
A turn makes some hundreds of objects that live until it ends; to search them several times takes a thirtieth of it.
"""

import gc
from typing import Final

RARELY: Final = 100_000
"""Objects after which garbage is collected during the start; Python's own figure is 700."""
WORKING: Final = 5_000
"""Objects after which the new ones are collected afterwards."""
_before: list[tuple[int, int, int]] = []


def starting() -> None:
    """Collect garbage rarely from now on."""
    if not _before:
        _before.append(gc.get_threshold())
        gc.set_threshold(RARELY)


def started() -> None:
    """Collect seldom, and leave alone what the start made. Does nothing without `starting`."""
    if _before:
        gc.freeze()
        young, *old = _before.pop()
        # A person who switched collection off, or set it rarer, meant it.
        gc.set_threshold(max(young, WORKING) if young else 0, *old)
