"""Where an URL leads: its addresses, and whether they are the public internet.

The connection is then made to the address that was checked, so that a name which resolves to another one a
moment later (DNS rebinding) gains nothing.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from instar.plugin.tool import ToolFailure

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host name."""


class Target(NamedTuple):
    """A place to fetch: `url` as it was given, the `address` to connect to, whether that is `private`."""

    url: str
    scheme: str
    host: str
    port: int
    address: str
    private: bool

    @property
    def origin(self) -> str:
        """``scheme://host:port``."""
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"


async def resolve(host: str, port: int) -> list[str]:
    """Return a host's addresses, as the system has them. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def parts(url: str) -> SplitResult:
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


async def locate(url: str, resolve: Resolve = resolve) -> Target:
    """Return where an URL leads; private when any of its addresses is. Raises `ToolFailure`."""
    found = parts(url)
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
    return Target(url, found.scheme, host, port, addresses[0], private)


def is_private(address: str) -> bool:
    """Whether an address is anything but the public internet; what cannot be read counts as private."""
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


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
