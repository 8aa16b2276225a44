"""The typed client for a running server (issue 10): `Client` waits for each answer, `AsyncClient` is awaited.

``client.session.prompt(session_id, PromptBody.text("hi"))`` is ``POST /session/{sessionID}/message``: the methods are
named by the operations' ids and generated from the server's own types (`tests/client/generator.py`), so an operation
that changes without its client fails a test. Errors are `NotFound`, `Invalid`, `Busy`, `ApiError` and `Unreachable`.
"""

from instar.api.request import Busy, CommandBody, Invalid, NotFound, PromptBody, SessionBody
from instar.client.asynchronous import AsyncClient
from instar.client.request import ApiError, Request, Unreachable
from instar.client.synchronous import Client

__all__ = [
    "ApiError",
    "AsyncClient",
    "Busy",
    "Client",
    "CommandBody",
    "Invalid",
    "NotFound",
    "PromptBody",
    "Request",
    "SessionBody",
    "Unreachable",
]
