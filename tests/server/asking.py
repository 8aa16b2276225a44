"""Requests whose answers are held against opencode's document."""

from typing import Any

from tests.server.conformance import problems_of
from tests.server.conftest import Served


class Asking:
    """Asks a server about one directory."""

    def __init__(self, served: Served, directory: Any) -> None:
        self.served = served
        self.directory = str(directory)

    def __call__(
        self, method: str, path: str, status: int = 200, template: str | None = None, **options: Any
    ) -> Any:
        """Ask, see that the answer is as the document has it, and return its body (bytes where it is no JSON)."""
        headers = {"x-opencode-directory": self.directory}
        answer = self.served.http.request(method, path, headers=headers, **options)
        assert answer.status_code == status, answer.text
        plain = answer.headers.get("content-type", "").startswith("application/json")
        body = answer.json() if plain else answer.content
        assert problems_of(method, template or path.partition("?")[0], status, body) == []
        return body

    def get(self, path: str, status: int = 200, template: str | None = None, /, **query: Any) -> Any:
        """Ask by GET, `query` as its parameters."""
        return self("GET", path, status, template, params=query)
