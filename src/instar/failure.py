"""From what went wrong in a step to the error that its message carries."""

from instar.message import (
    APIError,
    APIErrorData,
    AuthData,
    ContentFilterError,
    ContextOverflowError,
    ErrorText,
    MessageError,
    OverflowData,
    ProviderAuthError,
    UnknownData,
    UnknownError,
)
from instar.provider.protocol import ProviderError


def message_error(error: Exception, provider_id: str) -> MessageError:
    """Return the message error for an exception of a step; the text never holds a traceback."""
    if not isinstance(error, ProviderError):
        return UnknownError(data=UnknownData(message=f"{type(error).__name__}: {error}"))
    text = str(error)
    if error.kind == "auth":
        return ProviderAuthError(data=AuthData(provider_id=provider_id, message=text))
    if error.kind == "overflow":
        return ContextOverflowError(data=OverflowData(message=text, response_body=error.body))
    if error.kind == "filter":
        return ContentFilterError(data=ErrorText(message=text))
    return APIError(
        data=APIErrorData(
            message=text,
            status_code=error.status,
            is_retryable=error.retryable,
            response_headers=error.headers,
            response_body=error.body,
            metadata={"url": error.url} if error.url else None,
        )
    )
