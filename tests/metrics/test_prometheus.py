"""The collector: names, one family for all clients, no two samples alike; a closed client is gone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pykafka4 import Client, Consumer, Producer
from pykafka4.metrics.catalogue import DEFINITIONS
from pykafka4.metrics.naming import sample_name
from pykafka4.metrics.prometheus import ClientCollector, collector
from pykafka4.testing import ModelServer


@pytest.fixture
def kafka(kafka_server: ModelServer) -> dict[str, Any]:
    kafka_server.create_topic("orders")
    return {"bootstrap_servers": kafka_server.bootstrap_servers}


def samples(registry: CollectorRegistry) -> Counter[tuple[str, tuple[tuple[str, str], ...]]]:
    """How often each series is in the exposition, whose families must be there once."""
    text = generate_latest(registry).decode()
    families = Counter(line for line in text.splitlines() if line.startswith("# TYPE"))
    assert set(families.values()) <= {1}
    return Counter((s.name, tuple(sorted(s.labels.items()))) for f in text_string_to_metric_families(text) for s in f.samples)


def ids(registry: CollectorRegistry, name: str) -> list[str]:
    return sorted(dict(labels)["messaging_client_id"] for found, labels in samples(registry) if found == name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("messaging.client.sent.messages", "messaging_client_sent_messages_total"),
        ("messaging.client.operation.duration", "messaging_client_operation_duration_seconds"),
        ("pykafka4.client.io.sent", "pykafka4_client_io_sent_bytes_total"),
        ("pykafka4.client.connected", "pykafka4_client_connected"),
    ],
)
def test_names_follow_the_rules_of_opentelemetry_for_prometheus(name: str, expected: str) -> None:
    assert sample_name(DEFINITIONS[name]) == expected


def test_clients_are_registered_one_by_one_and_shown_once(kafka: dict[str, Any]) -> None:
    registry = CollectorRegistry()
    with Producer(**kafka) as first, Producer(**kafka) as second, Consumer(**kafka, client_id="reader") as consumer:
        for client in (first, second, consumer, first):
            registry.register(collector(client))
        first.send("orders", b"a value").result(timeout=10)
        found = samples(registry)
        assert set(found.values()) == {1}
        assert ids(registry, "pykafka4_client_connected") == ["pykafka4", "pykafka4#2", "reader"]
        assert ids(registry, "pykafka4_producer_requests_total") == ["pykafka4", "pykafka4#2"]
        second.close()
        assert ids(registry, "pykafka4_client_connected") == ["pykafka4", "reader"]
        with Producer(**kafka) as third:
            collector(third)
            assert ids(registry, "pykafka4_client_connected") == ["pykafka4", "pykafka4#2", "reader"]
    assert not samples(registry)


def test_a_shared_client_is_shown_once(kafka: dict[str, Any]) -> None:
    registry, shown = CollectorRegistry(), ClientCollector()
    registry.register(shown)
    with Client(**kafka) as client, Producer(client=client) as producer, Consumer(client=client) as consumer:
        shown.add(producer, consumer, by="client")
        assert ids(registry, "pykafka4_client_connected") == ["pykafka4"]
        assert ids(registry, "pykafka4_consumer_polls_total") == ids(registry, "pykafka4_producer_requests_total") == ["pykafka4"]


def test_a_client_that_is_added_again_is_shown_with_its_new_labels(kafka: dict[str, Any]) -> None:
    registry, shown = CollectorRegistry(), ClientCollector()
    registry.register(shown)
    with Producer(**kafka) as producer:
        shown.add(producer, by="client")
        shown.add(producer, by="topic")
        producer.send("orders", b"a value").result(timeout=10)
        sent = [dict(labels) for name, labels in samples(registry) if name == "messaging_client_sent_messages_total"]
        assert [labels["messaging_destination_name"] for labels in sent] == ["orders"]


def test_a_client_that_is_collected_is_gone(kafka: dict[str, Any]) -> None:
    registry, shown = CollectorRegistry(), ClientCollector()
    registry.register(shown)
    producer = Producer(**kafka)
    shown.add(producer)
    assert samples(registry)
    with pytest.warns(ResourceWarning, match="Producer was not closed"):
        del producer
    assert not samples(registry)


def test_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"'orders' has no metrics: pass a Producer"):
        ClientCollector().add("orders")  # type: ignore[arg-type]
