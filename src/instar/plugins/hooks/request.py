"""The ``http`` evaluator: the event is posted to an address, whose answer decides (issue 8, item 4).

The rule's time is wall-clock, over the connection and the whole answer. Redirects are not followed: the address that
a person wrote is the one that is told. Of the environment only those variables go into headers that the rule names.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from instar.plugins.hooks import payload
from instar.plugins.hooks.command import read_http
from instar.plugins.hooks.evaluate import Means
from instar.plugins.hooks.event import Event
from instar.plugins.hooks.outcome import Outcome, Trace
from instar.plugins.hooks.program import SHOWN, joined
from instar.plugins.hooks.rule import Http, Rule
from instar.plugins.hooks.verdict import LARGEST

_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


async def evaluate(rule: Rule, event: Event, means: Means) -> Outcome:
    """Post the event of an `http` rule and return what the answer decides, not yet settled."""
    assert isinstance(rule.settings, Http)
    outcomes = []
    for _view, told in payload.payloads(event, rule.dialect):
        status, body, detail = await _posted(
            rule.settings, payload.encode(told), rule.timeout, means.environment
        )
        outcome = read_http(status, body, rule, event, detail)
        shown = body[: 4 * SHOWN].decode("utf-8", "replace").strip()[:SHOWN]
        outcomes.append(msgspec.structs.replace(outcome, trace=Trace(code=status, output=shown)))
        if outcome.action == "deny":
            break
    return joined(outcomes)


async def _posted(
    http: Http, body: bytes, seconds: float, environment: Mapping[str, str]
) -> tuple[int | None, bytes, str]:
    """The status (None: no answer came), what came of the answer, and why no more of it."""
    # Inside: 0.1 s that a session without such a rule does not spend.
    import httpx2

    headers = {"content-type": "application/json", **headers_of(http, environment)}
    answer = b""
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(timeout=None) as client,
            client.stream("POST", http.url, content=body, headers=headers) as response,
        ):
            async for chunk in response.aiter_bytes():
                answer += chunk
                if len(answer) >= LARGEST:
                    break
            return response.status_code, answer[:LARGEST], ""
    except TimeoutError:
        return None, answer, f"{http.url} did not answer within {seconds:g} s"
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, UnicodeError) as error:
        return None, answer, f"{http.url} cannot be asked: {str(error) or type(error).__name__}"


def headers_of(http: Http, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a rule's headers; a variable that it does not name in ``allowedEnvVars`` is empty."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return environment.get(name, "") if name in http.variables else ""

    return {name: _VARIABLE.sub(value, text) for name, text in http.headers}
