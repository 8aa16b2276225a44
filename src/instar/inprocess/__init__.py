"""The in-process client's sessions: the doors' and the plugins' way to what sessions can do."""

from instar.inprocess.door import SessionDoor

__all__ = ["SessionDoor"]
