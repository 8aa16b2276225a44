"""A page in the person's browser, and who else reaches the server's port: requests that must come to nothing.

All but those of the doors "password" and "ticket" come with the right password, as a browser that knows it sends it.
"""

import base64
import contextlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaign.siege.case import Case, Ended, judged
from tests.server.conftest import LOGIN, Served, environment_in
from tests.waiting import PATIENCE

SECRET: Final = "outside-of-the-folder-4713"


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


RIGHT: Final = {"Authorization": basic(*LOGIN)}


class Asks(NamedTuple):
    """A request; PORT, OUT and TICKET in it are filled in. None as the value of a header takes it away."""

    line: str
    headers: Mapping[str, str | None] = {}
    body: str = ""
    answers: bool = False
    """Whether it may be answered, as long as the answer has nothing from outside of the folder."""


OWN_PATHS: Final = ("GET /global/health", "GET /event", "GET /session", "POST /session")
EVIL: Final = {"Origin": "http://evil.example"}
PLAIN: Final = {"Content-Type": "text/plain"}
NAVIGATES: Final = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
UPGRADE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}

HOSTS: Final = [
    *(
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io:PORT",
        "localhost.evil.example",
    ),
    *("localhost@evil.example", "evil.example@127.0.0.1", "[::1].evil.example", "[::1]evil.example"),
    *(
        "127.0.0.1:PORT.evil.example",
        "127.0.0.1 evil.example",
        "evil.example#127.0.0.1",
        "evil.example/127.0.0.1",
    ),
    *(
        "10.0.0.1",
        "192.0.2.1:PORT",
        "0.0.0.0:PORT",
        "127.0.0.2:PORT",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
    ),
    *(
        "[::ffff:127.0.0.1]:PORT",
        "[::]",
        "",
        ".",
        "localhost.",
        "127.0.0.1.",
        "localhost,evil.example",
        "xn--localhost-9za",
    ),
]
ORIGINS: Final = [
    *(
        "http://evil.example",
        "https://evil.example",
        "http://127.0.0.1.evil.example",
        "http://127.0.0.1:1",
        "null",
        "",
    ),
    *("http://localhost.evil.example:PORT", "file://", "http://[", "http://127.0.0.1"),
    *(
        "chrome-extension://127.0.0.1:PORT",
        "http://127.0.0.1:PORT.evil.example",
        "http://127.0.0.1:PORT@evil.example",
    ),
    *("http://evil.example@127.0.0.1:PORT", "http://127.0.0.1:PORT http://evil.example"),
    *("127.0.0.1:PORT", "http://127.0.0.2:PORT", "http://0.0.0.0:PORT", "http://[::1]:PORT"),
]
PATHS: Final = [
    *("../outside/secret.txt", "OUT/secret.txt", "..%2foutside%2fsecret.txt", "%2e%2e/outside/secret.txt"),
    *(
        "./../outside/secret.txt",
        "a/../../outside/secret.txt",
        "link",
        "folder/secret.txt",
        "..%5coutside%5csecret.txt",
    ),
    *(
        "/proc/self/cwd/../outside/secret.txt",
        "/proc/self/rootOUT/secret.txt",
        "%252e%252e/outside/secret.txt",
    ),
    *(
        "file://OUT/secret.txt",
        "..%00/outside/secret.txt",
        "....//outside/secret.txt",
        "~/../outside/secret.txt",
    ),
]
FORMS: Final = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json",
    "",
]
"""What a form of a page, or a script that asks nobody beforehand, can send, and what it cannot."""
CHANGES: Final = [
    "/session",
    "/instance/dispose",
    "/global/dispose",
    "/instar/trust",
    "/pty",
    "/tui/append-prompt",
    "/log",
]


def _of_forms() -> dict[str, Asks]:
    found = {}
    for path in CHANGES:
        for kind in FORMS:
            headers = {
                **EVIL,
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "no-cors",
                "Content-Type": kind,
            }
            found[f"{kind or 'no type'} to {path}"] = Asks(f"POST {path}", headers, '{"title": "evil"}')
        site = {**NAVIGATES, **PLAIN}
        found[f"a form without an origin to {path}"] = Asks(f"POST {path}", site, '{"title": "evil"}')
    return found


