"""Raw batches between topics of real brokers. The judge is confluent-kafka: it writes the source, and reads source and copy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ForeignConsumer
from confluent_kafka import KafkaError as ForeignError
from confluent_kafka import Producer as ForeignProducer
from confluent_kafka import TopicPartition as ForeignPartition

from integration.cluster import Cluster
from integration.local.cluster import LocalCluster
from integration.security.options import for_librdkafka
from integration.waiting import Deadline, until
from pykafka4 import Consumer, Producer, RawBatch, RawDelivery
from tests.integration.reading import LONG_S

pytestmark = [pytest.mark.cluster, pytest.mark.backend("local")]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mirror.py"
ODD = [("h", b"1"), ("h", b"2"), ("null", None), ("empty", b""), ("größe", "größe".encode())]


def write(cluster: Cluster, topic: str, rows: list[dict[str, Any]], *ends: str, **settings: Any) -> None:
    """Have confluent-kafka write the rows, once for each of `ends`, each in a transaction that ends like that; without ends just once."""
    producer = ForeignProducer({**cluster.librdkafka, "linger.ms": 50, **settings})
    if ends:
        producer.init_transactions(LONG_S)
    for end in ends or ("",):
        if end:
            producer.begin_transaction()
        for row in rows:
            producer.produce(topic, **row)
        assert producer.flush(LONG_S) == 0
        if end:
            (producer.commit_transaction if end == "commit" else producer.abort_transaction)(LONG_S)


def rows(codec: str, partition: int) -> list[dict[str, Any]]:
    odd: list[dict[str, Any]] = [
        {"key": None, "value": None, "headers": ODD},
        {"key": b"", "value": b"", "headers": ODD},
        {"key": "schlüssel", "value": "wert", "headers": []},
    ]
    many: list[dict[str, Any]] = [{"key": b"%d" % n, "value": f"{codec} {n}".encode() * 20} for n in range(300)]
    return [{**row, "partition": partition, "timestamp": 1_700_000_000_000 + n} for n, row in enumerate(odd + many)]


def foreign_read(cluster: Cluster, topic: str, partitions: int) -> dict[int, list[Any]]:
    """Everything but the offsets of all committed records, as confluent-kafka reads it."""
    reader = ForeignConsumer({**cluster.librdkafka, "group.id": "judge", "enable.partition.eof": True})
    reader.assign([ForeignPartition(topic, p, 0) for p in range(partitions)])
    found: dict[int, list[Any]] = {p: [] for p in range(partitions)}
    ended, deadline = set[int](), Deadline(LONG_S)
    while len(ended) < partitions:
        assert not deadline.passed(), found
        message = reader.poll(1.0)
        if message is None:
            continue
        if (error := message.error()) is not None:
            assert error.code() == ForeignError._PARTITION_EOF, error
            ended.add(message.partition())
        else:
            stamp = message.timestamp()[1]
            found[message.partition()].append((message.key(), message.value(), message.headers() or [], stamp))
    reader.close()
    return found


def raw_batches(cluster: Cluster, topic: str, partitions: int, take: Callable[[list[RawBatch]], object]) -> None:
    """Call `take` with the committed batches, up to the end of the topic."""
    with Consumer(**cluster.client, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([(topic, p) for p in range(partitions)])
        deadline = Deadline(LONG_S)
        while any(consumer.lag(tp) != 0 for tp in consumer.assignment()):
            assert not deadline.passed(), consumer.status()
            take(consumer.poll_raw(0.5))


def mirror(cluster: Cluster, source: str, copy: str, partitions: int, **options: Any) -> list[RawDelivery]:
    deliveries: list[RawDelivery] = []
    with Producer(**cluster.client, **options) as producer:
        raw_batches(cluster, source, partitions, lambda batches: deliveries.extend(producer.send_raw(copy, batch) for batch in batches))
    return deliveries


@pytest.mark.main_job
def test_a_copy_equals_its_source_in_every_codec_with_transactions_and_headers(cluster: Cluster, topic: str) -> None:
    copy = f"{topic}-copy"
    for name in (topic, copy):
        cluster.create_topic(name, 2)
    for codec in CODECS:
        for partition in (0, 1):
            write(cluster, topic, rows(codec, partition), **{"compression.type": codec})
    ends = ("commit", "abort", "commit")
    write(cluster, topic, rows("none", 0), *ends, **{"compression.type": "zstd", "transactional.id": topic})
    source = foreign_read(cluster, topic, 2)
    deliveries = mirror(cluster, topic, copy, 2)
    assert foreign_read(cluster, copy, 2) == source
    assert [len(source[p]) for p in (0, 1)] == [7 * 303, 5 * 303]
    assert sum(delivery.count for delivery in deliveries) == 12 * 303
    codecs: set[str] = set()
    raw_batches(cluster, copy, 2, lambda batches: codecs.update(batch.codec for batch in batches))
    assert codecs == set(CODECS)


@pytest.mark.main_job
def test_broker_timestamps_become_the_timestamps_of_the_copy(cluster: Cluster, topic: str) -> None:
    copy = f"{topic}-copy"
    cluster.create_topic(topic, 1, configs={"message.timestamp.type": "LogAppendTime"})
    cluster.create_topic(copy, 1)
    write(cluster, topic, rows("lz4", 0), **{"compression.type": "lz4"})
    mirror(cluster, topic, copy, 1)
    source = foreign_read(cluster, topic, 1)
    assert foreign_read(cluster, copy, 1) == source
    assert min(stamp for *_, stamp in source[0]) > 1_700_000_001_000


def test_a_compacted_topic_is_copied_without_its_gaps(cluster: Cluster, topic: str) -> None:
    copy = f"{topic}-copy"
    compaction = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100"}
    cluster.create_topic(topic, 1, configs=compaction)
    cluster.create_topic(copy, 1)
    few = [{"key": b"%d" % (n % 60), "value": b"%d" % n, "partition": 0, "headers": [("n", b"%d" % n)]} for n in range(200)]
    write(cluster, topic, few, **{"compression.type": "gzip"})

    def compacted() -> bool:
        write(cluster, topic, [{"key": b"rolls the segment", "value": b"", "partition": 0}])
        found: list[RawBatch] = []
        raw_batches(cluster, topic, 1, found.extend)
        return any(batch.count < batch.last_offset - batch.base_offset + 1 for batch in found)

    until(compacted, LONG_S, "the log cleaner")
    mirror(cluster, topic, copy, 1)
    latest = {key: row for key, *row in foreign_read(cluster, topic, 1)[0]}
    assert {key: row for key, *row in foreign_read(cluster, copy, 1)[0]} == latest


def test_nothing_is_written_twice_when_the_leader_of_the_copy_is_killed(cluster: Cluster, topic: str) -> None:
    copy = f"{topic}-copy"
    for name in (topic, copy):
        cluster.create_topic(name, 1)
    numbers = [{"value": b"%d" % n, "partition": 0} for n in range(20_000)]
    write(cluster, topic, numbers, **{"compression.type": "lz4", "batch.num.messages": 50})
    killed: list[int] = []

    def take(batches: list[RawBatch]) -> None:
        for batch in batches:
            deliveries.append(producer.send_raw(copy, batch))
            if len(deliveries) == 150:
                killed.append(cluster.leader(copy))
                cluster.kill(killed[0])

    deliveries: list[RawDelivery] = []
    with Producer(**cluster.client) as producer:
        raw_batches(cluster, topic, 1, take)
        for delivery in deliveries:
            delivery.result(LONG_S)
    assert killed
    assert [record.value for record in cluster.log(copy)[0]] == [b"%d" % n for n in range(20_000)]
    cluster.heal()


def start(source: Cluster, copy: Cluster, topic: str, folder: Path, *more: str) -> subprocess.Popen[str]:
    clusters: list[str] = []
    quick = {"session.timeout.ms": 6000}  # so long a killed member stays in its group
    for name, cluster, options in (("from", source, quick), ("to", copy, {})):
        config = folder / f"{name}.properties"
        options = for_librdkafka(cluster.client_security()) | options
        config.write_text("".join(f"{option}={value}\n" for option, value in options.items()))
        clusters += [f"--{name}", cluster.bootstrap, f"--{name}-config", str(config)]
    command = [sys.executable, str(EXAMPLE), *clusters, "--topics", topic, "--suffix=-copy", "--group", topic, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})


def killed_and_resumed(source: Cluster, copy: Cluster, topic: str, folder: Path) -> None:
    """The example is killed in the middle; the next run completes the copy."""
    source.create_topic(topic, 2)
    copy.create_topic(f"{topic}-copy", 2)
    count = 50_000
    numbers = [{"value": b"%d" % n, "partition": n % 2} for n in range(count)]
    write(source, topic, numbers, **{"compression.type": "lz4", "batch.num.messages": 20})

    def copied() -> int:
        return sum(end for _, end in copy.offsets(f"{topic}-copy").values())

    with start(source, copy, topic, folder) as first:
        try:
            until(lambda: copied() > 1_000, LONG_S, "a part of the copy")
        finally:
            first.send_signal(signal.SIGKILL)
    assert copied() < count, "it was killed in the middle"
    with start(source, copy, topic, folder, "--until-end") as second:
        try:
            shown, _ = second.communicate(timeout=LONG_S)
        finally:
            second.kill()
    assert "0 left" in shown.splitlines()[-1]
    for partition, records in foreign_read(copy, f"{topic}-copy", 2).items():
        values = [int(value) for _, value, *_ in records]
        assert list(dict.fromkeys(values)) == list(range(partition, count, 2)), "each record, and first copies in order"


def test_the_example_goes_on_after_sigkill_without_loss(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    killed_and_resumed(cluster, cluster, topic, tmp_path)


@pytest.mark.lengthy
def test_the_example_copies_to_another_cluster(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    with LocalCluster(brokers=1) as other:
        killed_and_resumed(cluster, other, topic, tmp_path)
