"""Terminals in the API."""

from typing import Annotated

import msgspec

from instar.wire import Wire

PtyID = Annotated[str, msgspec.Meta(pattern="^pty")]
_Positive = Annotated[int, msgspec.Meta(gt=0)]


class PtyShell(Wire):
    """A shell of the machine; `acceptable`: it understands the commands that a model writes."""

    path: str
    name: str
    acceptable: bool


class PtyCreateBody(Wire):
    """A program for a new terminal; without `command` the person's shell. `env` is put over everything else."""

    command: str | None = None
    args: list[str] | None = None
    cwd: str | None = None
    title: str | None = None
    env: dict[str, str] | None = None


class PtySize(Wire):
    """The size of a terminal, in characters."""

    rows: _Positive
    cols: _Positive


class PtyUpdateBody(Wire):
    """What to set of a terminal; an empty title sets none."""

    title: str | None = None
    size: PtySize | None = None


class PtyConnectQuery(Wire):
    """Where a terminal is joined.

    `cursor` is the place in what it has printed, in UTF-16 code units: 0 is its beginning and -1 its end. `ticket`
    is what ``connect-token`` gave: it stands for the password, once.
    """

    cursor: str | None = None
    ticket: str | None = None


class PtyTicketConnectToken(Wire):
    """A ticket for one connection to one terminal, good for so many seconds."""

    ticket: str
    expires_in: int = msgspec.field(name="expires_in")
