"""A login's own ``fetch``: what sends a provider's calls in the place of instar's connections (issue 11).

The ``loader`` of a plugin's ``auth`` may give one beside its options, as in opencode.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec


class FetchRequest(msgspec.Struct, frozen=True):
    """A call of a provider as instar would send it; `headers` have names in small letters."""

    url: str
    method: str
    headers: dict[str, str]
    body: bytes


class FetchResponse(msgspec.Struct, frozen=True):
    """What came back: the HTTP status, the headers, and the body as it comes, decompressed.

    The body is closed where it is left early; its chunks may raise as a `Fetch` does.
    """

    status: int
    headers: Sequence[tuple[str, str]]
    body: AsyncGenerator[bytes, None]


Fetch = Callable[[FetchRequest], Awaitable[FetchResponse]]
"""Sends a request. An `OSError` means that nobody was reached, and the call is tried again; any other error ends it."""


class FetchFailed(Exception):
    """A `Fetch` did not send a call, or broke off, for a reason of its own; the text is the reason's."""
