"""What the launcher says of a confined program: how it ended, or why it did not start.

`landlock` says what stands in the file. Whoever confines sees a signal only as exit code 128 + N, which a program
may also choose.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

from instar.process.confine import Ending
from instar.process.reason import Seen, told

_SIGNAL: Final = re.compile(rb"signal ([1-9]|[1-5][0-9]|6[0-4])")
_START: Final = re.compile(rb"start ([0-9]{1,3}) ([01]) ([01]) ((?:[0-9a-f]{2}){0,256})")
_LONGEST: Final = 1024


def read(descriptor: int, after: int, argv: Sequence[str]) -> Ending:
    """Return what is said of the program `argv` in the file behind `descriptor`, from the byte `after` on.

    What cannot be read says nothing: the program may have had the file to itself.
    """
    said = os.pread(descriptor, _LONGEST, after)
    if ended := _SIGNAL.fullmatch(said):
        return Ending(signal=int(ended[1]))
    if failed := _START.fullmatch(said):
        seen = Seen(failed[2] == b"1", failed[3] == b"1", bytes.fromhex(failed[4].decode()))
        return Ending(failure=told(argv, int(failed[1]), seen))
    return Ending()