def _of_passwords() -> dict[str, Asks]:
    name, right = LOGIN
    guesses = [
        (name, one) for one in ("", "wrong", right[:-1], f"{right} ", right.upper(), f"{right}\0", "*", "%")
    ]
    guesses += [(one, right) for one in ("root", "admin", "", "Opencode", "opencode\0")] + [("", "")]
    given: dict[str, str | None] = {f"{one!r}": basic(*one) for one in guesses}
    given |= {
        "none": None,
        "an empty one": "",
        "no scheme": basic(name, right)[6:],
        "no text": "Basic",
        "no code": "Basic !!!",
    }
    given |= {
        "a bearer": f"Bearer {right}",
        "another scheme": basic(name, right).replace("Basic", "Digest"),
        "nothing else": "Basic Og==",
    }
    found = {f"a guess: {what}": Asks("GET /session", {"Authorization": one}) for what, one in given.items()}
    token = basic(name, right)[6:]
    for query in (
        f"auth_token={token}",
        f"password={right.replace(' ', '%20')}",
        f"token={token}",
        f"authorization=Basic%20{token}",
    ):
        found[f"in the address: {query.partition('=')[0]}"] = Asks(
            f"GET /session?{query}", {"Authorization": None}
        )
    for header in (
        "X-Forwarded-For: 127.0.0.1",
        "X-Real-IP: 127.0.0.1",
        "Cookie: session=1",
        "X-Forwarded-User: opencode",
        "Proxy-Authorization: x",
    ):
        key, _, value = header.partition(": ")
        found[f"a header: {key}"] = Asks("GET /session", {"Authorization": None, key: value})
    for path in (
        "/api/session",
        "/doc",
        "/event",
        "/global/event",
        "/api/event",
        "/instar/event",
        "/instar/trust",
        "/pty",
        "/config",
        "/path",
        "/nothing",
    ):
        found[f"no password: {path}"] = Asks(f"GET {path}", {"Authorization": None})
    return found


def _of_headers() -> dict[str, Asks]:
    smuggled = "POST /session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    return {
        "two hosts": Asks("GET /session", {"Host": "127.0.0.1:PORT\r\nHost: evil.example"}),
        "two hosts, the other first": Asks("GET /session", {"Host": "evil.example\r\nHost: 127.0.0.1:PORT"}),
        "no host": Asks("GET /session", {"Host": None}),
        "a folded host": Asks("GET /session", {"Host": "127.0.0.1:PORT\r\n evil.example"}),
        "two origins": Asks(
            "GET /session", {"Origin": "http://evil.example\r\nOrigin: http://127.0.0.1:PORT"}
        ),
        "an address as the path": Asks("GET http://evil.example/session", {"Host": "evil.example"}),
        "two lengths": Asks("POST /session", {"Content-Length": "2\r\nContent-Length: 90"}, "{}" + smuggled),
        "a length and chunks": Asks(
            "POST /session", {**EVIL, "Transfer-Encoding": "chunked"}, f"0\r\n\r\n{smuggled}"
        ),
        "a negative length": Asks("POST /session", {"Content-Length": "-1"}, "{}"),
        "a length in words": Asks("POST /session", {"Content-Length": "2 2"}, "{}"),
        "a space before a colon": Asks("GET /session", {"Host ": "127.0.0.1:PORT", "Host": "evil.example"}),
        "a name with a zero": Asks("GET /session", {"X\0Y": "a"}),
        "a value with a zero": Asks("GET /session", {"Host": "127.0.0.1\0evil.example"}),
        "lines in the directory": Asks(
            "GET /session", {"x-opencode-directory": "%0d%0aSet-Cookie:%20a=evil"}
        ),
        "lines in a query": Asks("GET /session?directory=%0d%0aSet-Cookie:%20a=evil"),
        "lines in a path": Asks("GET /session/%0d%0aSet-Cookie:%20a=evil"),
        "lines in a name": Asks("GET /file/content?path=%0d%0aSet-Cookie:%20a=evil", answers=True),
        "another method in a header": Asks("GET /session/x", {"X-HTTP-Method-Override": "DELETE"}),
        "an upgrade to nothing": Asks("GET /session", {**EVIL, "Connection": "Upgrade", "Upgrade": "h2c"}),
        "a method that is none": Asks("EVIL /session"),
        "a trace": Asks("TRACE /session"),
        "a tunnel": Asks("CONNECT evil.example:80"),
        "a very long line": Asks(f"GET /session?x={'x' * 200_000}", EVIL),
        "very many headers": Asks("GET /session", {**EVIL, **{f"X-{n}": "x" * 90 for n in range(2000)}}),
    }


