"""Exports metrics and traces of clients to OpenTelemetry. Invariant: an application that requests neither pays nothing; metrics cost
nothing per record.

Needs the extra `opentelemetry`: pip install 'pykafka4[opentelemetry]'. Names follow OpenTelemetry's conventions for messaging, whose
status is "development".

Modules:
    instruments  observable instruments that read clients when a reader collects
    tracing      spans of sent, received and processed records; their contexts in headers
"""

try:
    from pykafka4.metrics.opentelemetry.instruments import instrument as instrument
    from pykafka4.metrics.opentelemetry.tracing import Tracing as Tracing
except ModuleNotFoundError as missing:
    missing.add_note("pip install 'pykafka4[opentelemetry]'")
    raise

__all__ = ["Tracing", "instrument"]
