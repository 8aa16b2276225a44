"""Trust on several machines: what a person decides on a folder at one holds at all whose store is on one server.

Each decision is a row, with the content of all files that were accepted by it: a worker hears what was accepted also
where its own folder holds something else by now. All machines take the decisions in the order of the rows into their
own list (`Trust`), each once. Rows that cannot be read change nothing. Whoever can write to the database can trust
files at every worker, as whoever can write to the list of a machine can there.
"""

import base64
import contextlib
import logging
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote_from_bytes

import msgspec

from instar.settings.paths import Paths
from instar.settings.steered import SteeringFile
from instar.settings.trust import Trust, TrustError, TrustOrder
from instar.store import StoreError
from instar.store.database import SqlConnection
from instar.store.store import database_at
from instar.wire.document import atomic_write, locked

log = logging.getLogger("instar.store")

_LARGEST: Final = 64 << 20
"""Bytes of a decision as a row holds it."""


class _File(msgspec.Struct, array_like=True):
    path: bytes
    runs: bool
    data: bytes


class _Order(msgspec.Struct):
    """A `TrustOrder` as a row has it, deflated: a path is bytes, since it need not be text."""

    kind: Literal["add", "accept", "refuse", "remove"]
    folder: bytes
    found: list[tuple[bytes, list[_File]]]


def trust_at(paths: Paths, environment: Mapping[str, str]) -> Trust:
    """Return a person's trust, whose decisions other machines hear of where the store is on a server.

    What those decided is taken first: a server that cannot be asked is a warning in the log.
    """
    if isinstance(paths.database, Path):
        return Trust(paths, environment)
    shared = SharedTrust(paths, environment)
    try:
        shared.refresh()
    except StoreError as error:
        log.warning("what other machines trust is not known: %s", error)
    return Trust(paths, environment, shared.tell)


class SharedTrust:
    """What persons decided on all machines whose store is on the server of `paths`, for the list of this one."""

    def __init__(self, paths: Paths, environment: Mapping[str, str]) -> None:
        self._trust = Trust(paths, environment)
        self._database = paths.database
        self._path = paths.data / "shared" / "trust.json"
        self._known: Sequence[str] | None = None
        self._problem = ""

    def tell(self, order: TrustOrder) -> None:
        """Tell other machines what was decided here. Raises `TrustError`."""
        folder, value = quote_from_bytes(os.fsencode(order.folder)), _written(order)

        def put(connection: SqlConnection) -> None:
            connection.run("drop_trust", (folder, order.kind))
            connection.run("put_trust", (os.urandom(8).hex(), folder, order.kind, value))

        try:
            if len(value) > _LARGEST:
                raise StoreError(f"its files are more than {_LARGEST >> 20} MiB")
            self._ask(put, writes=True)
        except StoreError as error:
            raise TrustError(
                f"it holds on this machine, and others were not told ({error}): decide it once more there,"
                " or here later"
            ) from error
        # What others decided before it is taken before it, and this one once more.
        with contextlib.suppress(StoreError):
            self.refresh()

    def refresh(self) -> None:
        """Take what was decided elsewhere. Raises `StoreError`."""
        self._ask(self.read, writes=False)

    def read(self, connection: SqlConnection) -> None:
        """Take what was decided elsewhere and not taken yet, in a transaction that reads; the log says what cannot be.

        What this machine cannot keep is tried again by the next call.
        """
        ids = [row[0] for row in connection.run("trust_ids")]
        if ids == self._known:
            return
        try:
            with locked(self._path.parent):
                self._take(connection, ids)
            self._known = ids
        except (TrustError, OSError) as error:
            if str(error) != self._problem:
                log.error("what other machines trust is not taken: %s", error)
            self._problem = str(error)

    def _take(self, connection: SqlConnection, ids: Sequence[str]) -> None:
        taken = self._taken()
        for name in [one for one in ids if one not in taken]:
            ((value,),) = connection.run("trust_order", (name,))
            try:
                order = _read(value)
            except (msgspec.MsgspecError, ValueError, zlib.error) as error:
                log.error(
                    "the decision of another machine in row %s of instar_trust is left out: %s", name, error
                )
            else:
                self._trust.take(order)
            taken.append(name)
            # After each: what failed is tried again, and what was taken before it is not.
            atomic_write(self._path, msgspec.json.encode(taken), 0o600)

    def _taken(self) -> list[str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[str])
        except (OSError, msgspec.MsgspecError):
            return []

    def _ask(self, question: Callable[[SqlConnection], None], *, writes: bool) -> None:
        """Have a question answered in a transaction of its own. Raises `StoreError`."""
        server = database_at(self._database)
        try:
            with closing(server.open()) as connection:
                connection.begin(writes=writes)
                question(connection)
                connection.execute("COMMIT")
        except Exception as error:
            raise server.explain(error) from error


def _written(order: TrustOrder) -> str:
    found = [
        (
            os.fsencode(folder),
            [_File(os.fsencode(path), file.runs, file.data) for path, file in files.items()],
        )
        for folder, files in order.found.items()
    ]
    packed = msgspec.msgpack.encode(_Order(order.kind, os.fsencode(order.folder), found))
    return base64.b64encode(zlib.compress(packed, 6)).decode()


def _read(value: str) -> TrustOrder:
    order = msgspec.msgpack.decode(zlib.decompress(base64.b64decode(value)), type=_Order)
    found = {
        _path(folder): {_path(file.path): SteeringFile(file.data, file.runs) for file in files}
        for folder, files in order.found
    }
    return TrustOrder(order.kind, _path(order.folder), found)


def _path(name: bytes) -> Path:
    path = Path(os.fsdecode(name))
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path} is no absolute path")
    return path
