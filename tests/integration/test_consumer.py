"""The consumer on real brokers: what it promises, each with its real fault. Group members: test_group.py."""

from __future__ import annotations

import time

import pytest

from integration.cluster import Cluster
from integration.waiting import Deadline, until
from pykafka4 import BrokerError, Client, Consumer, Producer, Record, TopicPartition
from pykafka4.wire.protocol.messages_admin import DeleteRecordsRequest
from tests.integration.reading import GROUP, LONG_S, SECONDS, assert_in_order, behind, poll_until, produce, read, send, values, wait_leaders

pytestmark = pytest.mark.cluster


def test_a_topic_that_does_not_exist_is_waited_for_and_read_once_it_is_created(cluster: Cluster, topic: str) -> None:
    with Consumer(**cluster.client, **{**GROUP, "auto_offset_reset": "latest"}, group_id=topic) as consumer:
        consumer.subscribe([topic])
        poll_until(consumer, lambda: "UNKNOWN_TOPIC_OR_PARTITION" in str(consumer.status()["topics"]))
        cluster.create_topic(topic, 2)
        produce(cluster, topic, 0, 100)
        assert values(read(consumer, 100)) == list(range(100))


@pytest.mark.secured
def test_a_leader_that_dies_at_record_30_costs_a_reader_nothing(cluster: Cluster, topic: str) -> None:
    """All records are written, and most of the 200 are not fetched yet when a broker dies."""
    cluster.create_topic(topic, 3)
    with Producer(**cluster.client) as producer:
        for n in range(200):
            producer.send(topic, (b"%d" % n).ljust(20_000), partition=n % 3)
            producer.flush()  # batches of one record: what is fetched ahead is what the bound lets through
    with Consumer(**cluster.client, auto_offset_reset="earliest", max_poll_records=10, prefetch_bytes=600_000) as consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(3)])
        records = read(consumer, 30)
        assert len(records) + consumer.stats()["buffered_bytes"] / 20_000 < 100, "it read too far ahead: nothing is tested"
        dead = cluster.leader(topic, 0)
        cluster.kill(dead)
        wait_leaders(cluster, topic, other_than=dead)
        records += read(consumer, 200 - len(records), SECONDS)
    cluster.start(dead)
    cluster.wait_full_isr([topic])
    assert values(records) == list(range(200))
    assert_in_order(records)


@pytest.mark.secured
def test_reading_follows_leaders_that_move_and_brokers_that_restart(cluster: Cluster, topic: str) -> None:
    """25,000 records: at each fault some are unread and some on their way to the log, and a third of them is sent only after it."""
    cluster.create_topic(topic, 6)
    records: list[Record] = []
    sent = 0
    with (
        Producer(**cluster.client) as producer,
        Consumer(**cluster.client, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition(topic, p) for p in range(6)])

        def series(length: int) -> None:
            nonlocal sent
            send(producer, topic, range(sent, sent + length))
            sent += length

        series(18)
        records += read(consumer, 18)
        faults = [lambda: cluster.stop(1), lambda: back(cluster, topic, 1), lambda: cluster.stop(2), lambda: back(cluster, topic, 2)]
        faults += [lambda p=p: cluster.move_leader(topic, p, other(cluster, topic, p)) for p in range(6)]
        for left, fault in enumerate(faults, 1 - len(faults)):
            series(833)
            producer.flush()
            assert min(behind(cluster, consumer, topic).values()) > 0, "a partition was read to its end before the fault"
            series(833)
            fault()
            series(833 if left else 25_000 - sent)
            records += read(consumer, sent - len(records))
    assert values(records) == list(range(25_000))
    assert_in_order(records)


def back(cluster: Cluster, topic: str, node: int) -> None:
    cluster.start(node)
    cluster.wait_full_isr([topic])


def other(cluster: Cluster, topic: str, partition: int) -> int:
    """A broker that does not lead it."""
    return next(node for node in cluster.nodes if node != cluster.leader(topic, partition))


def test_connecting_and_asking_for_offsets_works_while_a_broker_is_down(cluster: Cluster, topic: str) -> None:
    """The head and the tail of every partition, in an ordinary state, with a broker down, and with it back."""
    cluster.create_topic(topic, 3)
    for p in range(3):
        produce(cluster, topic, 0, 30 * (p + 1), partition=p)
        delete_records(cluster, topic, p, 10 * p)
    heads, tails = {0: 0, 1: 10, 2: 20}, {0: 30, 1: 60, 2: 90}
    assert cluster.offsets(topic) == {p: (heads[p], tails[p]) for p in range(3)}
    assert ends(cluster, topic) == (heads, tails)
    dead = cluster.leader(topic, 0)
    cluster.stop(dead)
    try:
        cluster.wait_leader(topic, 0, other_than=dead)
        with Consumer(**cluster.client, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, p) for p in range(3)])
            assert len(read(consumer, 150)) == 150
            assert ends(cluster, topic) == (heads, tails)
            cluster.start(dead)
            cluster.wait_full_isr([topic])
            assert ends(cluster, topic) == (heads, tails)
            consumer.seek_to_beginning()
            assert len(read(consumer, 150)) == 150
    finally:
        cluster.heal()


