"""What this machine can do to confine a child: one value, found once by `probe.find_level`."""

from typing import Literal

import msgspec

Name = Literal["bubblewrap", "landlock", "none"]


class Level(msgspec.Struct, frozen=True):
    """How far children can be confined here.

    `program` is the bubblewrap to use ("" below that level), `landlock` the kernel's version of Landlock (0: none),
    `overlay` whether a sandbox can lay a workspace's copy over the workspace itself, `pids` whether a shielded child
    that no launcher starts can have process ids of its own. `missing` says in one line what is missing and `todo` what
    to do about it; both are empty when nothing is. `final` are bubblewrap's arguments that end new user namespaces
    where no filter of system calls is known for this architecture.
    """

    name: Name
    program: str = ""
    landlock: int = 0
    overlay: bool = False
    pids: bool = False
    missing: str = ""
    todo: str = ""
    final: tuple[str, ...] = ()

    @property
    def scoped(self) -> bool:
        """Whether a child can signal no process but its own."""
        return self.pids or self.landlock >= 6
