"""Formats and plain values: structs with opencode's field names, ids, secrets, JSON with comments, front matter.

Imports no other room. Begin with `struct.py`: every type that leaves the process is a `Wire`.
"""

from instar.wire.struct import (
    Plain,
    Wire,
    WireMeta,
    as_stored,
    copy,
    decode,
    encode,
    known,
    parse,
    received,
    replace,
    to_plain,
    wire_name,
)

__all__ = [
    "Plain",
    "Wire",
    "WireMeta",
    "as_stored",
    "copy",
    "decode",
    "encode",
    "known",
    "parse",
    "received",
    "replace",
    "to_plain",
    "wire_name",
]
