"""The plugin `telemetry`: on where OTEL_EXPORTER_OTLP_ENDPOINT or the setting `experimental.openTelemetry` is.

A collector that does not answer holds nothing up: what it does not take is dropped.
"""

import logging
from collections.abc import Mapping

from instar.plugin import Hooks, PluginInput, event, points, wire

try:
    from instar.plugins.telemetry.export import Export
    from instar.plugins.telemetry.figures import Figures
    from instar.plugins.telemetry.spans import Spans
except Exception as error:
    # Whatever is wrong with the library, instar works on: a plugin that judges others is one that must load.
    MISSING = f"OpenTelemetry is not installed: pip install 'instar[otel]' ({error})"
else:
    MISSING = ""

log = logging.getLogger("instar.telemetry")

id = "telemetry"  # noqa: A001 - the name that a V1 plugin module must export

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the conventions that adds what people, models and tools say."""


async def server(input: PluginInput, options: wire.Plain | None = None) -> Hooks:  # noqa: A002 - opencode's name
    """Send what happens in this instance to the collector."""
    if (why := MISSING or _off(input.environment)) or not input.automatic:
        if MISSING:
            log.warning("telemetry is off: %s", why)
        input.registry.stands_idle(why or "a command that begins no turn sends nothing")
        return {}
    try:
        export = Export.shared(input.host.version)
    except Exception as error:
        # Beside `Unsupported`, what the library raises for values of its variables.
        log.warning("telemetry is off: %s", error)
        input.registry.stands_idle(str(error))
        return {}
    spans = Spans(export.tracer, export.ids, content=_is_true(input.environment.get(CONTENT, "")))
    figures = Figures(export.instruments)

    async def heard(happened: event.Event) -> None:
        figures.heard(happened.properties)
        spans.heard(happened.properties)

    async def called(made: points.ModelCallInput, output: points.Empty) -> None:
        figures.called(made)
        spans.called(made)

    async def dispose() -> None:
        spans.close()
        figures.close()
        await export.close()

    return {
        "event": heard,
        "model.call.after": called,
        "dispose": dispose,
        # Nothing here waits.
        "timeout": None,
    }


def _off(environment: Mapping[str, str]) -> str:
    """Why nothing is to be sent; "" if it is."""
    return "OTEL_SDK_DISABLED says so" if _is_true(environment.get("OTEL_SDK_DISABLED", "")) else ""


def _is_true(text: str) -> bool:
    # The variable for content names where it goes, too: `span_only`, `event_only`, `span_and_event`.
    return text.strip().lower() in ("true", "span_only", "span_and_event")
