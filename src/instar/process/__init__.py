"""Children: the one way to start a program, and the promise that nothing of it is left behind.

Every child leads its own session and process group. When a run is over, whether it ended, timed out
or was cancelled, what remains of that group is ended too: SIGTERM, a short grace, SIGKILL. A
descendant that makes a session of its own escapes the group. Of a child that a fork server starts it
comes to the child's anchor and is killed; of another one it is found by its environment.

May import `wire`, `message` and `event`. Begin with `processes.py`; `child.py` is one child, `fork_server.py` starts
children by forking, `confine.py` is the contract with `sandbox`.
"""

from instar.process.child import DRAIN, GRACE, MIB, Feed, whole
from instar.process.confine import Confinement, Ending, Wrapped
from instar.process.output import Output, ProcessError
from instar.process.processes import Processes, guard_own, mark_own

__all__ = [
    "DRAIN",
    "GRACE",
    "MIB",
    "Confinement",
    "Ending",
    "Feed",
    "Output",
    "ProcessError",
    "Processes",
    "Wrapped",
    "guard_own",
    "mark_own",
    "whole",
]
