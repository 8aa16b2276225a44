"""What a plugin may use of `instar.sandbox`. Apart: to import it takes as long as four other rooms."""

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
