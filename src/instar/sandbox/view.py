"""What a place shows a sandboxed child, said for mounts and for Landlock at once."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class View(NamedTuple):
    """How a place looks from inside, for one child.

    `cwd` is its folder there. `mounts` are bubblewrap's arguments for the place itself; `read` and `write` are what
    Landlock alone grants, `listed` folders of which it shows the names. `home` is the child's home at the level
    "landlock". `network` is whether it has the person's. `inet` keeps it from sockets other than the internet's.
    `descriptors` stay open until the child has become its program; `after` lets go of them and of `home`.
    """

    cwd: Path
    mounts: tuple[str, ...]
    read: tuple[str, ...]
    write: tuple[str, ...]
    home: Path
    listed: tuple[str, ...] = ()
    network: bool = False
    inet: bool = False
    descriptors: tuple[int, ...] = ()
    after: Callable[[], None] = lambda: None
