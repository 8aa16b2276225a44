"""The shield and the sandbox: how a child is started that must not reach everything its person can.

A `Shield` leaves everything as the person has it, but for what is guarded; a `Sandbox` shows a copy of a
workspace, or the workspace read-only, and nothing else. Both are `Confinement`s for `Processes.run`. `find_level` says
what this machine can do.

May import `settings` and what stands before it. Begin with `shield.py` and `box.py`; `model_process.py` starts children
for the model.
"""

from instar.sandbox.box import Limits, Sandbox, toolchains
from instar.sandbox.environment import bare, environment, is_secret_name
from instar.sandbox.level import Level
from instar.sandbox.place import Copy, Live, copy_of, remove
from instar.sandbox.probe import find_level
from instar.sandbox.shield import GuardedPaths, Places, Shield, own_places

__all__ = [
    "Copy",
    "GuardedPaths",
    "Level",
    "Limits",
    "Live",
    "Places",
    "Sandbox",
    "Shield",
    "bare",
    "copy_of",
    "environment",
    "find_level",
    "is_secret_name",
    "own_places",
    "remove",
    "toolchains",
]
