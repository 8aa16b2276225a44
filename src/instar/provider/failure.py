"""Errors of model calls, in texts that a person can act on and that hold no key.

One place decides which failures are worth another try, which mean that the conversation is too long,
and what of a provider's answer may be shown. The rules follow opencode 1.18's retries and the error texts of the
providers in the catalogue.
"""

import contextlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

import msgspec

from instar.provider.protocol import ProviderError
from instar.wire.pattern import late_pattern
from instar.wire.secret import Secret, redact

MAX_BODY: Final = 64 << 10
"""Bytes of a refusal's body that are read and kept."""
_OVERFLOW: Final = late_pattern(
    r"context[_ ](?:length|window)[_ ]?exceeded"
    r"|(?:maximum|max) (?:context|prompt|input) length"
    r"|(?:prompt|input|request) is too (?:long|large)"
    r"|(?:exceeds?|exceeded|exceeding|longer than|greater than|over) (?:the |this |your )?"
    r"(?:model'?s? |available |maximum |max |allowed )*(?:context|token limit|input token)"
    r"|(?:context|prompt) (?:window|size|length)[^.]{0,40} (?:exceed|too (?:small|long))"
    r"|input token count[^.]{0,60} exceeds"
    r"|reduce the (?:length|size) of (?:the|your) (?:messages|prompt|input)"
    r"|too many (?:input )?tokens",
    re.IGNORECASE,
)
_TRANSIENT: Final = late_pattern(
    r"rate.?limit|too many requests|overloaded|temporarily|try again|server.?error|unavailable"
    r"|timed? ?out|internal error|capacity|resource.?exhausted",
    re.IGNORECASE,
)
_SPENT: Final = late_pattern(
    r"insufficient[_ ]quota|billing|credit balance|exceeded your current quota", re.I
)
_FILTERED: Final = late_pattern(r"content.?(?:filter|policy)|safety (?:system|policy)", re.IGNORECASE)
_HIDDEN_HEADERS: Final = late_pattern(r"auth|cookie|key|token|secret", re.IGNORECASE)
_SHOWN_HEADERS: Final = late_pattern(
    r"^(?:content-type|date|server|retry-after(?:-ms)?|x-request-id|request-id|cf-ray|.*ratelimit.*)$", re.I
)


class ProviderEndpoint:
    """Makes the errors of calls to one address.

    `secrets` are the values that no text may show. Query and user name are cut off the address. `speaks`
    names the protocol that an answer should be in, `key_from` the place of the key.
    """

    def __init__(
        self,
        url: str,
        secrets: Iterable[Secret | None] = (),
        *,
        speaks: str = "Chat Completions",
        key_from: str = "options.apiKey, or its environment variable",
    ) -> None:
        self.url = public_url(url)
        self._speaks = speaks
        self._key_from = key_from
        found = {secret.reveal() for secret in secrets if secret}
        with contextlib.suppress(ValueError):
            # Some servers take their key in the address.
            parts = urlsplit(url)
            found |= {parts.password or "", *(value for _, value in parse_qsl(parts.query))} - {""}
        self._secrets = [Secret(form) for value in found for form in _forms(value)]

    def error(self, message: str, **facts: Any) -> ProviderError:
        """Return a `ProviderError` at this address, with every secret masked."""
        if facts.get("body") is not None:
            facts["body"] = redact(facts["body"], self._secrets)
        if facts.get("headers") is not None:
            facts["headers"] = {
                name: redact(value, self._secrets) for name, value in facts["headers"].items()
            }
        return ProviderError(redact(message, self._secrets), url=self.url, **facts)

    def network(self, what: str) -> ProviderError:
        """Return the error for a provider that cannot be reached, or a broken connection."""
        return self.error(f"{what} ({self.url})", kind="network", retryable=True)

    def malformed(self, data: bytes, why: str) -> ProviderError:
        """Return the error for an answer in another form than the protocol's; it shows the first 200 characters."""
        text = data[:MAX_BODY].decode("utf-8", "replace")
        kind = "HTML" if _is_html(text) else f"something that is not {self._speaks} JSON"
        return self.error(
            f"{self.url} answered {kind} ({why}): {_beginning(text)!r}. "
            "Is the provider's baseURL right? It usually ends in /v1.",
            body=text,
        )

    def refused(self, status: int, headers: Mapping[str, str], data: bytes) -> ProviderError:
        """Return the error for an HTTP status of 400 or more."""
        text = data[:MAX_BODY].decode("utf-8", "replace")
        said, code = _said(text)
        if not said:
            said = f"HTML, not JSON: {_beginning(text)!r}" if _is_html(text) else _beginning(text)
        kind, retryable = judge(status, f"{code} {said}")
        advice = ""
        if kind == "auth":
            advice = f" - check the provider's key ({self._key_from})"
        elif status == 404:
            advice = " - check the model's name and the provider's baseURL"
        return self.error(
            f"{self.url} answered {status}{f' ({code})' if code else ''}: {said or 'no text'}{advice}",
            kind=kind,
            status=status,
            retryable=retryable,
            retry_after=retry_after(headers),
            body=text,
            headers={name.lower(): value for name, value in headers.items() if _SHOWN_HEADERS.match(name)},
        )

    def in_stream(self, value: Any) -> ProviderError:
        """Return the error for an error object in the middle of an answer."""
        said, code = _object_said(value)
        status = int(code) if re.fullmatch("[1-5][0-9][0-9]", code) else None
        kind, retryable = judge(status, f"{code} {said}")
        return self.error(
            f"{self.url} broke off with an error{f' ({code})' if code else ''}: {said or 'no text'}",
            kind=kind,
            status=status,
            retryable=retryable,
            body=msgspec.json.encode(value)[:MAX_BODY].decode("utf-8", "replace"),
        )


