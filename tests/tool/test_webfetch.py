"""Fetching pages from a real server on loopback."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.waiting import SOON

from instar.plugin.tool import PermissionDenied, ToolFailure
from instar.tool import call, webfetch

PAGE = b"""<!doctype html><html><head><title>T</title><style>p{}</style></head><body><script>bad()</script>
<h1>Head</h1><p>Some <b>bold</b> and <a href="/x">a link</a>.</p><ul><li>one</li><li>two</li></ul>
<pre><code>x = 1</code></pre></body></html>"""


class Handler(BaseHTTPRequestHandler):
    answers: dict[str, tuple[int, dict[str, str], bytes]]
    seen: list[tuple[str, str]]
    hold: threading.Event

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers["Host"]))
        if self.path == "/slow":
            self.hold.wait(5)
            return
        status, headers, body = self.answers[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            return

    def log_message(self, *_: Any) -> None:
        return


class Site:
    def __init__(self) -> None:
        self.handler = type("H", (Handler,), {"answers": {}, "seen": [], "hold": threading.Event()})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def puts(self, path: str, body: bytes, mime: str = "text/html", status: int = 200, **headers: str) -> str:
        self.handler.answers[path] = (status, {"Content-Type": mime, **headers}, body)  # type: ignore[attr-defined]
        return self.url + path

    @property
    def seen(self) -> list[tuple[str, str]]:
        return self.handler.seen  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        self.handler.hold.set()  # type: ignore[attr-defined]
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


async def fetch(ctx: Any, url: str, resolve: webfetch.Resolve = webfetch.resolve, **args: Any) -> Any:
    given = {"url": url, **args}
    assert call.validate(given, webfetch.PARAMETERS) is None
    webfetch.permissions(given, ctx)
    return await webfetch.executor(resolve)(given, ctx)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("markdown", "# Head\n\nSome **bold** and [a link](/x).\n\n- one\n- two\n\n```\nx = 1\n```"),
        ("text", "Head\nSome\nbold\nand\na link\n.\none\ntwo\nx = 1"),
        ("html", PAGE.decode()),
    ],
)
async def test_a_page_comes_in_the_form_asked_for(ctx: Any, site: Site, form: str, expected: str) -> None:
    result = await fetch(ctx, site.puts("/p", PAGE, "text/html; charset=utf-8"), format=form)
    assert result.output == expected
    assert result.title == f"{site.url}/p (text/html)"


@pytest.mark.parametrize(
    ("body", "mime", "expected"),
    [
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        ("gr\xfc\xdfe".encode("latin-1"), "text/plain; charset=latin-1", "gr\xfc\xdfe"),
        (b"caf\xe9", "text/plain; charset=nonsense", "caf\ufffd"),
        (b"<p>" * 900 + b"deep", "text/html", "deep"),
        (b"", "text/plain", ""),
    ],
)
async def test_other_texts_come_as_they_are(
    ctx: Any, site: Site, body: bytes, mime: str, expected: str
) -> None:
    assert (await fetch(ctx, site.puts("/x", body, mime))).output.strip() == expected


async def test_an_image_is_attached_and_another_file_refused(ctx: Any, site: Site) -> None:
    result = await fetch(ctx, site.puts("/i.png", b"\x89PNG\r\n\x1a\n....", "image/png"))
    assert [(file.mime, file.filename) for file in result.attachments] == [("image/png", "i.png")]
    with pytest.raises(ToolFailure, match=r"is no text \(application/zip, 4 bytes\)"):
        await fetch(ctx, site.puts("/z", b"PK\0\0", "application/zip"))


async def test_only_so_much_of_a_large_page_is_read(ctx: Any, site: Site) -> None:
    url = site.puts("/big", b"x" * (webfetch.LARGEST + 10), "text/plain")
    result = await fetch(ctx, url)
    assert result.output.endswith("x\n\n(Only the first 5 MiB were read.)")
    assert len(result.output) < webfetch.LARGEST + 100


async def test_redirects_are_followed_and_each_place_is_asked_for(ctx: Any, site: Site) -> None:
    site.puts("/end", b"here", "text/plain")
    other = Site()
    try:
        other.puts("/hop", b"", status=302, Location=f"{site.url}/end")
        result = await fetch(ctx, site.puts("/start", b"", status=301, Location=f"{other.url}/hop"))
    finally:
        other.close()
    assert result.output == "here"
    assert [(ask.permission, list(ask.patterns), list(ask.always)) for ask in ctx.asked] == [
        ("webfetch_private", [f"{site.url}/start"], [f"{site.url}/*"]),
        ("webfetch", [f"{other.url}/hop"], ["*"]),
        ("webfetch_private", [f"{other.url}/hop"], [f"{other.url}/*"]),
        ("webfetch", [f"{site.url}/end"], ["*"]),
    ]


async def test_a_redirect_does_not_lead_to_a_page_that_is_denied(ctx: Any, site: Site) -> None:
    async def refuse(ask: Any) -> None:
        if (ask.permission, list(ask.patterns)) == ("webfetch", [f"{site.url}/denied"]):
            raise PermissionDenied("no")

    ctx.ask = refuse
    site.puts("/denied", PAGE)
    with pytest.raises(PermissionDenied):
        await fetch(ctx, site.puts("/start", b"", status=302, Location="/denied"))
    assert [path for path, _ in site.seen] == ["/start"]


async def test_a_private_address_is_not_connected_to_without_leave(ctx: Any, site: Site) -> None:
    async def refuse(ask: Any) -> None:
        raise PermissionDenied("no")

    ctx.ask = refuse
    with pytest.raises(PermissionDenied):
        await fetch(ctx, site.puts("/p", PAGE))
    assert site.seen == []


async def test_the_connection_goes_to_the_address_that_was_checked(ctx: Any, site: Site) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    site.puts("/p", b"here", "text/plain")
    result = await fetch(ctx, f"http://example.test:{site.port}/p#part", rebinding)
    assert result.output == "here"
    assert asked == ["example.test"]
    assert site.seen == [("/p", f"example.test:{site.port}")]


async def test_a_host_with_one_private_address_among_others_is_private() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "192.168.0.1"]

    assert (await webfetch.locate("http://example.test/", resolve)).private


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("93.184.216.34", False),
        ("2606:2800:220:1:248:1893:25c8:1946", False),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("0.0.0.0", True),
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("192.168.1.1", True),
        ("169.254.169.254", True),
        ("100.64.0.1", True),
        ("224.0.0.1", True),
        ("255.255.255.255", True),
        ("::1", True),
        ("::", True),
        ("fe80::1%eth0", True),
        ("fd00::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:93.184.216.34", False),
        ("64:ff9b::7f00:1", True),
        ("2002:7f00:1::", True),
        ("ff02::1", True),
        ("nonsense", True),
    ],
)
def test_addresses_that_are_not_the_public_internet_are_private(text: str, private: bool) -> None:
    assert webfetch.is_private(text) is private


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///etc/passwd", "begins with http:// or https://"),
        ("example.com", "begins with http:// or https://"),
        ("http://", "Not an URL that can be fetched"),
        ("http://a:99999/", "Not an URL"),
        ("http://[::1/", "Not an URL"),
        ("http://me:secret@example.com/", "user name or password"),
    ],
)
def test_what_is_no_url_is_refused_before_anything_is_asked(ctx: Any, url: str, said: str) -> None:
    with pytest.raises(ToolFailure, match=said):
        webfetch.permissions({"url": url}, ctx)


@pytest.mark.slow
async def test_what_goes_wrong_is_said(ctx: Any, site: Site) -> None:
    with pytest.raises(ToolFailure, match="answered 404"):
        await fetch(ctx, site.puts("/gone", b"", status=404))
    with pytest.raises(ToolFailure, match="more than 8 redirects"):
        await fetch(ctx, site.puts("/loop", b"", status=302, Location="/loop"))
    with pytest.raises(ToolFailure, match="Not an URL that can be fetched"):
        await fetch(ctx, site.puts("/file", b"", status=302, Location="file:///etc/passwd"))
    with pytest.raises(ToolFailure, match=r"did not answer within 0\.05 s"):
        await fetch(ctx, f"{site.url}/slow", timeout=0.05)
    with pytest.raises(ToolFailure, match="above 0"):
        await fetch(ctx, f"{site.url}/slow", timeout=-1)

    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(ToolFailure, match=r"The host gone\.test cannot be found: Name or service not known"):
        await fetch(ctx, "http://gone.test/", nowhere)
    closed = Site()
    closed.close()
    with pytest.raises(ToolFailure, match="could not be fetched"):
        await fetch(ctx, f"{closed.url}/")


async def test_an_abort_ends_a_fetch(ctx: Any, site: Site) -> None:
    running = asyncio.create_task(fetch(ctx, f"{site.url}/slow"))
    while not site.seen:
        await asyncio.sleep(0.005)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=SOON)
    assert done


def test_fetching_needs_webfetch_on_the_url(ctx: Any) -> None:
    (ask,) = webfetch.permissions({"url": "https://example.com/a"}, ctx)
    assert (ask.permission, list(ask.patterns), list(ask.always)) == (
        "webfetch",
        ["https://example.com/a"],
        ["*"],
    )
