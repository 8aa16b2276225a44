"""Reload: a running instance takes up what changed in the files that it is made of (issue 10, item 6).

`places` says which files those are, `reading` reads them, `plan` says what is different, `renewal` puts the new in the
place of the old, and `waiting` does so when files change. What cannot be read or loaded leaves what was there.
"""

from instar.reload.places import Places, Signature
from instar.reload.reading import Reading, Tools, read, read_tools
from instar.reload.renewal import Renewal
from instar.reload.waiting import Waiting

__all__ = ["Places", "Reading", "Renewal", "Signature", "Tools", "Waiting", "read", "read_tools"]
