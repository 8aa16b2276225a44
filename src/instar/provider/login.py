"""Logging in to providers by the methods that plugins offer, in the steps in which a client takes them.

A method is ``{"type": "oauth", "label", "prompts", "authorize": async (inputs) -> answer}`` in ``methods`` of a
plugin's ``auth``; the answer is ``{"url", "instructions", "method": "auto" | "code", "callback"}``, and what its
callback returns is kept. The names are opencode's.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from instar.api.provider import ProviderAuthAuthorization, ProviderAuthMethod
from instar.api.session import Invalid
from instar.api.v2 import AttemptTime, IntegrationAttempt, IntegrationAttemptStatus
from instar.plugin.door import PATIENCE, Plugins, in_time
from instar.provider.keys import Keys
from instar.wire import Plain

log = logging.getLogger("instar.provider")

LIFETIME: Final = 600.0
"""Seconds in which a login that was begun can be ended."""
_MOST: Final = 50
"""Logins that may be under way; of more the oldest is forgotten."""

_Method = Mapping[str, Any]


class LoginError(Exception):
    """A login that failed; `name` is opencode's name of the reason, `data` its fields."""

    def __init__(self, name: str, **data: str) -> None:
        super().__init__(data.get("message", name))
        self.name = name
        self.data = data


class Attempt:
    """A login that was begun. `failure` is why it failed; `done` is true once its result is kept."""

    def __init__(self, provider_id: str, answer: Mapping[str, Any]) -> None:
        self.id = f"att_{secrets.token_hex(12)}"
        self.provider_id = provider_id
        self.created = time.time()
        self.done = False
        self.failure: str | None = None
        self.task: asyncio.Task[None] | None = None
        self.callback = answer.get("callback")
        self.authorization = ProviderAuthAuthorization(
            url=str(answer.get("url") or ""),
            method="code" if answer.get("method") == "code" else "auto",
            instructions=str(answer.get("instructions") or ""),
        )

    @property
    def time_span(self) -> AttemptTime:
        """When it began and when it expires, in ms."""
        return AttemptTime(created=int(self.created * 1000), expires=int((self.created + LIFETIME) * 1000))

    @property
    def is_expired(self) -> bool:
        """True if it was not ended within `LIFETIME`."""
        return not self.done and time.time() > self.created + LIFETIME


class Logins:
    """The login methods of one instance's plugins, and the logins that were begun."""

    def __init__(self, plugins: Plugins, keys: Keys) -> None:
        self._plugins = plugins
        self._keys = keys
        self._attempts: dict[str, Attempt] = {}

    def methods(self) -> dict[str, list[ProviderAuthMethod]]:
        """Return the methods by provider; one whose prompts are malformed is left out."""
        found: dict[str, list[ProviderAuthMethod]] = {}
        for provider_id in dict.fromkeys(str(hook.get("provider")) for hook in self._hooks()):
            shown = [one for one in map(_shown, self._of(provider_id)) if one is not None]
            if shown:
                found[provider_id] = shown
        return found

    async def begin(self, provider_id: str, at: int, inputs: Mapping[str, str]) -> Attempt:
        """Begin a login by the method `at` of a provider. Raises `Invalid` and `LoginError`."""
        offered = [one for one in self._of(provider_id) if _shown(one) is not None]
        if at >= len(offered):
            raise Invalid(f"no plugin offers a method {at} to log in to {provider_id}")
        method = offered[at]
        if method["type"] != "oauth" or not callable(method.get("authorize")):
            raise Invalid(f"the method {at} of {provider_id} wants a key: PUT /auth/{provider_id}")
        _check(method.get("prompts") or (), inputs)
        try:
            answer = await in_time(PATIENCE, method["authorize"], dict(inputs))
            attempt = Attempt(provider_id, answer)
        except Exception as error:
            raise _failed(provider_id, error) from error
        while len(self._attempts) >= _MOST:
            self.cancel(next(iter(self._attempts)))
        self._attempts[attempt.id] = attempt
        return attempt

    def last(self, provider_id: str) -> Attempt:
        """Return the login to a provider that was begun last. Raises `LoginError` when none is under way."""
        for attempt in reversed(self._attempts.values()):
            if attempt.provider_id == provider_id and not attempt.done and not attempt.is_expired:
                return attempt
        raise LoginError("ProviderAuthOauthMissing", providerID=provider_id)

    def get(self, attempt_id: str) -> Attempt:
        """Return a login that was begun. Raises `Invalid` when there is none of that id."""
        if attempt_id not in self._attempts:
            raise Invalid(f"there is no login {attempt_id} under way")
        return self._attempts[attempt_id]

    async def end(self, attempt: Attempt, code: str | None = None) -> None:
        """End a login: hand in the code, or wait until the person has logged in. Raises `LoginError`."""
        provider_id = attempt.provider_id
        if attempt.authorization.method == "code" and not code:
            raise LoginError("ProviderAuthOauthCodeMissing", providerID=provider_id)
        if attempt.is_expired or not callable(attempt.callback):
            raise LoginError("ProviderAuthOauthMissing", providerID=provider_id)
        try:
            given = (code,) if attempt.authorization.method == "code" else ()
            answer = await asyncio.wait_for(attempt.callback(*given), LIFETIME)
            name, entry = entry_of(answer, provider_id)
            self._keys.keep(name, entry)
        except Exception as error:
            attempt.failure = str(error) or type(error).__name__
            raise _failed(provider_id, error) from error
        attempt.done = True

    def follow(self, attempt: Attempt) -> IntegrationAttempt:
        """Return a login as the newer routes show it, and wait for its end in the background if it needs no code."""
        if attempt.authorization.method == "auto" and attempt.task is None:
            attempt.task = asyncio.create_task(self._wait(attempt), name=f"login {attempt.provider_id}")
        return IntegrationAttempt(
            attempt_id=attempt.id,
            url=attempt.authorization.url,
            instructions=attempt.authorization.instructions,
            mode=attempt.authorization.method,
            time=attempt.time_span,
        )

    def status(self, attempt_id: str) -> IntegrationAttemptStatus:
        """Return a login's status. Raises as `get`."""
        attempt = self.get(attempt_id)
        stands = IntegrationAttemptStatus(status="pending", time=attempt.time_span)
        if attempt.done:
            stands.status = "complete"
        elif attempt.failure is not None:
            stands.status, stands.message = "failed", attempt.failure
        elif attempt.is_expired:
            stands.status = "expired"
        return stands

    def cancel(self, attempt_id: str) -> None:
        """Forget a login; nothing happens when there is none of that id."""
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is not None and attempt.task is not None:
            attempt.task.cancel()

    async def _wait(self, attempt: Attempt) -> None:
        try:
            await self.end(attempt)
        except LoginError as error:
            log.warning("login failed provider=%s: %s", attempt.provider_id, error)

    def _hooks(self) -> list[_Method]:
        return [hook for _, hook in self._plugins.registered("auth") if isinstance(hook, Mapping)]

    def _of(self, provider_id: str) -> list[_Method]:
        return [
            method
            for hook in self._hooks()
            if hook.get("provider") == provider_id
            for method in hook.get("methods") or ()
            if isinstance(method, Mapping) and method.get("type") in ("api", "oauth")
        ]


