"""Error answers in opencode's form (the reference's section 4)."""

import logging
from typing import Literal

from starlette.responses import Response

from instar import ids, wire
from instar.config import ConfigError
from instar.document import DocumentError
from instar.plugin import Busy, Invalid, NotFound

log = logging.getLogger("instar.server")

Kind = Literal["Params", "Headers", "Query", "Body", "Payload"]


class BadRequest(Exception):
    """A request that cannot be understood; `kind` says which part of it."""

    def __init__(self, message: str, kind: Kind = "Payload", status: int = 400) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.status = status


def reply(value: object, status: int = 200) -> Response:
    """Return an answer with a JSON body."""
    return Response(wire.encode(value), status, media_type="application/json")


def refusal(status: int, name: str, message: str, **more: object) -> Response:
    """Return ``{"name": …, "data": {"message": …}}``."""
    return reply({"name": name, "data": {"message": message, **more}}, status)


def missing(tag: str, request_id: str, message: str) -> Response:
    """Return opencode's answer for a permission or question that does not wait; `tag` names which."""
    return reply({"_tag": tag, "requestID": request_id, "message": message}, 404)


def answer_for(error: Exception) -> Response:
    """Return the answer that tells of an exception. What nobody foresaw is logged under the answer's ref."""
    match error:
        case NotFound():
            return refusal(404, "NotFoundError", str(error))
        case BadRequest():
            return refusal(error.status, "BadRequest", str(error), kind=error.kind)
        case Busy(session_id=session_id):
            answer = {"_tag": "SessionBusyError", "sessionID": session_id, "message": str(error)}
            return reply(answer, 409)
        case Invalid() | ConfigError() | DocumentError():
            return refusal(400, "BadRequest", str(error))
        case _:
            ref = ids.new("err")
            log.error("request failed ref=%s", ref, exc_info=error)
            text = "Unexpected server error. Check server logs for details."
            return refusal(500, "UnknownError", text, ref=ref)
