"""Policies of topics on real brokers: codecs, complete batches, limits of sizes and rates, as logs and errors show them."""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from integration.cluster import Cluster
from integration.judge.log_format import Batch, batches_in
from integration.judge.reader import fetch, offsets
from integration.waiting import Deadline, until
from pykafka4 import BufferFull, DeliveryFailed, Producer, RecordTooLarge
from pykafka4.wire.records.compression import CODECS

pytestmark = pytest.mark.cluster

SECONDS = 30.0


def batches_of(cluster: Cluster, topic: str) -> list[Batch]:
    """The batches of partition 0, from the leader's log."""
    at, end = offsets(cluster, topic, Deadline(SECONDS))[0]
    out: list[Batch] = []
    while at < end:
        data = until(partial(fetch, cluster, topic, 0, at), SECONDS, f"records of {topic} from {at}", forgive=(OSError,))
        out += [batch for batch in batches_in(data, topic) if batch.base_offset >= at]
        at = out[-1].next_offset
    return out


def test_each_topic_has_its_codec_and_small_batches_have_none(cluster: Cluster, topic: str) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    policies = {f"{topic}-{codec}": {"compression_type": codec, "compression_min_bytes": 1_000} for codec in codecs}
    for name in policies:
        cluster.create_topic(name, 1)
    with Producer(**cluster.client, linger_ms=0, topic_policies=policies) as producer:
        for name in policies:
            producer.send(name, bytes(5_000)).result(SECONDS)
            producer.send(name, bytes(500)).result(SECONDS)
    for codec in codecs:
        assert [batch.codec for batch in batches_of(cluster, f"{topic}-{codec}")] == [CODECS[codec], 0], codec


def test_the_level_of_a_topic_decides_how_many_bytes_are_in_the_log(cluster: Cluster, topic: str) -> None:
    data = b"".join(b"%d " % (n * n) for n in range(20_000))
    with Producer(
        **cluster.client,
        compression_type="zstd",
        topic_policies={f"{topic}-1": {"compression_level": 1}, f"{topic}-19": {"compression_level": 19}},
    ) as producer:
        for level in ("1", "19"):
            producer.send(f"{topic}-{level}", data).result(SECONDS)
        sizes = [producer.stats().topics[f"{topic}-{level}"].compressed_bytes for level in ("1", "19")]
    assert sizes[1] < sizes[0] * 0.95
    assert [record.value for records in cluster.log(f"{topic}-19").values() for record in records] == [data]


def test_a_complete_batch_is_sent_although_its_linger_runs(cluster: Cluster, topic: str) -> None:
    policies = {f"{topic}-count": {"batch_records": 7, "linger_ms": None}, f"{topic}-bytes": {"batch_bytes": 1_000, "linger_ms": 60_000}}
    for name in policies:
        cluster.create_topic(name, 1)
    with Producer(**cluster.client, topic_policies=policies) as producer:
        handles = {name: [producer.send(name, bytes(100)) for _ in range(24)] for name in policies}
        complete = [*handles[f"{topic}-count"][:21], *handles[f"{topic}-bytes"][:20]]
        assert all(handle.result(SECONDS) for handle in complete)
        assert not any(handle.done() for handle in (*handles[f"{topic}-count"][21:], *handles[f"{topic}-bytes"][20:]))
    assert [len(batch.records) for batch in batches_of(cluster, f"{topic}-count")] == [7, 7, 7, 3]
    assert [len(batch.records) for batch in batches_of(cluster, f"{topic}-bytes")] == [10, 10, 4]


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_topic_that_takes_small_batches_only_refuses_a_size_once(cluster: Cluster, topic: str, codec: str, idempotent: bool) -> None:
    cluster.create_topic(topic, 1, configs={"max.message.bytes": "30000"})
    values = [b"%5d" % n + bytes((n * i * i) % 251 for i in range(2_000)) for n in range(200)]
    options = {**cluster.client, "linger_ms": 100, "compression_type": codec, "enable_idempotence": idempotent}
    with Producer(**options) as producer:
        handles = [producer.send(topic, value) for value in values]
        assert [handle.result(SECONDS).offset for handle in handles] == list(range(200))
        before = producer.stats().requests
        again = [producer.send(topic, value) for value in values]
        assert [handle.result(SECONDS).offset for handle in again] == list(range(200, 400))
        requests = producer.stats().requests - before
        assert requests == len([batch for batch in batches_of(cluster, topic) if batch.base_offset >= 200]), "no batch was refused again"
        large = random.Random(1).randbytes(200_000)
        if codec == "none":
            with pytest.raises(
                RecordTooLarge, match=rf"^{topic}: a record of 200\d{{3}} bytes .* exceeds max.message.bytes of the topic=30000"
            ):
                producer.send(topic, large)
        else:  # it may become small
            error = producer.send(topic, large).exception(SECONDS)
            assert isinstance(error, DeliveryFailed)
            assert (error.code, error.record is not None and error.record.topic) == ("MESSAGE_TOO_LARGE", topic)
        assert producer.send(topic, b"after").result(SECONDS).offset == 400
    assert [record.value for record in cluster.log(topic)[0]] == [*values, *values, b"after"]


