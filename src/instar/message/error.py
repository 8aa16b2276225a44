"""The errors that an assistant message can carry, tagged by ``name`` as opencode has them."""

import msgspec

from instar.wire import Plain, Wire


class ErrorText(Wire):
    """An error that is only a sentence."""

    message: str


class UnknownData(Wire):
    """An error without a name of its own; `ref` finds it in the log."""

    message: str
    ref: str | None = None


class APIErrorData(Wire):
    """A provider's refusal, with its HTTP status and what it answered."""

    message: str
    status_code: int | None = None
    is_retryable: bool
    response_headers: dict[str, str] | None = None
    response_body: str | None = None
    metadata: dict[str, str] | None = None


class AuthData(Wire):
    """Which provider's key is missing or refused."""

    provider_id: str = msgspec.field(default_factory=str)
    message: str


class OverflowData(Wire):
    """The request was longer than the model's window."""

    message: str
    response_body: str | None = None


class StructuredData(Wire):
    """The answer did not fit the schema that was asked for, after so many retries."""

    message: str
    retries: int


class ErrorBase(Wire, tag_field="name"):
    """What every error has: its name."""

    @property
    def name(self) -> str:
        """Which error it is, as the wire has it: ``APIError`` …"""
        return str(self.__struct_config__.tag)


class APIError(ErrorBase, tag="APIError"):
    """The provider answered with an error, or could not be reached."""

    data: APIErrorData


class ProviderAuthError(ErrorBase, tag="ProviderAuthError"):
    """The provider refused the key, or there is none."""

    data: AuthData


class UnknownError(ErrorBase, tag="UnknownError"):
    """Anything else."""

    data: UnknownData


class MessageOutputLengthError(ErrorBase, tag="MessageOutputLengthError"):
    """The model's answer was cut at its output limit."""

    data: Plain


class MessageAbortedError(ErrorBase, tag="MessageAbortedError"):
    """A person ended the turn."""

    data: ErrorText


class StructuredOutputError(ErrorBase, tag="StructuredOutputError"):
    """The model did not answer in the form that was asked for."""

    data: StructuredData


class ContextOverflowError(ErrorBase, tag="ContextOverflowError"):
    """The conversation does not fit the model's window."""

    data: OverflowData


class ContentFilterError(ErrorBase, tag="ContentFilterError"):
    """The provider's content filter stopped the answer."""

    data: ErrorText


MessageError = (
    APIError
    | ProviderAuthError
    | UnknownError
    | MessageOutputLengthError
    | MessageAbortedError
    | StructuredOutputError
    | ContextOverflowError
    | ContentFilterError
)


def error_text(error: MessageError) -> str:
    """Return the sentence that an error carries."""
    data = error.data
    if isinstance(data, dict):
        return str(data.get("message") or "The answer was cut at the model's output limit.")
    return data.message