def judge(status: int | None, text: str) -> tuple[str, bool]:
    """Return a refusal's kind and whether to try again, from its HTTP status and what it says."""
    if _OVERFLOW.search(text) or status == 413:
        return "overflow", False
    if status in (401, 403):
        return "auth", False
    if _SPENT.search(text):
        return "api", False
    if _FILTERED.search(text) and (status is None or status < 500):
        return "filter", False
    if status is None:
        return "api", _TRANSIENT.search(text) is not None
    return "api", status in (408, 409, 425, 429) or status >= 500 or "overloaded" in text.lower()


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds to wait that ``retry-after-ms`` or ``retry-after`` (seconds or a date) ask for."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _number(lower.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = lower.get("retry-after")
    seconds = _number(value)
    if seconds is None and value:
        # Start-up time: 5 ms that few calls need.
        from email.utils import parsedate_to_datetime

        try:
            date = parsedate_to_datetime(value).timestamp()
        except (ValueError, OverflowError):
            return None
        seconds = max(0.0, date - (time.time() if now is None else now))
    return seconds


def public_url(url: str) -> str:
    """Return `url` without user name, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))
    except ValueError:
        return "(an address that is none)"


def secrets_in(headers: Mapping[str, str]) -> list[Secret]:
    """Return the values of headers that authenticate, by their names."""
    found = [value for name, value in headers.items() if _HIDDEN_HEADERS.search(name)]
    return [Secret(piece) for value in found for piece in (value, value.rpartition(" ")[2])]


def _forms(value: str) -> set[str]:
    """Return a secret as it stands, as JSON writes it (slashes escaped or not), and as an address does."""
    quoted = json.dumps(value)[1:-1]
    return {value, quoted, quoted.replace("/", "\\/"), quote(value), quote(value, safe="")}


def _is_html(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n")[:1] == "<"


def _beginning(text: str) -> str:
    """Return the first 200 characters on one line."""
    return _cut(" ".join(text[:800].split()), 200)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _said(text: str) -> tuple[str, str]:
    """Return the message and the code in a refusal's body, both empty if it is not JSON."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return "", ""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return "", ""
    inner = value.get("error")
    return _object_said(inner if inner else value)


def _object_said(value: Any) -> tuple[str, str]:
    if not isinstance(value, dict):
        return str(value), ""
    said = next((value[key] for key in ("message", "detail", "msg", "title") if value.get(key)), "")
    text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
    metadata = value.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str) and raw not in text:
        text = f"{text} {raw}"
    code = next((value[key] for key in ("code", "type", "status") if value.get(key)), "")
    return _cut(text, 2000), str(code)


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e9 else None
