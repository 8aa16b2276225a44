"""A server's interface without a server: requests to the application over real runtimes, in process.

`tests/server` meets a real `instar serve`; where only what an operation says is of interest, no process must start.
The application has an event loop and a thread of its own, so that a test may type commands meanwhile.
"""

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
from jsonschema import Draft202012Validator
from starlette.types import Receive, Scope, Send
from tests.waiting import PATIENCE

from instar.api.operation import flagship_operations, operations
from instar.runtime import Runtime
from instar.server.app import application, families
from instar.server.call import LOGIN
from instar.server.instances import Instances
from instar.server.openapi import document


class Asking:
    """What a client asks: `get`, `post` and `delete` return the body of an answer, and of an error what it says."""

    def __init__(
        self, directory: Path, environment: Mapping[str, str], flags: dict[str, Any], login: bool
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.instances = Instances(directory, environment, flags)
        carried = application(self.instances)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await carried({**scope, LOGIN: login}, receive, send)

        transport = httpx2.ASGITransport(app=app)
        self._http = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Let the loop do something, and return what comes of it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    @property
    def runtime(self) -> Runtime:
        """The runtime of the folder."""
        found: Runtime = self.do(self.instances.get(None))
        return found

    def get(self, path: str, /, status: int = 200, **query: Any) -> Any:
        return self.ask("GET", path, status, params=query)

    def post(self, path: str, /, body: Any = None, status: int = 200) -> Any:
        return self.ask("POST", path, status, json=body)

    def delete(self, path: str, /, status: int = 200, **query: Any) -> Any:
        return self.ask("DELETE", path, status, params=query)

    def ask(self, method: str, path: str, status: int, **given: Any) -> Any:
        answered: httpx2.Response = self.do(self._http.request(method, path, **given))
        assert answered.status_code == status, f"{answered.status_code} {answered.text}"
        if not answered.headers.get("content-type", "").startswith("application/json"):
            return answered.text
        found = answered.json()
        assert not list(_problems(method, path, status, found))
        return found["data"]["message"] if status >= 400 and "data" in found else found

    def close(self) -> None:
        """End the runtimes and the loop."""
        try:
            self.do(self._http.aclose())
            self.do(self.instances.close())
            self.do(self._loop.shutdown_default_executor())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _problems(method: str, path: str, status: int, body: Any) -> Iterator[str]:
    """What is wrong with an answer of instar's own part by its own document; nothing for what is not in it."""
    described = _document()
    for template, methods in described["paths"].items():
        pattern = re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(template))
        operation = methods.get(method.lower())
        if not template.startswith("/instar/") or operation is None or not re.fullmatch(pattern, path):
            continue
        answer = operation["responses"].get(str(status))
        if answer is None:
            yield f"{operation['operationId']} does not say that it may answer {status}"
        elif "application/json" in answer.get("content", {}):
            schema = {
                **answer["content"]["application/json"]["schema"],
                "components": described["components"],
            }
            yield from (
                f"{error.json_path}: {error.message}"
                for error in Draft202012Validator(schema).iter_errors(body)
            )
        return


@cache
def _document() -> Any:
    own = [bound for family in families() for bound in operations(family)]
    return document([*own, *(bound for bounds in flagship_operations().values() for bound in bounds)])


@contextmanager
def asking(
    directory: Path, environment: Mapping[str, str], *, login: bool = True, **flags: Any
) -> Iterator[Asking]:
    """Open a client for the folder; `login`: the guard has seen a password."""
    made = Asking(directory, environment, flags, login)
    try:
        yield made
    finally:
        made.close()
