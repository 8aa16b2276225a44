"""Snapshots of a project's files: taken cheaply, compared, and put back, beside the person's own repository."""

from instar.snapshot.files import Restored
from instar.snapshot.snapshot import LARGEST, Patch, Snapshot

__all__ = ["LARGEST", "Patch", "Restored", "Snapshot"]
