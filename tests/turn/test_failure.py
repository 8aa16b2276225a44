"""From what went wrong in a step to the error that its message carries."""

import pytest

from instar import wire
from instar.provider.protocol import ProviderError
from instar.turn.model_call import message_error

CASES = [
    (
        ProviderError("no", kind="auth", status=401),
        {"name": "ProviderAuthError", "data": {"providerID": "p", "message": "no"}},
    ),
    (
        ProviderError("too long", kind="overflow", body="{}"),
        {"name": "ContextOverflowError", "data": {"message": "too long", "responseBody": "{}"}},
    ),
    (
        ProviderError("not that", kind="filter"),
        {"name": "ContentFilterError", "data": {"message": "not that"}},
    ),
    (
        ProviderError(
            "slow down", status=429, retryable=True, headers={"a": "b"}, body="x", url="http://127.0.0.1/v1"
        ),
        {
            "name": "APIError",
            "data": {
                "message": "slow down",
                "statusCode": 429,
                "isRetryable": True,
                "responseHeaders": {"a": "b"},
                "responseBody": "x",
                "metadata": {"url": "http://127.0.0.1/v1"},
            },
        },
    ),
    (
        ProviderError("the line broke", kind="network", retryable=True),
        {"name": "APIError", "data": {"message": "the line broke", "isRetryable": True}},
    ),
    (KeyError("x"), {"name": "UnknownError", "data": {"message": "KeyError: 'x'"}}),
]


@pytest.mark.parametrize(("error", "plain"), CASES, ids=lambda value: type(value).__name__)
def test_each_failure_has_its_error(error: Exception, plain: dict) -> None:
    assert wire.to_plain(message_error(error, "p")) == plain
