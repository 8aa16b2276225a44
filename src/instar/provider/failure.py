"""What went wrong with a model call, in words that a person can act on and that hold no key.

One place decides which failures are worth another try, which mean that the conversation is too long,
and what of a provider's answer may be shown. Sources: opencode 1.18's retry rules (the reference's
section 3.2) and the error texts of the providers in the catalogue.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

import msgspec

from instar.provider.protocol import ProviderError
from instar.secret import Secret, redact

MAX_BODY: Final = 64 << 10
"""Bytes of a refusal's body that are read and kept."""
LONGEST_WAIT: Final = 3600.0
"""Seconds that a provider may ask us to wait before another try."""
_SNIPPET: Final = 200
_OVERFLOW: Final = re.compile(
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
_TRANSIENT: Final = re.compile(
    r"rate.?limit|too many requests|overloaded|temporarily|try again|server.?error|unavailable"
    r"|timed? ?out|internal error|capacity|resource.?exhausted",
    re.IGNORECASE,
)
_SPENT: Final = re.compile(r"insufficient[_ ]quota|billing|credit balance|exceeded your current quota", re.I)
_FILTERED: Final = re.compile(r"content.?(?:filter|policy)|safety (?:system|policy)", re.IGNORECASE)
_HIDDEN_HEADERS: Final = re.compile(r"auth|cookie|key|token|secret", re.IGNORECASE)
_SHOWN_HEADERS: Final = re.compile(
    r"^(?:content-type|date|server|retry-after(?:-ms)?|x-request-id|request-id|cf-ray|.*ratelimit.*)$", re.I
)


class Endpoint:
    """An address that model calls go to, as far as errors may speak of it.

    `secrets` are the values that no text may show. Query and user name are cut off the address. `speaks`
    names the protocol that an answer should be in.
    """

    def __init__(self, url: str, secrets: Iterable[Secret] = (), *, speaks: str = "Chat Completions") -> None:
        self.url = public_url(url)
        self._speaks = speaks
        found = {secret.reveal() for secret in secrets if secret} | _secrets_of(url)
        self._secrets = [Secret(form) for value in found for form in _forms(value)]

    def error(self, message: str, **facts: Any) -> ProviderError:
        """Return a `ProviderError` at this address, without secrets in any of its texts."""
        if facts.get("body") is not None:
            facts["body"] = self.clean(facts["body"])
        if facts.get("headers") is not None:
            facts["headers"] = {name: self.clean(value) for name, value in facts["headers"].items()}
        return ProviderError(self.clean(message), url=self.url, **facts)

    def clean(self, text: str) -> str:
        """Return `text` with every secret masked."""
        return redact(text, self._secrets)

    def network(self, what: str) -> ProviderError:
        """The provider could not be reached, or the connection broke."""
        return self.error(f"{what} ({self.url})", kind="network", retryable=True)

    def malformed(self, data: bytes, why: str) -> ProviderError:
        """The answer is none of the protocol; its first 200 characters are shown."""
        text = data[:MAX_BODY].decode("utf-8", "replace")
        kind = "HTML" if looks_like_html(text) else f"something that is not {self._speaks} JSON"
        return self.error(
            f"{self.url} answered {kind} ({why}): {snippet(text)!r}. "
            "Is the provider's baseURL right? It usually ends in /v1.",
            body=text,
        )

    def refused(self, status: int, headers: Mapping[str, str], data: bytes) -> ProviderError:
        """The provider answered with an HTTP status of 400 or more."""
        text = data[:MAX_BODY].decode("utf-8", "replace")
        said, code = _said(text)
        if not said:
            said = f"HTML, not JSON: {snippet(text)!r}" if looks_like_html(text) else snippet(text)
        kind, retryable = judge(status, f"{code} {said}")
        named = f" ({code})" if code else ""
        return self.error(
            f"{self.url} answered {status}{named}: {said or 'no text'}{_advice(status, kind)}",
            kind=kind,
            status=status,
            retryable=retryable,
            retry_after=retry_after(headers),
            body=text,
            headers={name.lower(): value for name, value in headers.items() if _SHOWN_HEADERS.match(name)},
        )

    def in_stream(self, value: Any) -> ProviderError:
        """The provider sent an error object in the middle of its answer."""
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
    """Return the seconds to wait that ``retry-after-ms`` or ``retry-after`` (seconds or a date) ask for.

    At most `LONGEST_WAIT`: a server must not put a turn to sleep for good.
    """
    found = _asked_wait(headers, time.time() if now is None else now)
    return None if found is None else min(found, LONGEST_WAIT)


def _asked_wait(headers: Mapping[str, str], now: float) -> float | None:
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _number(lower.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = lower.get("retry-after")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        date = parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, date - now)


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
    """Return the values of the headers whose name says that they authenticate."""
    found = [value for name, value in headers.items() if _HIDDEN_HEADERS.search(name)]
    return [Secret(piece) for value in found for piece in (value, value.rpartition(" ")[2])]


def _secrets_of(url: str) -> set[str]:
    """The password and the query's values of an address: some servers take their key there."""
    try:
        parts = urlsplit(url)
        return {parts.password or "", *(value for _, value in parse_qsl(parts.query))} - {""}
    except ValueError:
        return set()


def _forms(value: str) -> set[str]:
    """A secret as it stands, as JSON writes it (with and without its slashes escaped), and as an address does."""
    quoted = json.dumps(value)[1:-1]
    return {value, quoted, quoted.replace("/", "\\/"), quote(value), quote(value, safe="")}


def looks_like_html(text: str) -> bool:
    """Whether `text` begins as a web page does."""
    return text.lstrip("\ufeff \t\r\n")[:1] == "<"


def snippet(text: str) -> str:
    """Return the first 200 characters on one line."""
    flat = " ".join(text[: 4 * _SNIPPET].split())
    return flat if len(flat) <= _SNIPPET else flat[:_SNIPPET] + "…"


def _advice(status: int, kind: str) -> str:
    if kind == "auth":
        return " - check the provider's key (options.apiKey, or its environment variable)"
    if status == 404:
        return " - check the model's name and the provider's baseURL"
    return ""


def _said(text: str) -> tuple[str, str]:
    """What a refusal's body says and its code, both empty when it is not JSON."""
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
    raw = (value.get("metadata") or {}).get("raw") if isinstance(value.get("metadata"), dict) else None
    code = next((value[key] for key in ("code", "type", "status") if value.get(key)), "")
    text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
    return snippet_long(f"{text} {raw}" if isinstance(raw, str) and raw not in text else text), str(code)


def snippet_long(text: str) -> str:
    """Return what a provider said, cut at 2,000 characters: its own words are worth more room than a page."""
    return text if len(text) <= 10 * _SNIPPET else text[: 10 * _SNIPPET] + "…"


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e9 else None
