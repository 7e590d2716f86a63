"""The judge reads what Java's client wrote, bit for bit, and sees what a client that lost its answers wrote."""

from __future__ import annotations

from typing import Any, cast

import pytest

from integration.admin import Connection
from integration.cluster import Cluster
from integration.faults.proxied import Proxied
from integration.java.client import JavaRecord, java_consume, java_produce
from integration.judge.reader import LogRecord, Wrong, rising
from integration.waiting import until
from integration.workload.load import PARTITIONS, Load, content, judge
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import CODECS

WITH_NAMES = 12


@pytest.mark.cluster
@pytest.mark.parametrize("codec", sorted(CODECS))
def test_the_log_holds_exactly_the_records_acknowledged_to_java(cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create_topic(topic, partitions=2)
    sent = [
        JavaRecord(b"%d" % n, b"v" * n if n % 7 else None, (("n", b"%d" % n),), n % 2, timestamp=1_700_000_000_000 + n) for n in range(300)
    ]
    sent += [JavaRecord(b"big", bytes(900_000), partition=0, timestamp=1_700_000_000_000), JavaRecord(partition=1, timestamp=1)]
    acks = java_produce(cluster.bootstrap, topic, sent, codec=codec, properties={"batch.size": "1000"})
    log = cluster.log(topic)
    assert cluster.offsets(topic) == {0: (0, 151), 1: (0, 151)}
    for record, ack in zip(sent, acks, strict=True):
        assert log[ack.partition][ack.offset][:5] == (ack.offset, record.key, record.value, record.headers, record.timestamp)
    for rows in log.values():
        assert [row.offset for row in rows] == list(range(151))
        assert [row.sequence for row in rows] == list(range(151))
        assert len({(row.producer_id, row.epoch) for row in rows}) == 1


@pytest.mark.cluster
def test_control_records_are_not_shown(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    java_produce(cluster.bootstrap, topic, [JavaRecord(value=b"x")] * 2, properties={"transactional.id": topic}, transaction="commit")
    until(lambda: cluster.offsets(topic) == {0: (0, 3)}, 30, "the commit marker, which is written after the answer")
    assert [row.offset for row in cluster.log(topic)[0]] == [0, 1]


@pytest.mark.cluster
def test_an_empty_topic_has_an_empty_log(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    assert cluster.log(topic) == {0: [], 1: []}


@pytest.mark.cluster
def test_a_log_is_read_across_a_failover(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    java_produce(cluster.bootstrap, topic, [JavaRecord(value=b"%d" % n) for n in range(5)])
    old = cluster.leader(topic)
    cluster.kill(old)
    assert [row.value for row in cluster.log(topic)[0]] == [b"0", b"1", b"2", b"3", b"4"]
    cluster.start(old)
    cluster.wait_full_isr([topic])


def produce(value: bytes, topic: str) -> ProduceRequest:
    data = build_batch([WireRecord(offset=0, timestamp_ms=1, value=value)])
    partition = ProduceRequest.Topic.Partition(index=0, records=data)
    return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[ProduceRequest.Topic(name=topic, partition_data=[partition])])


@pytest.mark.cluster
def test_swallowed_answers_are_in_the_log_and_swallowed_requests_are_not(proxied_cluster: Proxied, topic: str) -> None:
    proxied_cluster.create_topic(topic, partitions=1)
    proxy = proxied_cluster.proxies[proxied_cluster.leader(topic)]
    for fault, value in (("swallow_responses", b"written"), ("swallow_requests", b"lost")):
        connection = Connection(proxy.address)
        getattr(proxy, fault)()
        with pytest.raises(TimeoutError):
            connection.request(produce(value, topic), timeout=1, highest=WITH_NAMES)
        connection.close()
        proxy.heal()
    until(lambda: proxied_cluster.offsets(topic) == {0: (0, 1)}, 10, "the record whose answer was lost")
    assert [row.value for row in proxied_cluster.log(topic)[0]] == [b"written"]


@pytest.mark.cluster
def test_a_held_request_is_written_after_its_connection_died(proxied_cluster: Proxied, topic: str) -> None:
    proxied_cluster.create_topic(topic, partitions=1)
    proxy = proxied_cluster.proxies[proxied_cluster.leader(topic)]
    connection = Connection(proxy.address)
    proxy.hold_requests()
    with pytest.raises(TimeoutError):
        connection.request(produce(b"late", topic), timeout=0.5, highest=WITH_NAMES)
    connection.close()
    assert proxied_cluster.log(topic) == {0: []}
    proxy.release()
    until(lambda: [row.value for row in proxied_cluster.log(topic)[0]] == [b"late"], 10, "the held request to be written")


@pytest.mark.parametrize("offsets", [(0, 2, 1), (0, 0), (5, 4)])
def test_offsets_that_do_not_rise_are_an_error(offsets: tuple[int, ...]) -> None:
    records = [LogRecord(offset, None, None, (), 0, -1, -1, -1) for offset in offsets]
    with pytest.raises(Wrong, match="t-0: offset"):
        rising("t-0", records)


class Kept:
    """A cluster whose logs are given."""

    def __init__(self, logs: dict[int, list[LogRecord]]) -> None:
        self.logs = logs

    def log(self, topic: str) -> dict[int, list[LogRecord]]:
        return self.logs


def lying(n: int, offset: int | None = None, **changes: Any) -> LogRecord:
    """Record `n` of a load as it would lie in its partition's log."""
    record = LogRecord(n // PARTITIONS if offset is None else offset, *content(n), -1, -1, -1)
    return record._replace(**changes)


RIGHT = {p: [lying(n) for n in range(p, 12, PARTITIONS)] for p in range(PARTITIONS)}


def complaints(logs: dict[int, list[LogRecord]], acked: int = 12, error: Exception | None = None, **offsets: int) -> list[str]:
    """The complaints about a load of which every record was acknowledged, at the offset where it belongs or at the one given."""
    load: Any = Load(cast("Any", None), "t", 1.0, bool)
    load.sent, load.error = acked, error
    for n in range(acked):
        load.offsets[n], load.completions[n] = offsets.get(f"of_{n}", n // PARTITIONS), 1
    return judge(cast("Any", Kept(logs)), "t", load).complaints()


def test_a_load_that_is_in_the_log_as_it_was_sent_passes() -> None:
    assert complaints(RIGHT) == []


@pytest.mark.parametrize(
    ("partition", "records", "says"),
    [
        (0, [lying(0)], "1 records acknowledged but not in the log: [6]"),
        (0, [lying(0), lying(6), lying(6, 2)], "1 records in the log more than once: [6]"),
        (0, [lying(0), lying(6), lying(1, 2)], "1 records in the log more than once: [1]"),
        (0, [lying(6, 0), lying(0, 1)], "1 records after a later record of their partition: [0]"),
        (0, [lying(0), lying(6, 2)], "1 records not at the offset reported: [6]"),
        (0, [lying(0, key=b""), lying(6)], "1 records not as sent: [0]"),
        (0, [lying(0), lying(6, headers=(("n", None),))], "1 records not as sent: [6]"),
        (0, [lying(0), lying(6, timestamp=1)], "1 records not as sent: [6]"),
        (0, [lying(0), lying(6), lying(12)], "1 records that nobody sent: ['t-0@2']"),
        (0, [lying(0), lying(6), lying(0, 2, value=None)], "1 records that nobody sent: ['t-0@2']"),
    ],
)
def test_a_damaged_log_is_reported(partition: int, records: list[LogRecord], says: str) -> None:
    assert says in complaints({**RIGHT, partition: records})


def test_a_record_whose_log_was_deleted_may_be_acknowledged_later() -> None:
    load = Load(cast("Any", None), "t", 0.0, lambda _: True)
    load.sent, load.offsets = 10, {7: 0}
    load.excuse(lambda n: n % 2 == 0)
    load.sent = 20
    load.offsets |= dict.fromkeys(range(20), 0)
    assert load.excused() == {0, 2, 4, 6, 8, 10}, "what was sent by then, and what was being sent"


def test_a_record_in_the_wrong_partition_is_reported() -> None:
    assert "1 records not as sent: [7]" in complaints({**RIGHT, 0: [*RIGHT[0], lying(7, 2)], 1: [lying(1)]})


def test_an_acknowledgement_without_an_offset_is_reported() -> None:
    assert complaints(RIGHT, of_3=-1) == ["1 records not at the offset reported: [3]"]


@pytest.mark.parametrize(("acked", "error"), [(0, None), (12, OSError("broke"))])
def test_a_load_that_ended_early_proves_nothing(acked: int, error: Exception | None) -> None:
    logs = RIGHT if acked else {}
    assert complaints(logs, acked, error) == [f"the load ended after {acked} records, {acked} acknowledged: {error!r}"]


@pytest.mark.cluster
def test_what_markers_commit_is_what_java_reads(cluster: Cluster, topic: str) -> None:
    """Transactions of two producers, committed and aborted, and records outside of any."""
    cluster.create_topic(topic, partitions=2)
    for number, end in enumerate(("commit", "abort", None, "abort", "commit")):
        rows = [JavaRecord(b"%d" % number, b"%d" % n, (("n", b"1"),), n % 2, timestamp=1_700_000_000_000) for n in range(40)]
        properties = {"batch.size": "200"} | ({} if end is None else {"transactional.id": f"{topic}-{number % 2}"})
        java_produce(cluster.bootstrap, topic, rows, properties=properties, transaction=end)
    read = java_consume(cluster.bootstrap, topic, properties={"isolation.level": "read_committed"})
    found = cluster.committed(topic)
    assert [(row.aborted, row.open) for row in found.values()] == [(40, 0), (40, 0)]
    assert {p: [(row.offset, row.key, row.value) for row in found[p].records] for p in found} == {
        p: [(row.offset, row.key, row.value) for row in read if row.partition == p] for p in found
    }
    assert all(len(row.records) == 60 for row in found.values())