def test_a_limit_of_a_topic_refuses_a_record_by_name_and_the_others_go_on(cluster: Cluster, topic: str) -> None:
    with Producer(**cluster.client, topic_policies={f"{topic}*": {"max_message_bytes": 10_000}}) as producer:
        with pytest.raises(RecordTooLarge, match=rf"^{topic}: a record of 2\d{{4}} bytes .* exceeds max_message_bytes=10000"):
            producer.send(topic, bytes(20_000))
        producer.send(topic, b"small").result(SECONDS)


def test_one_record_that_brokers_refuse_fails_alone_and_by_name(cluster: Cluster, topic: str) -> None:
    """A compacted topic takes no record without a key."""
    cluster.create_topic(topic, 1, configs={"cleanup.policy": "compact"})
    with Producer(**cluster.client, linger_ms=200) as producer:
        handles = [producer.send(topic, b"%d" % n, key=None if n == 5 else b"%d" % n, partition=0) for n in range(10)]
        error = handles[5].exception(SECONDS)
        assert isinstance(error, DeliveryFailed)
        assert error.record is not None
        assert (error.code, error.record.value) == ("INVALID_RECORD", b"5")
        assert [handle.result(SECONDS).offset for n, handle in enumerate(handles) if n != 5] == list(range(9))


def test_records_over_a_rate_are_dropped_counted_and_reported(cluster: Cluster, topic: str) -> None:
    with Producer(**cluster.client, rate_limits={f"{topic}*": (5, 3_600_000)}, on_rate_limit="drop") as producer:
        handles = [producer.send(topic, b"%d" % n) for n in range(12)]
        assert [handle.exception(SECONDS) is None for handle in handles] == [True] * 5 + [False] * 7
        stats = producer.stats()
    assert (stats.accepted, stats.acked, stats.dropped) == (12, 5, {"RATE_LIMITED": 7})
    assert sum(len(records) for records in cluster.log(topic).values()) == 5


def test_records_over_a_rate_are_delayed_and_keep_their_order(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client, rate_limits={topic: (10, 200)}, max_block_ms=5_000) as producer:
        began = time.monotonic()
        handles = [producer.send(topic, b"%d" % n) for n in range(35)]
        assert 0.55 < time.monotonic() - began < 5
        assert [handle.result(SECONDS).offset for handle in handles] == list(range(35))
        with pytest.raises(BufferFull, match="over its limit of 10 records in 200 ms"):
            refused: list[BaseException] = []
            producer.send(topic, b"x").add_done_callback(lambda _: refused.extend(overflow(producer, topic)))
            producer.flush(SECONDS)
            raise refused[0]


def overflow(producer: Producer, topic: str) -> list[BaseException]:
    """What `send` raises inside a callback, where it must not wait."""
    for _ in range(20):
        try:
            producer.send(topic, b"more")
        except BufferFull as error:
            return [error]
    return []