def ends(cluster: Cluster, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """The first offset and the one behind the last of every partition, asked by a new consumer."""
    with Consumer(**cluster.client) as consumer:
        tps = [TopicPartition(topic, p) for p in range(3)]
        consumer.assign(tps)
        consumer.seek_to_beginning()
        heads = {tp.partition: consumer.position(tp, LONG_S) for tp in tps}
        consumer.seek_to_end()
        return heads, {tp.partition: consumer.position(tp, LONG_S) for tp in tps}


def delete_records(cluster: Cluster, topic: str, partition: int, before: int) -> None:
    """The log begins at `before` from now on."""
    row = DeleteRecordsRequest.Topic.Partition(partition_index=partition, offset=before)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=topic, partitions=[row])], timeout_ms=10_000)
    answer = cluster.admin.ask(cluster.leader(topic, partition), request).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, before)


def test_an_offset_out_of_range_names_partition_offset_and_range(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 0, 10, partition=0)
    with Consumer(**cluster.client, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 1_000)
        with pytest.raises(BrokerError, match=f"{topic}-0: OFFSET_OUT_OF_RANGE .*offset 1000 is not in the log's range, 0 to 10"):
            poll_until(consumer, lambda: False)
        consumer.seek((topic, 0), 8)
        assert [r.offset for r in read(consumer, 2)] == [8, 9]


@pytest.mark.parametrize("offset", [2, 1_000], ids=["deleted", "beyond the end"])
@pytest.mark.parametrize(("policy", "first"), [("earliest", 10), ("latest", 30)])
def test_an_offset_out_of_range_is_reset_by_the_policy(cluster: Cluster, topic: str, policy: str, first: int, offset: int) -> None:
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 0, 30, partition=0)
    delete_records(cluster, topic, 0, 10)
    with Consumer(**cluster.client, auto_offset_reset=policy) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), offset)
        records = poll_until(consumer, lambda: consumer.position((topic, 0), LONG_S) in (first, 30))
        produce(cluster, topic, 30, 35, partition=0)
        records += read(consumer, 35 - first - len(records))
    assert [r.offset for r in records] == list(range(first, 35))


def test_positions_saved_elsewhere_are_resumed_exactly(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    produce(cluster, topic, 0, 300)
    tps = [TopicPartition(topic, p) for p in range(3)]
    with Consumer(**cluster.client, auto_offset_reset="earliest", max_poll_records=50) as first:
        first.assign(tps)
        records = read(first, 100)
        saved = {tp: first.position(tp) for tp in tps}
    with Consumer(**cluster.client, auto_offset_reset="none") as second:
        second.assign(tps)
        for tp, offset in saved.items():
            second.seek(tp, offset)
        records += read(second, 300 - len(records))
    assert values(records) == list(range(300))
    assert_in_order(records)


def test_a_handler_slower_than_the_stream_has_bounded_memory_and_skips_nothing(cluster: Cluster, topic: str) -> None:
    """Whenever the handler is slow, the buffer is as full as it gets; three times what it may hold is there to be fetched."""
    cluster.create_topic(topic, 2)
    count, limit = 3_000, 4 * 1024 * 1024
    with Producer(**cluster.client) as producer:
        for n in range(count):
            producer.send(topic, b"%d " % n + bytes(5_000), partition=n % 2)
    with Consumer(**cluster.client, auto_offset_reset="earliest", prefetch_bytes=limit) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        seen: list[Record] = []
        fullest: list[int] = []
        for record in consumer:
            seen.append(record)
            if len(seen) % 300 == 1:
                fullest.append(filled(consumer, at_least=limit // 2 if len(seen) == 1 else 0))
            if len(seen) == count:
                break
    assert_in_order(seen)
    assert max(fullest) <= limit * 6 / 5  # give or take a fifth


def filled(consumer: Consumer, at_least: int) -> int:
    """The bytes that wait, once so many are there and no more have come for a moment."""
    until(lambda: consumer.stats()["buffered_bytes"] >= at_least, LONG_S, f"{at_least} bytes to wait in the buffer")
    before, quiet = consumer.stats()["fetched_bytes"], Deadline(0.3)

    def settled() -> bool:
        nonlocal before, quiet
        now = consumer.stats()["fetched_bytes"]
        if now != before:
            before, quiet = now, Deadline(0.3)
        return quiet.passed()

    until(settled, LONG_S, "the buffer to stop growing")
    return consumer.stats()["buffered_bytes"]


def test_consumers_share_one_client_with_a_producer(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    with Client(**cluster.client) as client:
        consumers = [Consumer(client=client, auto_offset_reset="earliest") for _ in range(4)]
        with Producer(client=client) as producer:
            for consumer in consumers:
                consumer.assign([(topic, 0), (topic, 1)])
                consumer.poll(0)
            began = time.monotonic()
            for n in range(20):  # a Fetch that waits for data must not hold back what is produced
                producer.send(topic, b"%d" % n).result(LONG_S)
            assert time.monotonic() - began < 5
        for consumer in consumers:
            assert values(read(consumer, 20)) == list(range(20))
            consumer.close()
