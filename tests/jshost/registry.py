"""A registry of npm on loopback: packages that a test makes, for the real npm."""

import base64
import contextlib
import hashlib
import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """Serves what was published; `asked` are the paths that were asked for. `lies`: other bytes than announced.

    `together`: a package is told of once so many ask for it.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lies = False
        self.together: threading.Barrier | None = None
        self._packages: dict[str, dict[str, dict[str, Any]]] = {}
        self._files: dict[str, bytes] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def publish(self, name: str, version: str, files: dict[str, str], **described: Any) -> None:
        package = {"name": name, "version": version, "type": "module", **described}
        body = _tar({"package.json": json.dumps(package), **files})
        path = f"/-/{name.replace('/', '_')}-{version}.tgz"
        self._files[path] = body
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(body).digest()).decode()
        dist = {"tarball": self.url + path, "integrity": integrity}
        self._packages.setdefault(name, {})[version] = {**package, "dist": dist}

    def answer(self, path: str) -> bytes | None:
        self.asked.append(path)
        if path in self._files:
            return self._files[path] + (b"x" if self.lies else b"")
        name = path[1:].replace("%2f", "/")
        if name not in self._packages:
            return None
        if self.together is not None and not self.together.broken:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.together.wait(30)
        versions = self._packages[name]
        return json.dumps(
            {"name": name, "versions": versions, "dist-tags": {"latest": list(versions)[-1]}}
        ).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _tar(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = registry.answer(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body or b"{}")))
            self.end_headers()
            self.wfile.write(body or b"{}")

        def log_message(self, *args: Any) -> None:
            pass

    return Handler
