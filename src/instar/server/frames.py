"""The forms in which event streams tell of an event, each for the clients that know it (the reference's section 3.2).

A message ends with an ``id:`` line: with that id as ``Last-Event-ID`` a client is told what came since. What a
stream says of itself carries the position that the client has reached, not an id of its own.
"""

import json
from collections.abc import Callable

from instar.server.feed import Published

Form = Callable[[Published, str], bytes]
"""From an event and the position after it to what is sent."""


def of_directory(event: Published, position: str) -> bytes:
    """``GET /event``: ``{"id", "type", "properties"}``."""
    return _message(_payload(event), position)


def of_all(event: Published, position: str) -> bytes:
    """``GET /global/event``: the same in a wrapper that names the directory, and a second one for a durable event.

    Only the second one has the ``id:`` line: a client that was cut off between them has not read the event.
    """
    if event.directory is None:
        return _message(b'{"payload":%b}' % _payload(event), position)
    # A project is not of the directory that was asked for; opencode says so, too.
    directory = "global" if event.type == "project.updated" else event.directory
    where = b'"directory":%b' % _text(directory)
    if event.project_id:
        where += b',"project":%b' % _text(event.project_id)
    first = b'{%b,"payload":%b}' % (where, _payload(event))
    if event.seq is None:
        return _message(first, position)
    kind = _text(f"{event.type}.{event.version}")
    durable = b'{"id":%b,"type":%b,"seq":%d,"aggregateID":%b,"data":%b}' % (
        _text(event.id),
        kind,
        event.seq,
        _text(event.session_id or ""),
        event.payload,
    )
    second = b'{%b,"payload":{"type":"sync","syncEvent":%b,"id":%b}}' % (where, durable, _text(event.id))
    return _message(first) + _message(second, position)


def of_location(event: Published, position: str) -> bytes:
    """``GET /api/event``: ``{"id", "type", "durable", "location", "data"}``; a heartbeat is a comment."""
    if event.type == "server.heartbeat":
        return b": heartbeat\n\n"
    more = b""
    if event.seq is not None:
        aggregate = _text(event.session_id or "")
        more += b'"durable":{"aggregateID":%b,"seq":%d,"version":%d},' % (aggregate, event.seq, event.version)
    if event.directory is not None and event.project_id:
        more += b'"location":{"directory":%b},' % _text(event.directory)
    head = b'{"id":%b,"type":%b,' % (_text(event.id), _text(event.type))
    return _message(b'%b%b"data":%b}' % (head, more, event.payload), position)


def of_instar(event: Published, position: str) -> bytes:
    """``GET /instar/event``: ``{"id", "type", "directory", "projectID", "seq", "properties"}``."""
    more = b""
    if event.directory is not None and event.project_id:
        more += b'"directory":%b,"projectID":%b,' % (_text(event.directory), _text(event.project_id))
    if event.seq is not None:
        more += b'"seq":%d,' % event.seq
    head = b'{"id":%b,"type":%b,' % (_text(event.id), _text(event.type))
    return _message(b'%b%b"properties":%b}' % (head, more, event.payload), position)


def _payload(event: Published) -> bytes:
    return b'{"id":%b,"type":%b,"properties":%b}' % (_text(event.id), _text(event.type), event.payload)


def _message(data: bytes, position: str | None = None) -> bytes:
    # The data come first: there are clients that look at how a message begins.
    place = b"" if position is None else b"id: %b\n" % position.encode()
    return b"data: %b\n%b\n" % (data, place)


def _text(value: str) -> bytes:
    return json.dumps(value).encode()
