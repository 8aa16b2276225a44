"""Exceptions that routes raise, and the answers that tell of errors, in opencode's forms."""

import logging
from typing import Final, Literal

from starlette.responses import Response

from instar import wire
from instar.cluster.engine import WorkerEnds
from instar.plugin import Busy, Invalid, NotFound
from instar.settings.config import ConfigError
from instar.store import StoreError
from instar.wire import ids
from instar.wire.document import DocumentError
from instar.wire.pattern import late_pattern

log = logging.getLogger("instar.server")

_UNFORESEEN: Final = "Unexpected server error. Check server logs for details."
_SESSION: Final = late_pattern(r"/api/session/(ses_[^/]+)")

Kind = Literal["Params", "Headers", "Query", "Body", "Payload"]


class BadRequest(Exception):
    """A request that cannot be understood; `kind` says which part of it."""

    def __init__(self, message: str, kind: Kind = "Payload", status: int = 400) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.status = status


class Forbidden(Exception):
    """A request that only a person may make, without proof that a person made it."""


class Formed(Exception):
    """An error whose answer has a form of its own in opencode's document."""

    def __init__(self, status: int, form: wire.Plain) -> None:
        super().__init__(str(form.get("message", "")))
        self.status = status
        self.form = form


class Missing(Formed):
    """A permission or question that does not wait; `tag` is opencode's name for that."""

    def __init__(self, tag: str, request_id: str, message: str) -> None:
        super().__init__(404, {"_tag": tag, "requestID": request_id, "message": message})


def reply(value: object, status: int = 200) -> Response:
    """Return an answer with a JSON body."""
    return Response(wire.encode(value), status, media_type="application/json")


def refusal(status: int, name: str, message: str, **more: object) -> Response:
    """Return ``{"name": …, "data": {"message": …}}``."""
    return reply({"name": name, "data": {"message": message, **more}}, status)


def answer_for(error: Exception, path: str = "") -> Response:
    """Return the answer that tells of an exception. What nobody foresaw is logged under the answer's ref.

    `path` is the request's: opencode's newer routes (``/api/…``) have another form for the same errors. All others use
    the form with a name, as a real opencode does, also where its document has only the tagged form.
    """
    if path.startswith("/api/") and (newer := _tagged(error, path)) is not None:
        return newer
    match error:
        case Formed():
            return reply(error.form, error.status)
        case Forbidden():
            return refusal(403, "ForbiddenError", str(error))
        case NotFound():
            return refusal(404, "NotFoundError", str(error))
        case BadRequest():
            return refusal(error.status, "BadRequest", str(error), kind=error.kind)
        case Busy(session_id=session_id):
            answer = {"_tag": "SessionBusyError", "sessionID": session_id, "message": str(error)}
            return reply(answer, 409)
        case Invalid() | ConfigError() | DocumentError():
            return refusal(400, "BadRequest", str(error))
        case WorkerEnds():
            return refusal(503, "ServiceUnavailableError", str(error))
        case StoreError():
            # A full disk, a database that was taken away: the text says what to do, and the request may be made again.
            return refusal(503, "ServiceUnavailableError", str(error), ref=_logged(error))
        case _:
            return refusal(500, "UnknownError", _UNFORESEEN, ref=_logged(error))


def _tagged(error: Exception, path: str) -> Response | None:
    """Return the answer in the form of opencode's newer routes; None for an error that has one form everywhere."""
    text, session = str(error), _SESSION.match(path)
    match error:
        case Formed() | Busy():
            return None
        case NotFound() if session is not None:
            return reply({"_tag": "SessionNotFoundError", "sessionID": session[1], "message": text}, 404)
        case NotFound() | Forbidden():
            return None
        case BadRequest():
            return reply({"_tag": "InvalidRequestError", "message": text, "kind": error.kind}, error.status)
        case Invalid() | ConfigError() | DocumentError():
            return reply({"_tag": "InvalidRequestError", "message": text}, 400)
        case StoreError():
            return reply({"_tag": "ServiceUnavailableError", "message": text, "service": "store"}, 503)
        case _:
            return reply({"_tag": "UnknownError", "message": _UNFORESEEN, "ref": _logged(error)}, 500)


def _logged(error: Exception) -> str:
    """Log an unexpected error with its traceback; return the ref that the answer and the line share."""
    ref = ids.new("err")
    log.error("request failed ref=%s", ref, exc_info=error)
    return ref