def _of_origins() -> dict[str, Asks]:
    found = {f"{path} of {one!r}": Asks(path, {"Origin": one}) for path in OWN_PATHS for one in ORIGINS}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    found |= {
        f"a preflight of {one!r}": Asks("OPTIONS /session", {"Origin": one, **asked}) for one in ORIGINS
    }
    for path in (
        "/event",
        "/global/event",
        "/api/event",
        "/instar/event",
        "/config",
        "/file/content?path=a.txt",
    ):
        for site in ("cross-site", "same-site"):
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
            found[f"a {site} page embeds {path}"] = Asks(f"GET {path}", headers)
        found[f"a stream of another page: {path}"] = Asks(
            f"GET {path}", {**EVIL, "Accept": "text/event-stream"}
        )
    return found


def _of_sockets() -> dict[str, Asks]:
    path = "GET /pty/TERMINAL/connect"
    return {
        **{f"the web socket of {one!r}": Asks(path, {**UPGRADE, "Origin": one}) for one in ORIGINS if one},
        **{f"by the host {one!r}": Asks(path, {**UPGRADE, "Host": one}) for one in HOSTS[:12]},
        "a stranger's page with a ticket": Asks(
            f"{path}?ticket=TICKET", {**UPGRADE, **EVIL, "Authorization": None}
        ),
        "a ticket by another name": Asks(
            f"{path}?ticket=TICKET", {**UPGRADE, "Host": "evil.example", "Authorization": None}
        ),
        "a ticket that was used": Asks(f"{path}?ticket=USED", {**UPGRADE, "Authorization": None}),
        "a ticket for another terminal": Asks(
            "GET /pty/pty_other/connect?ticket=TICKET", {**UPGRADE, "Authorization": None}
        ),
        "a ticket for the sessions": Asks("GET /session?ticket=TICKET", {"Authorization": None}),
        "a ticket for a terminal's data": Asks("GET /pty/TERMINAL?ticket=TICKET", {"Authorization": None}),
        "a ticket for the events": Asks("GET /event?ticket=TICKET", {"Authorization": None}),
        "a ticket that is made up": Asks(f"{path}?ticket=x", {**UPGRADE, "Authorization": None}),
        "an empty ticket": Asks(f"{path}?ticket=", {**UPGRADE, "Authorization": None}),
        "no ticket": Asks(path, {**UPGRADE, "Authorization": None}),
        "a ticket asked for without its header": Asks("POST /pty/TERMINAL/connect-token"),
        "a ticket asked for by a stranger's page": Asks(
            "POST /pty/TERMINAL/connect-token", {**EVIL, "x-opencode-ticket": "1"}
        ),
        "a ticket asked for without a password": Asks(
            "POST /pty/TERMINAL/connect-token", {"x-opencode-ticket": "1", "Authorization": None}
        ),
    }


def _of_paths() -> dict[str, Asks]:
    routes = {
        "/file/content?path=": "content",
        "/file?path=": "folder",
        "/api/fs/read/": "newer",
        "/find/file?query=": "search",
    }
    return {
        f"{what}: {one}": Asks(f"GET {route}{one}", answers=True)
        for route, what in routes.items()
        for one in PATHS
    }


DOORS: Final[dict[str, dict[str, Asks]]] = {
    "another name": {
        f"{path} as {one!r}": Asks(path, {"Host": one}) for path in OWN_PATHS[2:] for one in HOSTS
    },
    "another origin": _of_origins(),
    "form": _of_forms(),
    "web socket, ticket": _of_sockets(),
    "password": _of_passwords(),
    "address": _of_paths(),
    "header": _of_headers(),
}
SLOWED: Final = "guesses one after another are slowed down"


def cases() -> list[Case]:
    """Return the cases of this attacker."""
    found = [Case("page", door, "any", what) for door, asked in DOORS.items() for what in asked]
    return [*found, Case("page", "password", "any", SLOWED)]


