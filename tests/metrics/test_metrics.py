"""`metrics()`: figures equal `stats()`, by client, topic and partition; each figure is as it is defined; requests are counted by broker."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from pykafka4 import AdminClient, Client, ConfigError, Consumer, Producer, ShareConsumer
from pykafka4.client.handle import Handle
from pykafka4.core.histogram import BucketCounts, Histogram
from pykafka4.metrics.catalogue import CLIENT_ID, DEFINITIONS
from pykafka4.metrics.values import By, Kind
from pykafka4.testing import ModelServer
from tests.inspection import inspect
from tests.net.net_helpers import in_child

BY: tuple[By, ...] = ("client", "topic", "partition")
SENT, CONSUMED = "messaging.client.sent.messages", "messaging.client.consumed.messages"


@pytest.fixture
def kafka(kafka_server: ModelServer) -> dict[str, Any]:
    kafka_server.create_topic("orders", partitions=3)
    kafka_server.create_topic("denied", partitions=1)
    return {"bootstrap_servers": kafka_server.bootstrap_servers}


def total(client: Handle, name: str, by: By = "topic", **labels: str) -> float:
    """The sum of a metric's values that have these labels."""
    return sum(
        metric.value.count if isinstance(metric.value, Histogram) else metric.value
        for metric in client.metrics(by=by)
        if metric.name == name and labels.items() <= {key.replace(".", "_"): value for key, value in metric.labels.items()}.items()
    )


def read(consumer: Consumer[bytes, bytes], count: int) -> None:
    while count > 0:
        count -= len(consumer.poll(timeout=10))


@pytest.mark.parametrize("by", BY)
def test_figures_of_a_producer_equal_its_stats(kafka: dict[str, Any], kafka_server: ModelServer, by: By) -> None:
    kafka_server.fail("Produce", "INVALID_REQUIRED_ACKS", topic="denied")
    with Producer(**kafka) as producer:
        for number in range(100):
            producer.send("orders", b"a value", key=str(number))
        producer.send("denied", b"lost").exception(timeout=10)
        producer.flush(timeout=10)
        stats = producer.stats()
        assert total(producer, SENT, by) == stats.acked + stats.lost == 101
        assert total(producer, SENT, by, error_type="INVALID_REQUIRED_ACKS") == stats.lost == 1
        assert total(producer, "pykafka4.producer.io.compressed", by) == stats.compressed_bytes
        assert total(producer, "pykafka4.producer.batch.messages", by) == total(producer, "pykafka4.producer.delivery.duration", by) > 0
        places = {metric.labels.get("messaging.destination.name") for metric in producer.metrics(by=by) if metric.name == SENT}
        assert places == ({None} if by == "client" else {"orders", "denied"})


