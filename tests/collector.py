"""A collector of OpenTelemetry on loopback: it decodes what it is sent by OTLP over HTTP, and keeps it."""

import gzip
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Seen(NamedTuple):
    """A span: `parent` is the id of the one above it, "" for none; `start` and `end` are in nanoseconds."""

    name: str
    id: str
    parent: str
    trace: str
    start: int
    end: int
    said: dict[str, Any]
    failed: bool
    worker: str


class Collector:
    """Use it in a ``with``. `spans`, `figures` (the last value of each metric by its attributes), `headers`."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.figures: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self.headers: list[dict[str, str]] = []
        self.resource: dict[str, Any] = {}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    data = gzip.decompress(data)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                collector.take(self.path, data)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> "Collector":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that send to it, soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_METRIC_EXPORT_INTERVAL": "100",
        }

    def take(self, path: str, data: bytes) -> None:
        """Keep what a request brought."""
        if path == "/v1/traces":
            for sent in ExportTraceServiceRequest.FromString(data).resource_spans:
                self.resource = _plain(sent.resource.attributes)
                worker = self.resource["service.instance.id"]
                self.spans += [_seen(span, worker) for scope in sent.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for sent in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                for metric in (metric for scope in sent.scope_metrics for metric in scope.metrics):
                    for point in (*metric.sum.data_points, *metric.histogram.data_points):
                        key = (metric.name, frozenset(_plain(point.attributes).items()))
                        is_sum = metric.HasField("sum")
                        self.figures[key] = point.as_int + point.as_double if is_sum else point.sum
        else:
            raise AssertionError(path)

    def named(self, name: str) -> list[Seen]:
        """The spans of a name, by their start."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start)

    def one(self, name: str) -> Seen:
        """The only span of a name, once it has come."""
        end = time.monotonic() + 10
        while not self.named(name):
            assert time.monotonic() < end, (name, sorted(span.name for span in self.spans))
            time.sleep(0.02)
        (span,) = self.named(name)
        return span

    def figure(self, name: str, **said: str) -> float:
        """The sum of a metric where its attributes are these; a ``_`` in their names stands for a dot."""
        wanted = {key.replace("_", "."): value for key, value in said.items()}.items()
        return sum(
            value
            for (kind, labels), value in self.figures.items()
            if kind == name
            and all((key, value) in {(k.replace("_", "."), v) for k, v in labels} for key, value in wanted)
        )


def _seen(span: Any, worker: str) -> Seen:
    return Seen(
        span.name,
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _plain(span.attributes),
        span.status.code == 2,
        worker,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found