class Port:
    """A server with a project, and requests to it as bytes."""

    def __init__(self, root: Path) -> None:
        project, outside = root / "project", root / "outside"
        for folder in (project, outside, root / "data"):
            folder.mkdir()
        (outside / "secret.txt").write_text(SECRET)
        (project / "a.txt").write_text("a\n")
        (project / "link").symlink_to(outside / "secret.txt")
        (project / "folder").symlink_to(outside)
        (root / "script.txt").write_text("== turn\ntext: hello\n")
        self.served = Served([], project, {**environment_in(root), "PATH": os.environ["PATH"]})
        self.number = int(self.served.url.rpartition(":")[2])
        self.sessions = [self.served.session(title="mine")]
        made = self.served.http.post("/pty", json={"command": "/bin/sh"}).json()
        self._places = {
            "TERMINAL": made["id"],
            "OUT": str(outside),
            "PORT": str(self.number),
            "USED": self._used(made["id"]),
        }
        self._terminal = made["id"]

    def ticket(self, terminal: str) -> str:
        headers = {"x-opencode-ticket": "1"}
        return str(self.served.http.post(f"/pty/{terminal}/connect-token", headers=headers).json()["ticket"])

    def _used(self, terminal: str) -> str:
        ticket = self.ticket(terminal)
        status, _ = self.ask(
            Asks(f"GET /pty/{terminal}/connect?ticket={ticket}", {**UPGRADE, "Authorization": None}), {}
        )
        assert status == 101, "a ticket of the person's own opens their terminal"
        return ticket

    def ask(
        self, asked: Asks, places: Mapping[str, str] | None = None, local: str = "127.0.0.1"
    ) -> tuple[int, str]:
        """Send a request and return the answer's status (0: none) and text."""
        headers = {"Host": f"127.0.0.1:{self.number}", **RIGHT, "Connection": "close", **asked.headers}
        if asked.body and not {"Content-Length", "Transfer-Encoding"} & headers.keys():
            headers["Content-Length"] = str(len(asked.body))
        lines = [
            f"{asked.line} HTTP/1.1",
            *(f"{key}: {one}" for key, one in headers.items() if one is not None),
        ]
        sent = "\r\n".join([*lines, "", asked.body])
        for word, place in (self._places if places is None else places).items():
            sent = sent.replace(word, place)
        found = b""
        with socket.create_connection(("127.0.0.1", self.number), 10, (local, 0)) as joined:
            joined.settimeout(PATIENCE)
            with contextlib.suppress(OSError):
                joined.sendall(sent.encode("latin-1"))
                # An event stream that was opened goes on, so the beginning is enough.
                while b"\r\n\r\n" not in found and (more := joined.recv(1 << 16)):
                    found += more
                joined.settimeout(0.2)
                while more := joined.recv(1 << 16):
                    found += more
        told = found.decode("utf-8", "replace")
        return (int(told.split(" ", 2)[1]) if told.startswith("HTTP/") else 0), told

    def through(self, asked: Asks, local: str) -> str:
        """What a request that must come to nothing brought about."""
        places = {**self._places, "TICKET": self.ticket(self._terminal)} if "TICKET" in asked.line else None
        status, told = self.ask(asked, places, local)
        found = [f"answered with {status}"] if status and status < 400 and not asked.answers else []
        head = told.partition("\r\n\r\n")[0].lower()
        found += [
            f"{word} stands in the answer" for word in ("set-cookie", "access-control-allow") if word in head
        ]
        found += ["it shows what lies outside"] if SECRET in told else []
        found += ["the server ended"] if self.served.process.poll() is not None else []
        here = [one["id"] for one in self.served.http.get("/session").json()]
        found += ["the sessions changed"] if here != self.sessions else []
        self.sessions = here
        return ", ".join(found)


def play(chosen: Sequence[Case], root: Path) -> list[Ended]:
    """Play cases of one door against a server."""
    port = Port(root)
    try:
        for asked in (
            Asks("GET /session"),
            Asks("POST /log", {}, '{"service":"t","level":"info","message":"m"}'),
        ):
            status, told = port.ask(asked)
            assert status == 200, f"the person's own request is answered: {told[:300]}"
        return [judged(case, _tried(port, case, number)) for number, case in enumerate(chosen)]
    finally:
        port.served.stop()


def _tried(port: Port, case: Case, number: int) -> str:
    if case.what == SLOWED:
        begun = time.monotonic()
        for _ in range(7):
            port.ask(Asks("GET /session", {"Authorization": basic("opencode", "wrong")}), {}, "127.0.0.250")
        passed = time.monotonic() - begun
        return "" if passed >= 3 else f"seven guesses were answered within {passed:.1f} s"
    # Each from an address of its own: one that sends many wrong passwords waits for its answers.
    return port.through(DOORS[case.door][case.what], f"127.0.1.{number % 250 + 1}")
