"""The `webfetch` tool: reads a page of the web as Markdown, text or HTML.

An address that is not the public internet is asked about. The connection is made to the address that was checked, so
that a name which resolves to another one a moment later (DNS rebinding) gains nothing.
"""

import asyncio
import ipaddress
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec

from instar.plugin.tool import Ask, Execute, Tool, ToolContext, ToolFailure, ToolResult
from instar.process import ProcessError
from instar.tool import description, media, parameters
from instar.wire import Plain

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host name."""


class _Target(msgspec.Struct, frozen=True):
    """What to fetch: the `url` as given, its ``scheme://host:port``, and the `address` to connect to.

    `private`: that is anything but the public internet.
    """

    url: str
    origin: str
    address: str
    private: bool


async def resolve(host: str, port: int) -> list[str]:
    """Return a host's addresses, as the system has them. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _url_parts(url: str) -> SplitResult:
    """Return the parts of an http or https URL. Raises `ToolFailure` for anything else."""
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError as error:
        raise ToolFailure(f"Not an URL: {url[:200]!r}: {error}.") from None
    if found.scheme not in ("http", "https") or not found.hostname or port == 0:
        raise ToolFailure(
            f"Not an URL that can be fetched: {url[:200]!r}; it begins with http:// or https://."
        )
    if found.username or found.password:
        raise ToolFailure("An URL with a user name or password in it is not fetched.")
    return found


async def locate(url: str, resolve: Resolve = resolve) -> _Target:
    """Return where an URL leads; private when any of its addresses is. Raises `ToolFailure`."""
    found = _url_parts(url)
    host = found.hostname or ""
    port = found.port or (443 if found.scheme == "https" else 80)
    try:
        addresses = await resolve(host, port)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ToolFailure(f"The host {host} cannot be found: {reason}.") from None
    if not addresses:
        raise ToolFailure(f"The host {host} has no address.")
    private = any(is_private(address) for address in addresses)
    origin = f"{found.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    return _Target(url, origin, addresses[0], private)


def is_private(address: str) -> bool:
    """True if an address is anything but the public internet; what cannot be read counts as private."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if isinstance(found, ipaddress.IPv6Address):
        # An IPv4 address in IPv6 clothes is what it is underneath.
        inner = found.ipv4_mapped or found.sixtofour or _nat64(found)
        if inner is not None:
            return is_private(str(inner))
    return not found.is_global or found.is_multicast


def _nat64(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    inside = address in ipaddress.IPv6Network("64:ff9b::/96")
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if inside else None


LARGEST: Final = 5 << 20
"""Bytes of an answer that are read."""
DEFAULT_TIMEOUT: Final = 30.0
"""Seconds that a call may take when it does not say."""
MAX_TIMEOUT: Final = 120.0
"""Seconds that it may take at most."""
CONVERSION: Final = 30.0
"""Seconds that turning a page into Markdown may take."""
REDIRECTS: Final = 8
"""Redirects that are followed."""
AGENT: Final = "Mozilla/5.0 (compatible; instar)"

PARAMETERS: Final[Plain] = parameters(
    {"url": "What to fetch, beginning with http:// or https://"},
    {
        "format": {
            "type": "string",
            "enum": ["text", "markdown", "html"],
            "default": "markdown",
            "description": "What an HTML page is turned into (default markdown)",
        },
        "timeout": {"type": "number", "description": "Seconds that it may take (default 30, at most 120)"},
    },
)

_SCRIPT: Final = """
import sys
sys.setrecursionlimit(20000)
from bs4 import BeautifulSoup
soup = BeautifulSoup(sys.stdin.buffer.read().decode(errors="replace"), "html.parser")
for tag in soup(["script", "style", "noscript", "template", "iframe", "svg", "head"]):
    tag.decompose()
try:
    if sys.argv[1] == "text":
        raise RecursionError
    from markdownify import MarkdownConverter
    text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup)
except RecursionError:
    text = soup.get_text("\\n", strip=True)
sys.stdout.buffer.write(text.encode(errors="replace"))
"""
_ACCEPT: Final = {
    "markdown": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1",
    "text": "text/plain, text/html;q=0.9, */*;q=0.1",
    "html": "text/html, application/xhtml+xml;q=0.9, */*;q=0.1",
}


class _Page(msgspec.Struct, frozen=True):
    """What came: the URL that answered in the end, its content type and bytes, and whether there was more."""

    url: str
    mime: str
    charset: str | None
    data: bytes
    cut: bool


def permissions(args: Plain, ctx: ToolContext) -> Sequence[Ask]:
    """Return what fetching this URL needs. An address that is not public is asked for when it is known."""
    _url_parts(args["url"])
    return [_page(args["url"])]


def executor(resolve: Resolve = resolve) -> Execute:
    """Return the tool's code; `resolve` says where a host is."""

    async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
        seconds = min(args.get("timeout") or DEFAULT_TIMEOUT, MAX_TIMEOUT)
        if seconds <= 0:
            raise ToolFailure("timeout: a number of seconds above 0 is expected.")
        form = args.get("format") or "markdown"
        page = await _fetch(args["url"], form, seconds, resolve, ctx)
        return await _result(page, form, ctx)

    return execute


TOOL: Final = Tool(description("webfetch"), PARAMETERS, executor(), permissions, idempotent=True)


