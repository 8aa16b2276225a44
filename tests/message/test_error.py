import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar import wire
from instar.message import (
    APIError,
    APIErrorData,
    Assistant,
    AuthData,
    ContentFilterError,
    ContextOverflowError,
    ErrorText,
    MessageAbortedError,
    MessageError,
    MessageOutputLengthError,
    OverflowData,
    ProviderAuthError,
    StructuredData,
    StructuredOutputError,
    UnknownData,
    UnknownError,
    error_text,
)

ERRORS: list[MessageError] = [
    APIError(data=APIErrorData(message="m", is_retryable=False)),
    ProviderAuthError(data=AuthData(message="m")),
    UnknownError(data=UnknownData(message="m")),
    MessageOutputLengthError(data={}),
    MessageAbortedError(data=ErrorText(message="m")),
    StructuredOutputError(data=StructuredData(message="m", retries=0)),
    ContextOverflowError(data=OverflowData(message="m")),
    ContentFilterError(data=ErrorText(message="m")),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_with_its_least_fields_is_valid_by_opencodes_schema(
    error: MessageError, problems: Callable[[str, Any], list[str]]
) -> None:
    plain = wire.to_plain(error)
    assert problems(plain["name"], plain) == []
    assert wire.decode(wire.encode(error), type(error)) == error


def test_an_empty_provider_is_written_since_the_field_is_required() -> None:
    assert json.loads(wire.encode(AuthData(message="m"))) == {"providerID": "", "message": "m"}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_has_a_sentence(error: MessageError) -> None:
    assert error_text(error) == (
        "m" if hasattr(error.data, "message") else "The answer was cut at the model's output limit."
    )


def test_a_length_error_that_brings_its_own_sentence_keeps_it() -> None:
    assert error_text(MessageOutputLengthError(data={"message": "cut"})) == "cut"


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_list_of_errors_is_the_one_an_answer_may_carry(
    valid: Callable[..., st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    plain = {
        **data.draw(valid("AssistantMessage")),
        "error": data.draw(valid("AssistantMessage").map(lambda m: m.get("error"))),
    }
    if plain["error"] is not None:
        answer = wire.decode(plain, Assistant)
        assert type(answer.error) in {type(error) for error in ERRORS}
