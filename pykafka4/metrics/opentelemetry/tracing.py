"""Makes spans for sent records, for polls that return records, and for the processing of records.

Invariant: a context in a record's headers is never changed; spans refer to it by links.

A client without the option `hooks` pays nothing. Source: OpenTelemetry semantic conventions 1.45, messaging spans; W3C Trace Context
(headers `traceparent`, `tracestate`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from time import time_ns
from typing import Any, Final, Protocol

import attrs
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider, get_current_span, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AnyValue

from pykafka4.hooks import BatchOutcome, ConsumerHooks, OutgoingRecord, Polled, ProducerHooks
from pykafka4.metrics.catalogue import CLIENT_ID, ERROR, GROUP, OPERATION, OPERATION_TYPE, PARTITION, SYSTEM, TOPIC
from pykafka4.records import HeadersLike
from pykafka4.wire.records.hot import Delivery

__all__ = ["Tracing"]

OFFSET: Final = "messaging.kafka.offset"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
COUNT: Final = "messaging.batch.message_count"
PARENT: Final = "traceparent"
MOST_LINKS: Final = 128  # OpenTelemetry's default limit, above which the SDK would drop links
W3C: Final = TraceContextTextMapPropagator()


class Received(Protocol):
    """A `Record` or `ShareRecord`."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def headers(self) -> Iterable[tuple[str, bytes | None]]: ...


