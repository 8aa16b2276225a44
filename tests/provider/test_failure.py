import json
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from instar.provider.failure import ProviderEndpoint, judge, public_url, retry_after, secrets_in
from instar.wire.secret import Secret

OPENAI_OVERFLOW = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000."
)


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (401, "Incorrect API key", ("auth", False)),
        (403, "forbidden", ("auth", False)),
        (429, "slow down", ("api", True)),
        (429, "You exceeded your current quota (insufficient_quota)", ("api", False)),
        (500, "", ("api", True)),
        (502, "", ("api", True)),
        (503, "", ("api", True)),
        (529, "overloaded_error", ("api", True)),
        (400, "Overloaded", ("api", True)),
        (408, "", ("api", True)),
        (400, "bad request", ("api", False)),
        (404, "no such model", ("api", False)),
        (402, "Insufficient credit balance", ("api", False)),
        (400, "content_filter: flagged", ("filter", False)),
        (413, "too big", ("overflow", False)),
        (None, "internal error", ("api", True)),
        (None, "no", ("api", False)),
    ],
)
def test_a_refusal_is_judged_by_its_status_and_words(status, text, expected):
    assert judge(status, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        OPENAI_OVERFLOW,
        "context_length_exceeded",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Your input exceeds the context window of this model.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
        "Invalid request: Your request exceeded model token limit: 131072",
        "the request exceeds the available context size, try increasing it",
        "Input is too long for requested model.",
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
    ],
)
def test_a_conversation_that_is_too_long_is_recognised(text):
    assert judge(400, text) == ("overflow", False)


@pytest.mark.parametrize(
    "text",
    ["max_tokens is too large: 999999", "Unknown parameter: context", "this tool name is too long"],
)
def test_other_lengths_are_not_taken_for_an_overflow(text):
    assert judge(400, text)[0] == "api"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": format_datetime(datetime.fromtimestamp(1_000_030, UTC), usegmt=True)}, 30.0),
        ({"retry-after": format_datetime(datetime.fromtimestamp(999_000, UTC), usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_time_to_wait_is_read_in_every_form(headers, expected):
    assert retry_after(headers, now=1_000_000) == expected


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "No.", "code": "x"}}, "(x): No."),
        ({"error": "No."}, ": No."),
        ({"message": "No."}, ": No."),
        ({"detail": [{"msg": "No."}]}, '[{"msg":"No."}]'),
        ([{"error": {"message": "No.", "status": "INVALID"}}], "(INVALID): No."),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "No."}}}, "error No."),
    ],
)
def test_what_the_provider_said_is_shown(body, said):
    error = ProviderEndpoint("http://host/v1").refused(400, {}, json.dumps(body).encode())
    assert said in str(error)
    assert error.status == 400


def test_a_page_in_place_of_a_refusal_is_named():
    error = ProviderEndpoint("http://host/v1").refused(502, {}, b"<html>" + b"Bad gateway " * 500)
    assert "HTML, not JSON: '<html>Bad gateway" in str(error)
    assert len(str(error)) < 400
    assert error.retryable


def test_no_secret_is_in_any_text():
    key = "sk-secret-123456"
    endpoint = ProviderEndpoint(f"http://me:{key}@host:8/v1?key={key}", [Secret(key)])
    error = endpoint.refused(
        401,
        {"x-request-id": key, "set-cookie": key, "authorization": key, "server": "x"},
        json.dumps({"error": {"message": f"Incorrect key {key}"}}).encode(),
    )
    assert key not in str(error) + str(error.url) + str(error.body) + str(error.headers)
    assert error.url == "http://host:8/v1"
    assert error.headers == {"x-request-id": "***", "server": "x"}


def test_values_of_headers_that_authenticate_are_secrets():
    found = secrets_in({"Authorization": "Bearer abcdef-1", "X-Api-Key": "k-123456", "Accept": "text/html"})
    assert {secret.reveal() for secret in found} == {"Bearer abcdef-1", "abcdef-1", "k-123456"}


def test_an_address_is_shown_without_its_query():
    assert public_url("https://u:p@host/v1?key=1#x") == "https://host/v1"
    assert public_url("http://[::1]:8/v1") == "http://[::1]:8/v1"
    assert public_url("http://[oops") == "(an address that is none)"


@pytest.mark.parametrize("body", [b"[" * 60_000, b'{"error":' + b"[" * 20_000 + b"]" * 20_000 + b"}"])
def test_a_refusal_that_is_nested_too_deeply_is_still_told(body):
    assert "answered 400" in str(ProviderEndpoint("http://host/v1").refused(400, {}, body))


@pytest.mark.parametrize("code", ["\u00b2\u00b2\u00b2", "999", "abc", {"a": 1}])
def test_a_code_that_is_no_status_is_only_shown(code):
    assert ProviderEndpoint("http://host/v1").in_stream({"code": code, "message": "x"}).status is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"bad key sk-a/b+c=\\"d"}}',
        b'{"error":{"message":"bad key sk-a\\/b+c=\\"d"}}',
        b"no such page: /?key=sk-a%2Fb%2Bc%3D%22d",
        b'{"error":{"message":"http://me:hunter22@host/v1?key=querykey is unknown"}}',
    ],
)
def test_a_key_is_masked_however_it_is_written(body):
    endpoint = ProviderEndpoint("http://me:hunter22@host/v1?key=querykey", [Secret('sk-a/b+c="d')])
    error = endpoint.refused(401, {}, body)
    assert "***" in str(error)
    for shown in (str(error), error.body):
        assert not any(part in shown for part in ("sk-a", "%2Bc", "hunter22", "querykey"))
