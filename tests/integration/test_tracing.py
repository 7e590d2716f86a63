"""Traces on a real cluster: Java reads the injected headers, and polls link to contexts that Java has written."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id

from integration.cluster import Cluster
from integration.java.client import JavaRecord, java_consume, java_produce
from pykafka4 import Consumer, Producer, TopicPartition
from pykafka4.metrics.opentelemetry import Tracing
from tests.net.net_helpers import until

pytestmark = pytest.mark.cluster

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
FOREIGN = f"00-{format_trace_id(TRACE)}-{format_span_id(SPAN)}-01".encode()


def test_contexts_pass_between_this_client_and_java(cluster: Cluster, topic: str) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider)
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client, hooks=tracing) as producer:
        producer.send(topic, b"ours", headers=[("kind", b"new")])
    java_produce(
        cluster.bootstrap, topic, [JavaRecord(key=None, value=b"java", headers=(("traceparent", FOREIGN),))], properties=cluster.java
    )
    with Consumer(**cluster.client, hooks=tracing, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        count = 0
        while count < 2:
            count += len(consumer.poll(timeout=20))
    until(lambda: len(exporter.get_finished_spans()) >= 2)
    spans = exporter.get_finished_spans()
    (sent,) = (span for span in spans if span.name == f"send {topic}")
    links = [(link.context.trace_id, link.context.span_id) for span in spans if span.name == f"poll {topic}" for link in span.links]
    assert links == [(sent.context.trace_id, sent.context.span_id), (TRACE, SPAN)]
    ours = java_consume(cluster.bootstrap, topic, properties=cluster.java)[0]
    assert [name for name, _ in ours.headers] == ["kind", "traceparent"]
    assert format_span_id(sent.context.span_id).encode() in dict(ours.headers)["traceparent"]
