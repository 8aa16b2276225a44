"""What OpenTelemetry costs: `python -m bench.telemetry [--json] [--runs N] [--turns N]`, with the extra `otel`.

Two servers, one of which sends traces and metrics to a collector that takes all and keeps nothing. Each prompts turns
of two steps and one call of `read`; *CPU* is the processor time of the server for one turn.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.__main__ import READ
from bench.figure import Figure, Show, play
from bench.program import Server, environment, serving

SCRIPT = f"== turn\ntool: {READ.replace('NUMBER', '1')}\n\n== turn\ntext: done\n"


class Collector(BaseHTTPRequestHandler):
    """A collector that says yes to everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take what comes."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


@contextmanager
def collecting() -> Iterator[str]:
    """Run a collector and yield its address."""
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever).start()
    try:
        yield f"http://127.0.0.1:{collector.server_port}"
    finally:
        collector.shutdown()
        collector.server_close()


def measure(root: Path, runs: int, turns: int, show: Show) -> None:
    """Measure starts, then turns of both servers one after the other."""
    (root / "small.txt").write_text("one line\n")
    (root / "script.txt").write_text(SCRIPT)
    given = {
        "INSTAR_SCRIPT": str(root / "script.txt"),
        "INSTAR_CONFIG_CONTENT": '{"model": "scripted/bench"}',
    }
    off = environment(root / "off", **given)
    with collecting() as url:
        on = environment(root / "on", **given, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        ready: dict[str, list[float]] = {"off": [], "on": []}
        for _ in range(runs):
            for name, env in (("off", off), ("on", on)):
                with serving(root, env) as server:
                    server.session()
                    ready[name].append(server.cpu() * 1000)
        for name, values in ready.items():
            show(Figure(f"{name}: a start and the first session: CPU", values, "ms"))
        with serving(root, off) as without, serving(root, on) as sending:
            servers = {"off": without, "on": sending}
            used: dict[str, list[float]] = {"off": [], "on": []}
            for run in range(runs + 1):
                for name, server in servers.items():
                    cost = per_turn(server, turns)
                    if run:
                        used[name].append(cost)
        for name, values in used.items():
            show(Figure(f"{name}: a turn of two steps and one call: CPU", values, "ms"))


def per_turn(server: Server, turns: int) -> float:
    """Milliseconds of processor time of one turn."""
    before = server.cpu()
    for _ in range(turns):
        server.tool_turn(1)
    return (server.cpu() - before) * 1000 / turns


if __name__ == "__main__":
    play("bench.telemetry", __doc__, measure, runs=(3, "runs"), turns=(200, "turns of a run"))
