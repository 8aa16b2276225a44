"""The runtime: puts the rooms together for one directory and is its client.

May import every room but the doors. Begin with `runtime.py`; `client` is the in-process client of doors and plugins.
"""

from instar.runtime.plugin_context import Options
from instar.runtime.runtime import Runtime

__all__ = ["Options", "Runtime"]
