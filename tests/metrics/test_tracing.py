"""Traces: a span for each sent record and each poll, links between them, headers that are injected and never changed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from pykafka4 import BatchOutcome, BufferFull, Consumer, DeliveryFailed, Producer, ProducerRecord, ShareConsumer, aio
from pykafka4.metrics.opentelemetry import Tracing
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import stop_all

FOREIGN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    """A provider whose spans are kept."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(self.provider)

    def spans(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """The finished spans of that name, once there are `count`: they end on another thread."""
        until(lambda: len(self._named(name)) >= count)
        return self._named(name)

    def _named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traced() -> Traced:
    return Traced()


@pytest.fixture
def kafka(kafka_server: ModelServer) -> dict[str, Any]:
    kafka_server.create_topic("orders", partitions=1)
    kafka_server.create_topic("denied", partitions=1)
    return {"bootstrap_servers": kafka_server.bootstrap_servers}


def header_of(span: ReadableSpan) -> str:
    return f"00-{format_trace_id(span.context.trace_id)}-{format_span_id(span.context.span_id)}-{span.context.trace_flags:02x}"


def contexts(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def sent_and_polled(kafka: dict[str, Any], traced: Traced, count: int) -> list[Any]:
    with Producer(**kafka, hooks=traced.tracing) as producer:
        for _ in range(count):
            producer.send("orders", b"a value", headers={"kind": b"new"})
    with Consumer(**kafka, hooks=traced.tracing, client_id="reader") as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek_to_beginning()
        return consumer.poll(timeout=SECONDS)


def test_a_poll_links_to_the_spans_of_its_records(kafka: dict[str, Any], traced: Traced) -> None:
    records = sent_and_polled(kafka, traced, 3)
    sent, (polled,) = traced.spans("send orders", 3), traced.spans("poll orders")
    by_offset = sorted(sent, key=lambda span: span.attributes["messaging.kafka.offset"])
    assert [dict(record.headers)["traceparent"].decode() for record in records] == [header_of(span) for span in by_offset]
    assert all(dict(record.headers)["kind"] == b"new" for record in records)
    assert contexts(polled) == [(span.context.trace_id, span.context.span_id) for span in by_offset]
    assert {span.kind for span in sent} == {SpanKind.PRODUCER}
    assert polled.kind is SpanKind.CLIENT
    assert polled.end_time >= polled.start_time
    assert dict(polled.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.batch.message_count": 3,
        "messaging.client.id": "reader",
        "messaging.destination.name": "orders",
    }
    assert by_offset[0].attributes["messaging.destination.partition.id"] == "0"


def test_a_poll_has_at_most_128_links(kafka: dict[str, Any], traced: Traced) -> None:
    assert len(sent_and_polled(kafka, traced, 200)) == 200
    assert len(traced.spans("poll orders")[0].links) == 128


def test_a_context_in_the_headers_is_not_changed(kafka: dict[str, Any], kafka_server: ModelServer, traced: Traced) -> None:
    with Producer(**kafka, hooks=traced.tracing) as producer:
        producer.send("orders", b"a value", headers=iter([("traceparent", FOREIGN), ("tracestate", "vendor=1")]))
    (record,), (span,) = kafka_server.records("orders"), traced.spans("send orders")
    assert list(record.headers) == [("traceparent", FOREIGN.encode()), ("tracestate", b"vendor=1")]
    assert (span.kind, contexts(span)) == (SpanKind.CLIENT, [(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)])


def test_the_span_of_the_caller_is_the_parent(kafka: dict[str, Any], traced: Traced) -> None:
    tracer = traced.provider.get_tracer("application")
    with Producer(**kafka, hooks=traced.tracing) as producer, tracer.start_as_current_span("request") as request:
        producer.send("orders", b"a value")
    (span,) = traced.spans("send orders")
    assert span.parent is not None
    assert span.parent.span_id == request.get_span_context().span_id


def test_a_failed_record_has_its_error_and_still_fails_the_block(kafka: dict[str, Any], kafka_server: ModelServer, traced: Traced) -> None:
    kafka_server.fail("Produce", "INVALID_REQUIRED_ACKS", topic="denied")
    with pytest.raises(DeliveryFailed), Producer(**kafka, hooks=traced.tracing) as producer:
        producer.send("denied", b"a value")
    (span,) = traced.spans("send denied")
    assert span.attributes["error.type"] == "INVALID_REQUIRED_ACKS"
    assert span.status.status_code is StatusCode.ERROR


class Holds:
    """Keeps a batch whose callbacks have run from its `on_ack` of the hooks behind this one."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def on_ack(self, outcome: BatchOutcome) -> None:
        self.reached.set()
        assert self.go_on.wait(SECONDS)


def test_failures_of_two_clients_are_not_mixed_up(kafka: dict[str, Any], kafka_server: ModelServer, traced: Traced) -> None:
    """They fail at the same time, in the same partition."""
    holds = Holds()
    kafka_server.fail("Produce", "INVALID_REQUIRED_ACKS", topic="denied", times=1)
    with pytest.raises(DeliveryFailed), Producer(**kafka, hooks=[holds, traced.tracing]) as slow:
        slow.send("denied", b"a value")
        assert holds.reached.wait(SECONDS)
        kafka_server.fail("Produce", "POLICY_VIOLATION", topic="denied", times=1)
        with pytest.raises(DeliveryFailed), Producer(**kafka, hooks=traced.tracing) as other:
            other.send("denied", None)
        holds.go_on.set()
    codes = {
        span.attributes["error.type"]: span.attributes.get("messaging.kafka.message.tombstone") for span in traced.spans("send denied", 2)
    }
    assert codes == {"INVALID_REQUIRED_ACKS": None, "POLICY_VIOLATION": True}


def test_a_refused_record_has_the_error_of_send(kafka: dict[str, Any], traced: Traced) -> None:
    def refuse(topic: str, value: object) -> bytes:
        raise ValueError("no such value")

    with Producer(**kafka, hooks=traced.tracing, value_serializer=refuse) as producer:
        with pytest.raises(ValueError, match="no such value"):
            producer.send("orders", 1)
        producer.send_many([ProducerRecord("orders", b"has no span", None, [], None, None)])
    (span,) = traced.spans("send orders")
    assert span.attributes["error.type"] == "ValueError"


def test_a_dropped_record_has_its_error(kafka: dict[str, Any], kafka_server: ModelServer, traced: Traced) -> None:
    stop_all(kafka_server)
    producer = Producer(**kafka, hooks=traced.tracing, on_full="drop", buffer_memory=65_536)
    for _ in range(10):
        producer.send("orders", bytes(10_000), partition=0)
    dropped = [span.attributes["error.type"] for span in traced.exporter.get_finished_spans()]
    assert dropped == [BufferFull.code] * sum(
        producer.stats().dropped.values()
    )  # none waits for a callback, of which an overload would make too many
    assert dropped
    lost = producer.close(0)
    codes = [span.attributes["error.type"] for span in traced.spans("send orders", 10)]
    assert codes.count("CLOSED") == len(lost) > 0


def test_processing_is_a_span_with_a_link(kafka: dict[str, Any], traced: Traced) -> None:
    (record,) = sent_and_polled(kafka, traced, 1)
    tracer = traced.provider.get_tracer("application")
    with pytest.raises(ZeroDivisionError), traced.tracing.processing(record), tracer.start_as_current_span("work"):
        raise ZeroDivisionError
    (sent,), (process,), (work,) = traced.spans("send orders"), traced.spans("process orders"), traced.spans("work")
    assert contexts(process) == [(sent.context.trace_id, sent.context.span_id)]
    assert work.parent is not None
    assert work.parent.span_id == process.context.span_id
    assert (process.kind, process.attributes["error.type"]) == (SpanKind.CONSUMER, "ZeroDivisionError")


def test_records_of_loops_and_tasks_are_traced(kafka: dict[str, Any], traced: Traced) -> None:
    async def run() -> None:
        async with aio.Producer(**kafka, hooks=traced.tracing) as producer:
            await asyncio.gather(*(producer.send("orders", b"a value") for _ in range(3)))
        async with aio.Consumer(**kafka, hooks=traced.tracing, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            async for record in consumer:
                if record.offset == 2:
                    break

    asyncio.run(run())
    assert len(traced.spans("send orders", 3)) == 3
    polls = traced.spans("poll orders")
    assert sum(len(span.links) for span in polls) == 3
    assert polls[0].attributes["messaging.consumer.group.name"] == "g"


def test_records_of_a_share_group_are_traced(kafka: dict[str, Any], traced: Traced) -> None:
    with ShareConsumer(**kafka, group_id="s", hooks=traced.tracing) as consumer, Producer(**kafka, hooks=traced.tracing) as producer:
        consumer.subscribe(["orders"])
        consumer.poll(timeout=0.2)
        producer.send("orders", b"a value").result(SECONDS)
        until(lambda: bool(consumer.poll(timeout=0.2)))
    (sent,), (polled,) = traced.spans("send orders"), traced.spans("poll orders")
    assert contexts(polled) == [(sent.context.trace_id, sent.context.span_id)]


def test_an_unsampled_trace_is_passed_on_without_spans(kafka: dict[str, Any], kafka_server: ModelServer) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    with Producer(**kafka, hooks=Tracing(provider)) as producer:
        producer.send("orders", b"a value")
    (record,) = kafka_server.records("orders")
    assert dict(record.headers)["traceparent"][-2:] in (b"00", b"02")  # not sampled
