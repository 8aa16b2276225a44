"""A proxy that notes every request and its answer: what a client asked, in order."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP = {"transfer-encoding", "connection", "content-length", "keep-alive", "accept-encoding"}
"""Headers of a connection, which a proxy makes itself."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


@dataclass
class Call:
    """A request and its answer, an event stream's as it came so far; `at`: seconds since the proxy began."""

    at: float
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    answered: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""


class Proxy:
    """Stands before a server; `calls` are the requests that came, in order."""

    def __init__(self, target: str) -> None:
        self.calls: list[Call] = []
        self._target, self._began = urlsplit(target), time.monotonic()
        self._behind: set[http.client.HTTPConnection] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address that a client is told."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def open(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Call:
        """Note a request."""
        path, _, query = target.partition("?")
        call = Call(time.monotonic() - self._began, method, path, query, headers, body)
        self.calls.append(call)
        return call

    @contextlib.contextmanager
    def connection(self) -> Iterator[http.client.HTTPConnection]:
        """A connection to the server behind."""
        made = http.client.HTTPConnection(self._target.hostname or "", self._target.port)
        self._behind.add(made)
        try:
            made.connect()
            yield made
        finally:
            self._behind.discard(made)
            made.close()

    def close(self) -> None:
        """Let go of the port and of every connection; the client must have ended."""
        self._server.shutdown()
        # An event stream is read until the server behind has something to say: it is told that nothing comes.
        for connection in list(self._behind):
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._server.server_close()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: object) -> None:
            """Print nothing."""

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            call = proxy.open(self.command, self.path, headers, body)
            # A client may leave in the middle of an answer, a server may end: both end this connection only.
            try:
                with proxy.connection() as behind:
                    behind.request(self.command, self.path, body, {**headers, "accept-encoding": "identity"})
                    _copy(self, behind.getresponse(), call)
            except (OSError, http.client.HTTPException):
                self.close_connection = True

    for method in METHODS:
        setattr(Handler, f"do_{method}", Handler._forward)
    return Handler


def _copy(handler: BaseHTTPRequestHandler, answer: http.client.HTTPResponse, call: Call) -> None:
    """Pass an answer on as it comes."""
    call.status, call.answered = answer.status, dict(answer.getheaders())
    handler.send_response_only(answer.status)
    for name, value in answer.getheaders():
        if name.lower() not in HOP:
            handler.send_header(name, value)
    bare = answer.status in (204, 304) or handler.command == "HEAD"
    if not bare:
        handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    while not bare and (data := answer.read1(65536)):
        call.answer += data
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    if not bare:
        handler.wfile.write(b"0\r\n\r\n")
