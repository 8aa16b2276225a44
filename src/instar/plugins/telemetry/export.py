"""Sends spans and metrics to a collector: one exporter of each for the process, however many instances are open.

OpenTelemetry's library reads its standard variables itself.
"""

import asyncio
import os
import socket
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from instar.plugins.telemetry.figures import Instruments

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

CLOSING: Final = 2.0
"""Seconds in which the collector may take what is left when the last instance closes."""
_MODULES: Final = {"http/protobuf": "proto.http", "grpc": "proto.grpc"}
_PACKAGES: Final = {"http/protobuf": "instar[otel]", "grpc": "opentelemetry-exporter-otlp-proto-grpc"}


class Unsupported(Exception):
    """The variables ask for something that is not there; the text says what to do."""


class PromptIds(RandomIdGenerator):
    """Ids of spans and traces. `trace` is the id of the next trace, 0 for any.

    The trace of a prompt that came without one follows from its message, so that each worker that works on it finds
    the same.
    """

    trace = 0

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        return self.trace or super().generate_trace_id()


class Export:
    """The exporters of this process: `tracer` begins spans, `instruments` take metrics."""

    _shared: ClassVar["Export | None"] = None

    def __init__(self, version: str) -> None:
        named = {
            "service.name": "instar",
            "service.version": version,
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        }
        # What the variables say of the service counts.
        resource = Resource.create(named).merge(OTELResourceDetector().detect())
        spans = _exporter("TRACES", "trace_exporter", "OTLPSpanExporter")
        metrics = _exporter("METRICS", "metric_exporter", "OTLPMetricExporter")
        self.ids = PromptIds()
        # The instances close them: at the interpreter's end nobody is left to wait.
        self._spans = TracerProvider(resource=resource, id_generator=self.ids, shutdown_on_exit=False)
        if spans:
            self._spans.add_span_processor(BatchSpanProcessor(spans))
        readers = [PeriodicExportingMetricReader(metrics)] if metrics else []
        self._metrics = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        self.tracer: Tracer = self._spans.get_tracer("instar", version)
        meter: Meter = self._metrics.get_meter("instar", version)
        self.instruments = Instruments(meter)
        self._users = 0

    @classmethod
    def shared(cls, version: str) -> "Export":
        """Return the process's exporters for one more instance, which closes them. Raises `Unsupported`."""
        cls._shared = cls._shared or cls(version)
        cls._shared._users += 1
        return cls._shared

    async def close(self) -> None:
        """Send what is left once no instance uses them any more, and wait for that, but not for long."""
        self._users -= 1
        if self._users:
            return
        type(self)._shared = None
        closing = threading.Thread(target=self._shut_down, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSING)

    def _shut_down(self) -> None:
        self._spans.shutdown()
        self._metrics.shutdown()


def _exporter(signal: str, module: str, name: str) -> Any:
    """Return the exporter that the variables ask for; None for ``none``."""
    kind = os.environ.get(f"OTEL_{signal}_EXPORTER") or "otlp"
    if kind == "none":
        return None
    if kind != "otlp":
        raise Unsupported(f"OTEL_{signal}_EXPORTER is {kind!r}: instar sends by otlp, or nothing (none)")
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or general
    if protocol not in _MODULES:
        raise Unsupported(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}: instar knows {', '.join(_MODULES)}")
    try:
        found = import_module(f"opentelemetry.exporter.otlp.{_MODULES[protocol]}.{module}")
    except ImportError as error:
        raise Unsupported(f"{protocol} is not installed: pip install {_PACKAGES[protocol]!r}") from error
    return getattr(found, name)()
