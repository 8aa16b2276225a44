"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.config import Config
from instar.api.provider import ConfigProviders
from instar.client.connection import Connection
from instar.client.request import Request


class ConfigCalls:
    """``config``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Config:
        """Get a directory's merged settings, in opencode's form."""
        answer: Config = self._connection.ask(Request("GET", "/config"), Config)
        return answer

    def update(self, body: Config) -> Config:
        """Put settings into the directory's file, and end its instance, so that the next request has them."""
        answer: Config = self._connection.ask(Request("PATCH", "/config", body=body), Config)
        return answer

    def providers(self) -> ConfigProviders:
        """List the providers that can be called, with their models and the one to begin with."""
        answer: ConfigProviders = self._connection.ask(Request("GET", "/config/providers"), ConfigProviders)
        return answer