def entry_of(answer: Any, provider_id: str) -> tuple[str, Plain]:
    """Return the provider of a callback's answer, and what is kept, in opencode's form. Raises `ValueError`."""
    if not isinstance(answer, Mapping) or answer.get("type") != "success":
        raise ValueError(f"the login to {provider_id} failed")
    name = str(answer.get("provider") or provider_id)
    rest = json.loads(json.dumps({key: answer[key] for key in answer if key not in ("type", "provider")}))
    if isinstance(answer.get("key"), str) and answer["key"]:
        return name, {"type": "api", **rest}
    wanted = {"refresh": str, "access": str, "expires": int | float}
    wrong = [key for key, kind in wanted.items() if not isinstance(answer.get(key), kind)]
    if wrong:
        raise ValueError(f"the plugin's login gave no sound {', '.join(wrong)}")
    return name, {"type": "oauth", **rest}


def _failed(provider_id: str, error: Exception) -> LoginError:
    text = str(error) or type(error).__name__
    log.error("login failed provider=%s", provider_id, exc_info=error)
    return LoginError("ProviderAuthOauthCallbackFailed", providerID=provider_id, message=text)


def _check(prompts: Sequence[Any], inputs: Mapping[str, str]) -> None:
    """Raise `LoginError` for the first input that its prompt does not accept."""
    for prompt in prompts:
        key = str(prompt.get("key"))
        options = [str(option["value"]) for option in prompt.get("options") or ()]
        text, problem = inputs.get(key, ""), None
        if key in inputs and options and text not in options:
            problem = f"expected one of {', '.join(options)}"
        elif key in inputs and callable(prompt.get("validate")):
            problem = prompt["validate"](text)
        if problem:
            raise LoginError("ProviderAuthValidationFailed", field=key, message=str(problem))


def _shown(method: _Method) -> ProviderAuthMethod | None:
    """Return a method as clients see it; None if its prompts are malformed."""
    plain = {
        "type": method["type"],
        "label": str(method.get("label") or method["type"]),
        "prompts": [_prompt(one) for one in method.get("prompts") or ()] or None,
    }
    try:
        return msgspec.convert(plain, ProviderAuthMethod)
    except msgspec.ValidationError as error:
        log.error("a login's method is left out label=%s: %s", plain["label"], error)
        return None


def _prompt(prompt: Any) -> Any:
    """Return a prompt without its functions; `condition` of opencode's older plugins cannot be shown."""
    if not isinstance(prompt, Mapping):
        return prompt
    kept = ("type", "key", "message", "placeholder", "options", "when")
    return {"type": "text", **{key: prompt[key] for key in kept if prompt.get(key) is not None}}
