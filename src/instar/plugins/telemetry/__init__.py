"""OpenTelemetry: spans of turns, steps, model calls, tools, hooks and gates, and metrics, sent by OTLP.

Names are those of OpenTelemetry's conventions for generative AI. `server.py` subscribes, `spans.py` makes spans of what
happens and `figures.py` metrics, `export.py` sends both. All of it but `server.py` needs the extra ``instar[otel]``.
"""