class _Failure(threading.local):
    """The failed batch whose callbacks and `on_ack` run on this thread. If the batch has a partition, the callbacks run first.

    The callbacks have the spans of the records; `on_ack` has the error code.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []  # of failed records, until `on_ack` brings the error code
        self.topic: str | None = None  # the topic of a batch without a partition, whose `on_ack` came first
        self.code = ""  # the error code of that batch


class Tracing(ProducerHooks, ConsumerHooks):
    """Hooks that trace records: `Producer(hooks=tracing)`, `Consumer(hooks=tracing)`. `ShareConsumer` and the handles of `pykafka4.aio`
    also accept them.

    One object can serve any number of clients, on any threads.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        """The default of `tracer_provider` is the global provider."""
        self._tracer = trace.get_tracer("pykafka4", tracer_provider=tracer_provider)
        self._failure = _Failure()

    # ---- producers

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord | None:
        """Begin the span of a record, and put the span's context into the headers, unless they have a `traceparent`."""
        headers = _pairs(record.headers)
        given = _link(headers)
        attributes: dict[str, AnyValue] = {SYSTEM: "kafka", OPERATION: "send", OPERATION_TYPE: "send", TOPIC: record.topic}
        span = self._tracer.start_span(
            f"send {record.topic}",
            kind=SpanKind.PRODUCER if given is None else SpanKind.CLIENT,
            attributes={**attributes, TOMBSTONE: True} if record.value is None else attributes,
            links=() if given is None else (given,),
        )
        _sending.set((*_sending.get(), span))
        if any(name == PARENT for name, _ in headers):
            return attrs.evolve(record, headers=headers)  # `record.headers` may have been an iterator
        carrier: dict[str, str] = {}
        W3C.inject(carrier, trace.set_span_in_context(span))
        return attrs.evolve(record, headers=[*headers, *((name, value.encode()) for name, value in carrier.items())])

    def on_enqueue(self, delivery: Delivery) -> None:
        """End the span of an accepted record at the record's outcome, or at once if the span is not recorded."""
        span = _accepted()
        if span is None:
            return
        if not span.is_recording():
            span.end()
        elif (
            delivery.done() and not delivery.lost()
        ):  # dropped by on_full or a rate limit: in an overload, a callback for each record would fill the memory
            self._settled(span, delivery)
        else:
            delivery.add_done_callback(partial(self._settled, span))

    def on_refuse(self, error: BaseException) -> None:
        """End the span of a refused record, with the error of `send`."""
        if (span := _accepted()) is not None:
            _fail(span, type(error).__name__)

    def _settled(self, span: Span, delivery: Delivery) -> None:
        if delivery.lost():  # `exception()` has the reason, but would mark the failure as seen by the application
            failure = self._failure
            if delivery.partition is None and failure.topic == delivery.topic:
                _fail(span, failure.code)
            else:
                failure.spans.append(span)
        elif (error := delivery.exception(0)) is not None:  # dropped by on_full or a rate limit, so it is in no batch
            _fail(span, str(error.code))
        else:
            written = delivery.result(0)
            span.set_attributes({PARTITION: str(written.partition), OFFSET: written.offset})
            span.end()

    def on_ack(self, outcome: BatchOutcome) -> None:
        """End the spans of a failed batch."""
        failure = self._failure
        failure.topic = None
        if outcome.error is None:
            return
        code, spans, failure.spans = str(outcome.error.code), failure.spans, []
        for span in spans:
            _fail(span, code)
        if outcome.partition is None and not spans:
            failure.topic, failure.code = outcome.topic, code

    # ---- consumers

    def on_poll(self, polled: Polled) -> None:
        """Make a span for the poll, with links to the contexts of its records, at most 128."""
        topics = {record.topic for record in polled.records}
        attributes: dict[str, AnyValue] = {SYSTEM: "kafka", OPERATION: "poll", OPERATION_TYPE: "receive"}
        attributes |= {COUNT: len(polled.records), CLIENT_ID: polled.client_id}
        if len(topics) == 1:
            attributes[TOPIC] = next(iter(topics))
        if polled.group is not None:
            attributes[GROUP] = polled.group
        now = time_ns()
        span = self._tracer.start_span(
            f"poll {attributes.get(TOPIC, '')}".rstrip(),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=list(islice(_links(polled.records), MOST_LINKS)),
            start_time=now - int(polled.seconds * 1e9),
        )
        span.end(now)

    @contextmanager
    def processing(self, record: Received) -> Iterator[Span]:
        """Run a `with` block in a span for the processing of `record`. Spans that begin in the block are children of this span.

        This span links to the record's context, and records an exception of the block, which is then raised.
        """
        link = _link(record.headers)
        attributes: dict[str, AnyValue] = {SYSTEM: "kafka", OPERATION: "process", OPERATION_TYPE: "process"}
        attributes |= {TOPIC: record.topic, PARTITION: str(record.partition), OFFSET: record.offset}
        span = self._tracer.start_span(
            f"process {record.topic}",
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=() if link is None else (link,),
        )
        with use_span(span, end_on_exit=True):
            try:
                yield span
            except Exception as error:
                span.set_attribute(ERROR, type(error).__name__)
                raise


# The spans of records whose `send` has not returned, in this thread or task: several if a serializer or a hook sends records itself.
_sending: ContextVar[tuple[Span, ...]] = ContextVar("_sending", default=())


def _accepted() -> Span | None:
    """Remove and return the span of the last `on_send`; None if no span is left: a `ProducerRecord` has none."""
    spans = _sending.get()
    if not spans:
        return None
    _sending.set(spans[:-1])
    return spans[-1]


def _fail(span: Span, code: str) -> None:
    span.set_attribute(ERROR, code)
    span.set_status(Status(StatusCode.ERROR, code))
    span.end()


def _pairs(headers: HeadersLike | None) -> list[tuple[str, Any]]:
    return [] if headers is None else list(headers.items() if isinstance(headers, Mapping) else headers)


def _link(headers: Iterable[tuple[str, Any]]) -> Link | None:
    carrier = {name: _text(value) for name, value in headers if name in W3C.fields}
    if PARENT not in carrier:
        return None
    context = get_current_span(W3C.extract(carrier)).get_span_context()
    return Link(context) if context.is_valid else None


def _links(records: Iterable[Received]) -> Iterator[Link]:
    return (link for record in records if (headers := record.headers) and (link := _link(headers)) is not None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else bytes(value or b"").decode("ascii", "replace")