async def _fetch(url: str, form: str, seconds: float, resolve: Resolve, ctx: ToolContext) -> _Page:
    """Follow an URL to its answer; each place on the way is checked before it is connected to.

    A person's answer about a private address does not use up the time.
    """
    asked: set[str] = set()
    left = seconds
    loop = asyncio.get_running_loop()
    for _ in range(REDIRECTS + 1):
        begun = loop.time()
        try:
            async with asyncio.timeout(left):
                target = await locate(url, resolve)
            left -= loop.time() - begun
            if target.private and target.origin not in asked:
                await ctx.ask(_private(target))
                asked.add(target.origin)
            begun = loop.time()
            async with asyncio.timeout(left):
                found = await _get(target, form)
            left -= loop.time() - begun
        except TimeoutError:
            raise ToolFailure(f"{url} did not answer within {seconds:g} s.") from None
        if isinstance(found, _Page):
            return found
        url = urljoin(url, found)
        if target.origin.startswith("https:") and url.startswith("http://"):
            raise ToolFailure(
                f"{target.url} leads from https to http ({url}); fetch that URL if you want to."
            )
        _url_parts(url)
        # A rule speaks of pages: one that is allowed must not lead to one that is not.
        await ctx.ask(_page(url))
    raise ToolFailure(f"{url}: more than {REDIRECTS} redirects.")


def _page(url: str) -> Ask:
    return Ask("webfetch", [url], ["*"], {"url": url})


def _private(target: _Target) -> Ask:
    about = {"url": target.url, "address": target.address}
    return Ask("webfetch_private", [target.url], [f"{target.origin}/*"], about)


async def _get(target: _Target, form: str) -> "_Page | str":
    """Return the answer of one place, or where it redirects to. Raises `ToolFailure`."""
    # Importing it costs 0.1 s: only who fetches pays for it.
    import httpx2

    found = httpx2.URL(target.url)
    request: dict[str, Any] = {
        # The address that was checked, under the name that was asked for.
        "url": found.copy_with(host=target.address, fragment=None),
        "headers": {"Host": found.netloc.decode("ascii"), "User-Agent": AGENT, "Accept": _ACCEPT[form]},
        "extensions": {"sni_hostname": found.raw_host.decode("ascii")},
    }
    try:
        async with (
            httpx2.AsyncClient(timeout=None, trust_env=False) as client,
            client.stream("GET", **request) as response,
        ):
            if response.is_redirect and "location" in response.headers:
                return str(response.headers["location"])
            if response.status_code >= 400:
                raise ToolFailure(f"{target.url} answered {response.status_code} {response.reason_phrase}.")
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > LARGEST:
                    break
            mime = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            return _Page(
                target.url, mime, response.charset_encoding, bytes(data[:LARGEST]), len(data) > LARGEST
            )
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise ToolFailure(
            f"{target.url} could not be fetched: {str(error) or type(error).__name__}."
        ) from None


async def _result(page: _Page, form: str, ctx: ToolContext) -> ToolResult:
    kind = page.mime or "unknown type"
    title = f"{page.url} ({kind})"
    image = media.image_type_of(page.data[:12])
    if image is not None and not page.cut and len(page.data) <= media.LARGEST_IMAGE:
        files = [media.attachment(page.data, image, page.url.rpartition("/")[2] or "image", ctx)]
        return ToolResult(f"The image is attached ({image}).", title, {"url": page.url}, attachments=files)
    if not _is_text(page):
        raise ToolFailure(
            f"{page.url} is no text ({kind}, {len(page.data)} bytes); to keep it as a file use bash (curl -o)."
        )
    text = _decoded(page)
    if form != "html" and _is_html(page, text):
        text = await _converted(text, form, ctx)
    if page.cut:
        text += f"\n\n(Only the first {LARGEST >> 20} MiB were read.)"
    return ToolResult(text, title, {"url": page.url})


def _is_text(page: _Page) -> bool:
    if page.mime.startswith("text/") or re.search(r"(json|xml|javascript|yaml|toml|html)$", page.mime):
        return True
    return page.mime in ("", "application/octet-stream") and b"\0" not in page.data[:8192]


def _is_html(page: _Page, text: str) -> bool:
    if page.mime in ("text/html", "application/xhtml+xml"):
        return True
    return not page.mime and re.match(r"\s*<(!doctype html|html)", text, re.IGNORECASE) is not None


def _decoded(page: _Page) -> str:
    declared = re.search(rb"<meta[^>]+charset=[\"']?([\w-]+)", page.data[:2048], re.IGNORECASE)
    charset = page.charset or (declared[1].decode("ascii") if declared else "utf-8")
    try:
        return page.data.decode(charset, errors="replace")
    except LookupError:
        return page.data.decode(errors="replace")


async def _converted(html: str, form: str, ctx: ToolContext) -> str:
    """An HTML page as Markdown or text, made in a process of its own: a page may be made to take for ever."""
    argv = [sys.executable, "-I", "-c", _SCRIPT, form]
    try:
        output = await ctx.process.run(
            argv, cwd=ctx.directory, stdin=html.encode(errors="replace"), timeout=CONVERSION, limit=LARGEST
        )
    except ProcessError as error:
        raise ToolFailure(f"The page could not be converted: {error}") from None
    if output.code != 0:
        raise ToolFailure("The page could not be converted; ask for format html.")
    text = output.stdout.decode(errors="replace")
    return re.sub(r"[ \t]+\n", "\n", re.sub(r"\n\s*\n\s*\n+", "\n\n", text)).strip()
