"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Any, Literal

import msgspec

from instar.wire import Wire


class SelfChange(Wire):
    """A change of the tree in a session, at a `time` (ms): what was there, what is there, by which `call`."""

    time: int
    path: str
    old: Any
    new: Any
    call: str


class SelfState(Wire):
    """How a session stands: `values` it set of the tree by their paths, its `variables`, what it did how often.

    `unregistered` are tools that it took away from itself, `snapshots` the names of those it took, `log` its newest
    changes, oldest first.
    """

    session: str
    values: dict[str, Any]
    variables: dict[str, Any]
    unregistered: list[str]
    snapshots: list[str]
    reads: int
    calls: int
    changes: int
    log: list[SelfChange]


class SelfNode(Wire):
    """A node of the tree. `scope` says whom a change of a value reaches, `settable` whether the tool may set it.

    `value` is what it is in the session that was asked for; `problem` says why it could not be read.
    """

    path: str
    kind: Literal["branch", "value", "method"]
    doc: str
    scope: Literal["", "session", "instance"] = ""
    settable: bool = False
    value: Any = msgspec.UNSET
    problem: str = ""