def test_an_acknowledged_record_has_no_age_while_its_callback_runs(kafka: dict[str, Any]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        begun.set()
        assert go_on.wait(10)

    with Producer(**kafka) as producer:
        producer.send("orders", b"a value", on_delivery=wait)
        try:
            assert begun.wait(10)
            assert total(producer, "pykafka4.producer.oldest.age") == 0
        finally:
            go_on.set()


@pytest.mark.parametrize("by", BY)
def test_a_record_that_may_be_in_the_log_twice_counts_once(kafka: dict[str, Any], kafka_server: ModelServer, by: By) -> None:
    kafka_server.fail("Metadata", "TOPIC_AUTHORIZATION_FAILED", topic="orders")
    with Producer(**kafka, enable_idempotence=False) as producer:
        assert producer.send("orders", b"refused before it had a partition").exception(timeout=10)
        kafka_server.disconnect("Produce", after=True)
        assert producer.send("orders", b"a value").result(timeout=10).maybe_repeated
        assert total(producer, "pykafka4.producer.messages.repeated", by) == 1


@pytest.mark.parametrize("by", BY)
def test_figures_of_a_consumer_count_what_polls_returned_and_its_lag(kafka: dict[str, Any], kafka_server: ModelServer, by: By) -> None:
    for partition in range(3):
        kafka_server.produce("orders", *"abcd", partition=partition)
    with Consumer(**kafka, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        read(consumer, 12)
        assert total(consumer, CONSUMED, by, messaging_consumer_group_name="g") == consumer.stats()["records"] == 12
        assert total(consumer, "pykafka4.consumer.lag", by) == 0
        consumer.seek({("orders", 1): 1})
        assert total(consumer, "pykafka4.consumer.joined") == total(consumer, "pykafka4.consumer.rebalances") == 1
        consumer.commit(timeout=10)
        assert total(consumer, "pykafka4.consumer.commits") == 1
        assert total(consumer, "pykafka4.client.request.duration", request="OffsetCommit") == 1


def test_lag_is_the_distance_from_the_position_to_the_end(kafka: dict[str, Any], kafka_server: ModelServer) -> None:
    kafka_server.produce("orders", *"abcdef")
    with Consumer(**kafka) as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek_to_beginning()
        assert len(consumer.poll(timeout=10, max_records=2)) == 2
        assert total(consumer, "pykafka4.consumer.lag", "partition", messaging_destination_partition_id="0") == 4


@pytest.mark.parametrize("call", ["poll_raw", "poll_arrow"])
def test_records_of_batches_and_columns_count_as_consumed(kafka: dict[str, Any], kafka_server: ModelServer, call: str) -> None:
    kafka_server.produce("orders", *"abcdef")
    with Consumer(**kafka) as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek_to_beginning()
        getattr(consumer, call)(timeout=10)
        assert total(consumer, CONSUMED) == consumer.stats()["records"] == 6


def test_each_figure_is_as_it_is_defined(kafka: dict[str, Any]) -> None:
    clients = (
        Client(**kafka),
        Producer(**kafka),
        Consumer(**kafka, group_id="g"),
        ShareConsumer(**kafka, group_id="s"),
        AdminClient(**kafka),
    )
    for client in clients:
        with client:
            for metric in client.metrics(by="partition", by_broker=True):
                defined = DEFINITIONS[metric.name]
                assert (metric.kind, metric.unit, metric.description) == (defined.kind, defined.unit, defined.description)
                assert metric.labels.keys() <= {CLIENT_ID, *defined.labels}
                assert isinstance(metric.value, Histogram) == (metric.kind is Kind.HISTOGRAM)


def test_lost_connections_and_unanswered_requests_are_counted_by_broker(kafka: dict[str, Any], kafka_server: ModelServer) -> None:
    kafka_server.disconnect("Produce", after=True)
    with Producer(**kafka) as producer:
        producer.send("orders", b"a value").result(timeout=10)
        found = {
            (m.name, m.labels.get("request")): m
            for m in producer.metrics(by_broker=True)
            if m.value and m.labels.get("broker") != "bootstrap"
        }
        assert found["pykafka4.client.requests.failed", "Produce"].value == found["pykafka4.client.connections.lost", None].value == 1
        assert total(producer, "messaging.client.operation.duration", messaging_operation_name="send") == 1
        assert total(producer, "pykafka4.client.io.sent") > 0
        assert total(producer, "pykafka4.producer.retries") == 1


def test_figures_remain_after_close(kafka: dict[str, Any]) -> None:
    with Producer(**kafka) as producer:
        producer.send("orders", b"a value")
    assert total(producer, SENT) == 1
    assert total(producer, "pykafka4.client.connected") == 0


def test_a_client_whose_thread_hangs_is_not_connected(kafka: dict[str, Any]) -> None:
    go_on = threading.Event()
    with Producer(**kafka) as producer:
        producer.send("orders", b"a value").result(timeout=10)
        assert total(producer, "pykafka4.client.connected") == 1
        inspect(producer).session.runtime.loop.call(lambda _: go_on.wait(20))
        names = {metric.name for metric in producer.metrics()}
        assert total(producer, "pykafka4.client.connected") == 0
        assert SENT not in names
        go_on.set()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_reports_no_records_of_its_parent(kafka: dict[str, Any]) -> None:
    with Producer(**kafka) as producer, Consumer(**kafka) as consumer, ShareConsumer(**kafka, group_id="g") as sharer:
        handles = (producer, consumer, sharer)
        names = in_child(lambda: " ".join(metric.name for handle in handles for metric in handle.metrics()))
    assert [name for name in names.split() if not name.startswith("pykafka4.client.")] == []


def test_an_unknown_level_is_refused(kafka: dict[str, Any]) -> None:
    with Client(**kafka) as client, pytest.raises(ConfigError, match='\'topics\': must be "client", "topic" or "partition"'):
        client.metrics(by="topics")  # type: ignore[arg-type]


def test_a_value_at_a_bound_is_in_the_bucket_of_that_bound() -> None:
    counts = BucketCounts((1.0, 10.0))
    for value in (0.0, 1.0, 1.5, 10.0, 11.0):
        counts.add(value)
    found = counts.snapshot()
    assert (found.counts, found.sum, found.count) == ((2, 2, 1), 23.5, 5)
    assert found.plus(found).counts == (4, 4, 2)


@pytest.mark.parametrize(("extra", "package"), [("prometheus", "prometheus_client"), ("opentelemetry", "opentelemetry")])
def test_a_missing_package_is_told_with_the_command_that_installs_it(extra: str, package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; import pykafka4.metrics.{extra}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(f"\npip install 'pykafka4[{extra}]'\n")
