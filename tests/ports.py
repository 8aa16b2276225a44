"""Ports for servers of tests that are told theirs before they listen."""

import contextlib
import random
import socket
from pathlib import Path


def free_port() -> int:
    """A port that nothing is given of itself: it stays free until the server listens, and while that is gone."""
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, max(first_given, 11_000))
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
