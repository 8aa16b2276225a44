"""A server that wants a login: the SDK's, with an authorization server of its own that lets everybody in.

Arguments: the port, and the seconds that a token lasts. ``log.jsonl`` in its folder is what it was asked for.
"""

import json
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

PORT, LIFE = int(sys.argv[1]), int(sys.argv[2])
URL = f"http://127.0.0.1:{PORT}"
REGISTERED_BY_HAND = OAuthClientInformationFull(
    client_id="known",
    client_secret="known-secret",
    redirect_uris=["http://127.0.0.1:19877/mcp/oauth/callback"],  # type: ignore[list-item]
    token_endpoint_auth_method="client_secret_post",
    scope="read",
)


def log(**entry: Any) -> None:
    with Path("log.jsonl").open("a") as file:
        file.write(json.dumps(entry) + "\n")


class Everybody(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self) -> None:
        self.clients = {"known": REGISTERED_BY_HAND}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refreshing: dict[str, RefreshToken] = {}
        self.tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        log(registered=client_info.client_id)
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
        )
        log(authorized=client.client_id, scopes=params.scopes, resource=params.resource)
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._token(client, authorization_code.scopes, authorization_code.resource, "code")

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refreshing[refresh_token.token]
        return self._token(client, scopes, refresh_token.resource, "refresh")

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _token(
        self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None, by: str
    ) -> OAuthToken:
        token, refresh, until = secrets.token_hex(16), secrets.token_hex(16), int(time.time()) + LIFE
        self.tokens[token] = AccessToken(
            token=token, client_id=client.client_id, scopes=scopes, expires_at=until, resource=resource
        )
        self.refreshing[refresh] = RefreshToken(
            token=refresh, client_id=client.client_id, scopes=scopes, resource=resource
        )
        log(token=token, by=by)
        return OAuthToken(access_token=token, expires_in=LIFE, scope=" ".join(scopes), refresh_token=refresh)


server = MCPServer(
    "vault",
    auth_server_provider=Everybody(),
    auth=AuthSettings(
        issuer_url=URL,  # type: ignore[arg-type]
        resource_server_url=f"{URL}/mcp",  # type: ignore[arg-type]
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["read", "write"], default_scopes=["read"]
        ),
        validate_token_resource=True,
    ),
)


@server.tool()
def secret() -> str:
    """Tell the secret."""
    return "xyzzy"


server.run("streamable-http", host="127.0.0.1", port=PORT)
