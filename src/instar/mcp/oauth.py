"""OAuth with a remote server, by the SDK: it discovers, registers, proves (PKCE) and refreshes; this keeps."""

import asyncio
import time
from typing import Any

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from instar.mcp.login import Login


def provider(login: Login) -> OAuthClientProvider | None:
    """Return what authorizes the requests to a server; None if nobody has logged in and nobody is about to."""
    kept = login.entry()
    if not login.attended and "tokens" not in kept:
        return None
    settings = login.settings
    metadata = (_Scoped if settings.scope else OAuthClientMetadata)(
        client_name="instar",
        redirect_uris=[AnyUrl(login.redirect)],
        token_endpoint_auth_method="client_secret_post" if settings.client_secret else "none",
        scope=settings.scope,
    )
    storage = _Storage(login, metadata)
    made = OAuthClientProvider(
        login.server,
        metadata,
        storage,
        redirect_handler=login.show if login.attended else None,
        callback_handler=storage.answer if login.attended else None,
    )
    storage.context = made.context
    if not login.attended:
        # The SDK asks its storage for neither: without them it would refresh too late, and at a guessed address.
        made.context.token_expiry_time = kept["tokens"].get("expires_at")
        said = kept.get("authorization", {})
        if "server" in said:
            made.context.oauth_metadata = OAuthMetadata.model_validate(said["server"])
        if "resource" in said:
            made.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                said["resource"]
            )
        made.context.auth_server_url = said.get("issuer")
    return made


class _Scoped(OAuthClientMetadata):
    """Keeps the scope of the settings, in place of which the SDK would ask for all that a server offers."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "scope":
            super().__setattr__(name, value)


class _Storage:
    """What the SDK keeps (its `TokenStorage`), in the file of logins."""

    context: Any

    def __init__(self, login: Login, metadata: OAuthClientMetadata) -> None:
        self._login, self._metadata = login, metadata

    async def get_tokens(self) -> OAuthToken | None:
        # Who logs in anew wants other tokens.
        found = None if self._login.attended else self._login.entry().get("tokens")
        return OAuthToken.model_validate(found) if found else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        said = {
            "server": context.oauth_metadata
            and context.oauth_metadata.model_dump(mode="json", exclude_none=True),
            "resource": context.protected_resource_metadata
            and context.protected_resource_metadata.model_dump(mode="json", exclude_none=True),
            "issuer": context.auth_server_url,
        }
        kept = tokens.model_dump(exclude_none=True)
        if tokens.expires_in is not None:
            kept["expires_at"] = int(time.time()) + tokens.expires_in
        said = {name: value for name, value in said.items() if value}
        await asyncio.to_thread(self._login.keep, tokens=kept, authorization=said)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        settings = self._login.settings
        if settings.client_id:
            return OAuthClientInformationFull(
                client_id=settings.client_id,
                client_secret=settings.client_secret,
                redirect_uris=self._metadata.redirect_uris,
                token_endpoint_auth_method=self._metadata.token_endpoint_auth_method,
            )
        found = self._login.entry().get("client")
        # One that was registered for another address would be refused in the browser.
        is_same = found and self._login.redirect in found.get("redirect_uris", (self._login.redirect,))
        return OAuthClientInformationFull.model_validate(found) if is_same else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        kept = client_info.model_dump(mode="json", exclude_none=True)
        await asyncio.to_thread(self._login.keep, client=kept)

    async def answer(self) -> AuthorizationCodeResult:
        """Wait for the person."""
        found = await self._login.answer()
        return AuthorizationCodeResult(code=found.code, state=found.state, iss=found.issuer)
