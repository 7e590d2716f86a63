"""`read`: the records between two offsets of each partition, and the end."""

from __future__ import annotations

import gc
import logging
import re
import time
from typing import Any

import pytest

from pykafka4 import ClosedError, ConfigError, CorruptRecord, DeserializationError, LogTruncated, OffsetOutOfRange, TopicPartition, read
from pykafka4.consumer.session import ConsumerSession
from pykafka4.errors import BrokerError, InvalidOffset, KafkaTimeoutError
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.messages_fetch import FetchResponse, ListOffsetsResponse
from tests.bounded.conftest import Reads
from tests.consumer.consuming import damage, fill, numbers, topic
from tests.consumer.test_read_committed import Writers
from tests.inspection import inspect

T0 = TopicPartition("t", 0)


def values(records: Any) -> list[bytes]:
    return [record.value for record in records]


def offsets(records: Any) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in records)


def delete_before(server: ModelServer, offset: int) -> None:
    server.do(lambda cluster: cluster.delete_records("t", 0, offset))


def compact(server: ModelServer, *kept: int) -> None:
    """Only the batches of these numbers stay in partition 0 of `t`."""

    def change(cluster: Any) -> None:
        for copy in cluster.topics["t"].partitions[0].copies.values():
            log = copy.log
            log.batches = [log.batches[number] for number in kept]
            log._bases = [log._bases[number] for number in kept]

    server.do(change)


def test_all_records_of_all_partitions_and_none_that_is_written_later(server: ModelServer, reads: Reads) -> None:
    topic(server, 100, 0, 7)
    records = reads()
    fill(server, "t", 0, numbers(100, 110))
    fill(server, "t", 1, numbers(0, 5))
    assert offsets(records) == [(0, n) for n in range(100)] + [(2, n) for n in range(7)]


def test_its_repr_counts_the_records(server: ModelServer, reads: Reads) -> None:
    topic(server, 1)
    records = reads()
    assert repr(records) == "<Read of t-0: 0 records so far>"
    assert offsets(records) == [(0, 0)]
    assert repr(records) == "<Read of t-0: 1 record so far>"


def test_several_topics_and_chosen_partitions(server: ModelServer, reads: Reads) -> None:
    topic(server, 3, 4)
    server.create_topic("u", 2)
    fill(server, "u", 1, numbers(0, 2))
    assert {(r.topic, r.partition, r.offset) for r in reads(["t", "u"], partitions=[("t", 1), ("u", 1)])} == {
        *(("t", 1, n) for n in range(4)),
        *(("u", 1, n) for n in range(2)),
    }
    assert offsets(reads(partitions=[0])) == [(0, 0), (0, 1), (0, 2)]


def test_offsets_of_both_ends(server: ModelServer, reads: Reads) -> None:
    topic(server, 10, 10)
    assert offsets(reads(start={0: 3, 1: 10}, until={0: 5, 1: 10})) == [(0, 3), (0, 4)]
    assert offsets(reads(start={0: 7, 1: 0}, until={0: 5, 1: 0})) == []
    assert offsets(reads(start="now")) == []


def test_times_of_both_ends(server: ModelServer, reads: Reads) -> None:
    server.create_topic("t", 1)
    now = int(time.time() * 1000)
    for age_s in (7200, 3000, 60):
        server.produce("t", b"%d" % age_s, partition=0, timestamp_ms=now - age_s * 1000)
    assert values(reads(start="-1h")) == [b"3000", b"60"]
    assert values(reads(until="-1h")) == [b"7200"]
    assert values(reads(start="-1h", until="-10m")) == [b"3000"]
    assert values(reads(start="-10s")) == []


def test_transactions_at_the_end(server: ModelServer, reads: Reads) -> None:
    writers = Writers(server)
    writers.write(b"a", b"b")
    writers.commit()
    writers.write(b"no")
    writers.abort()
    assert values(reads(partitions=[0])) == [b"a", b"b"]
    assert values(reads(partitions=[0], isolation_level="read_uncommitted")) == [b"a", b"b", b"no"]
    writers.write(b"open", name="b")
    fill(server, "t", 0, [b"behind"])
    assert values(reads(partitions=[0])) == [b"a", b"b"]
    assert values(reads(partitions=[0], isolation_level="read_uncommitted")) == [b"a", b"b", b"no", b"open", b"behind"]


def test_records_that_follow_an_open_transaction_stay_out_when_it_ends_during_the_read(server: ModelServer, reads: Reads) -> None:
    writers = Writers(server)
    fill(server, "t", 0, [b"first"])
    writers.write(b"open")
    records = reads(partitions=[0])
    writers.commit()
    assert values(records) == [b"first"]


@pytest.mark.parametrize("kept", [(0, 1, 2), (0, 2), (1, 2), (0, 1), (0,), ()])
def test_gaps_of_compaction_end_the_read_at_once(server: ModelServer, reads: Reads, kept: tuple[int, ...]) -> None:
    topic(server, 0)
    for first in (0, 2, 4):
        fill(server, "t", 0, numbers(first, first + 2))
    compact(server, *kept)
    began = time.monotonic()
    assert [r.offset for r in reads(fetch_max_wait_ms=5_000)] == [n for batch in kept for n in (2 * batch, 2 * batch + 1)]
    assert time.monotonic() - began < 3


def test_a_throttled_response_proves_no_gap(server: ModelServer, reads: Reads) -> None:
    topic(server, 5)
    answers: list[FetchResponse] = []

    def throttled(call: Any) -> FetchResponse:
        topics = [FetchResponse.Topic(topic=t.topic, topic_id=t.topic_id, partitions=[row]) for t in call.message.topics]
        answers.append(FetchResponse(throttle_time_ms=1, responses=topics))
        return answers[-1]

    row = FetchResponse.Topic.Partition(partition_index=0, high_watermark=5, last_stable_offset=5, records=b"")
    for _ in range(3):
        server.do(lambda cluster: cluster.control("Fetch", throttled))
    assert len(values(reads())) == 5
    assert answers


def test_a_slow_remote_read_proves_no_gap(server: ModelServer, reads: Reads) -> None:
    topic(server, 5)

    def in_tiered_storage(call: Any) -> FetchResponse:
        topics = [FetchResponse.Topic(topic=t.topic, topic_id=t.topic_id, partitions=[row]) for t in call.message.topics]
        return FetchResponse(responses=topics)

    def local_from_3(call: Any) -> Any:
        asked = call.message.topics[0].partitions[0].timestamp
        assert asked == -4
        part = ListOffsetsResponse.Topic.Partition(partition_index=0, offset=3, timestamp=-1)
        return ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="t", partitions=[part])])

    row = FetchResponse.Topic.Partition(partition_index=0, high_watermark=5, last_stable_offset=5, records=b"")
    server.do(lambda cluster: cluster.control("Fetch", in_tiered_storage))
    records = reads()
    server.do(lambda cluster: cluster.control("ListOffsets", local_from_3))
    assert len(values(records)) == 5


def test_unknown_topic_and_partition(server: ModelServer, reads: Reads) -> None:
    topic(server, 1)
    with pytest.raises(BrokerError, match="nope: UNKNOWN_TOPIC_OR_PARTITION"):
        reads("nope")
    with pytest.raises(BrokerError, match=r"t-7: UNKNOWN_TOPIC_OR_PARTITION.*the topic has 1 partition"):
        reads(partitions=[7])


def test_offset_beyond_the_end(server: ModelServer, reads: Reads) -> None:
    topic(server, 5)
    with pytest.raises(ConfigError, match="until: offset 6 of t-0 is beyond the end of the log, 5"):
        reads(until={0: 6})
    with pytest.raises(ConfigError, match="start: offset 6 of t-0"):
        reads(start={0: 6})


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"group_id": "g"}, "no option group_id: a bounded read has no group"),
        ({"auto_offset_reset": "latest"}, "start= says"),
        ({"on_lost": "ignore"}, '"raise" or "warn"'),
        ({"timeout": -1}, "timeout=-1"),
        ({"start": 5}, "{0: 5}"),
    ],
)
def test_wrong_arguments(reads: Reads, options: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        reads(**options)
    assert hint in str(raised.value)


# ---- lost records


def test_deleted_records_are_an_error_that_names_them(server: ModelServer, reads: Reads) -> None:
    topic(server, 10)
    delete_before(server, 4)
    with pytest.raises(OffsetOutOfRange, match="offsets 2 to 3 were deleted before they were read; the log begins at 4") as raised:
        reads(start={0: 2})
    assert (raised.value.offset, raised.value.earliest) == (2, 4)
    with pytest.raises(OffsetOutOfRange) as raised:
        reads(start={0: 2}, until={0: 3})
    assert raised.value.earliest <= raised.value.latest <= 10


def test_deleted_records_are_a_warning_by_choice(server: ModelServer, reads: Reads, caplog: pytest.LogCaptureFixture) -> None:
    topic(server, 10)
    delete_before(server, 4)
    with caplog.at_level(logging.WARNING):
        records = reads(start={0: 2}, on_lost="warn")
        assert offsets(records) == [(0, n) for n in range(4, 10)]
    assert [(lost.first, lost.last) for lost in records.lost] == [(2, 3)]
    assert "t-0: offsets 2 to 3 are lost" in caplog.text


def reading_in_small_steps(server: ModelServer, reads: Reads, **options: Any) -> Any:
    """A read that has returned one record, and fetched no more than a batch of two."""
    topic(server, 0)
    for first in range(0, 10, 2):
        fill(server, "t", 0, numbers(first, first + 2))
    records = reads(max_partition_fetch_bytes=1, prefetch_bytes=1, max_poll_records=1, **options)
    assert next(records).offset == 0
    return records


def test_records_deleted_during_the_read(server: ModelServer, reads: Reads) -> None:
    records = reading_in_small_steps(server, reads)
    delete_before(server, 8)
    with pytest.raises(OffsetOutOfRange, match="were deleted before they were read; the log begins at 8"):
        offsets(records)


def test_records_deleted_during_the_read_are_a_warning_by_choice(server: ModelServer, reads: Reads) -> None:
    records = reading_in_small_steps(server, reads, on_lost="warn")
    delete_before(server, 8)
    read_on = [record.offset for record in records]
    (lost,) = records.lost
    assert [0, *read_on, *range(lost.first, lost.last + 1)] in ([*range(lost.first), 8, 9, *range(lost.first, 8)],)


def test_everything_deleted_during_the_read_ends_it(server: ModelServer, reads: Reads) -> None:
    records = reading_in_small_steps(server, reads, on_lost="warn")
    fill(server, "t", 0, numbers(10, 12))
    delete_before(server, 11)
    assert all(record.offset < 10 for record in records)
    assert records.lost[-1].last == 9


def test_progress_counts_lost_offsets_as_done(server: ModelServer, reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    topic(server, 12)
    delete_before(server, 10)
    assert offsets(reads(start={0: 2}, until={0: 5}, on_lost="warn", progress=True)) == []
    assert "t: 100 %, 0 records" in capsys.readouterr().err


def truncate(server: ModelServer, offset: int) -> None:
    def change(cluster: Any) -> None:
        for copy in cluster.topics["t"].partitions[0].copies.values():
            log = copy.log
            log.truncate(offset)
            log.high_watermark = min(log.high_watermark, offset)

    server.do(change)


def test_a_log_that_ends_before_the_bound_is_an_error_and_no_endless_wait(server: ModelServer, reads: Reads) -> None:
    records = reading_in_small_steps(server, reads)
    truncate(server, 6)
    with pytest.raises(LogTruncated, match='removed offsets 6 to 9, which were to be read; on_lost="warn" logs the loss'):
        offsets(records)


def test_a_log_that_ends_before_the_bound_ends_the_read_by_choice(server: ModelServer, reads: Reads) -> None:
    records = reading_in_small_steps(server, reads, on_lost="warn")
    truncate(server, 6)
    assert [record.offset for record in records] == [1, 2, 3, 4, 5]
    assert [(lost.first, lost.last) for lost in records.lost] == [(6, 9)]


def test_recreated_topic(server: ModelServer, reads: Reads) -> None:
    records = reading_in_small_steps(server, reads, metadata_max_age_ms=100)

    def again(cluster: Any) -> None:
        cluster.delete_topic("t")
        cluster.create_topic("t", 1)

    server.do(again)
    with pytest.raises(InvalidOffset, match='the topic was recreated; on_lost="warn" logs the loss'):
        offsets(records)


def test_a_topic_that_is_recreated_when_its_records_were_returned_loses_none(server: ModelServer, reads: Reads) -> None:
    topic(server, 3)
    server.create_topic("u", 1)
    for first in range(0, 10, 2):
        fill(server, "u", 0, numbers(first, first + 2))
    records = reads(["t", "u"], metadata_max_age_ms=100, max_partition_fetch_bytes=1, prefetch_bytes=1, max_poll_records=1)
    begun = list[Any]()
    while sum(record.topic == "t" for record in begun) < 3:
        begun.append(next(records))

    def again(cluster: Any) -> None:
        cluster.orphan("u", 0, 0.5)  # meanwhile the metadata show the new topic
        cluster.recreate_topic("t")

    server.do(again)
    rest = list(records)
    assert [record.offset for record in [*begun, *rest] if record.topic == "u"] == list(range(10))
    assert all(record.topic == "u" for record in rest)


# ---- the iterator


def test_the_look_up_of_the_ends_has_the_timeout_of_the_read() -> None:
    began = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=r"no answer within 0.2 s .*127.0.0.1:1"):
        read("t", bootstrap_servers="127.0.0.1:1", timeout=0.2)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("end", "until= says where it ends"),
        ("since", "start= says where it begins"),
        ("unitl", "did you mean 'until'?"),
        ("partition", "did you mean 'partitions'?"),
        ("valu_deserializer", "did you mean 'value_deserializer'?"),
    ],
)
def test_a_misspelt_argument_names_the_right_one(reads: Reads, name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=rf"'?{name}'?[:;] {re.escape(hint)}"):
        reads(**{name: "now"})


@pytest.mark.parametrize("name", ["colums", "max_row"])
def test_a_misspelt_argument_of_read_arrow_is_no_hint_for_read(reads: Reads, name: str) -> None:
    with pytest.raises(ConfigError, match=name) as raised:
        reads(**{name: 1})
    assert not re.search("'(columns|max_rows)'", str(raised.value))


def test_a_record_that_cannot_be_deserialized_names_the_option_that_leaves_it_out(server: ModelServer, reads: Reads) -> None:
    topic(server, 1)
    server.produce("t", "no number")
    with pytest.raises(DeserializationError, match='on_poison="skip"'):
        list(reads(value_deserializer=float))
    assert values(reads(value_deserializer=float, on_poison="skip")) == [0.0]


def test_a_partition_without_leader_is_a_timeout_that_names_it(server: ModelServer, reads: Reads) -> None:
    records = reading_in_small_steps(server, reads, timeout=1)
    server.do(lambda cluster: cluster.orphan("t", 0, 60.0))
    with pytest.raises(KafkaTimeoutError, match=r"t-0 is read up to offset \d of 10, and no further for 1 s"):
        offsets(records)
    with pytest.raises(KafkaTimeoutError):
        next(records)


def test_the_timeout_passes_once(server: ModelServer, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 10)
    records = reads(timeout=40)
    waited: list[float] = []

    def poll(self: ConsumerSession, timeout: float, most: int | None, form: Any, iteration: Any) -> Any:
        waited.append(timeout)
        return form.nothing()

    monkeypatch.setattr(ConsumerSession, "poll", poll)
    for _ in range(2):
        with pytest.raises(KafkaTimeoutError, match="for 40 s"):
            next(records)
        assert 40 <= sum(waited) <= 44.01
        waited.clear()


def test_an_exception_does_not_look_like_the_end(server: ModelServer, reads: Reads) -> None:
    topic(server, 2)
    fill(server, "t", 0, numbers(2, 4))
    damage(server, 1)
    records = reads()
    loop = iter(records)
    assert [next(loop).offset, next(loop).offset] == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptRecord):
            next(loop)


def test_a_loop_that_is_left_can_be_continued(server: ModelServer, reads: Reads) -> None:
    topic(server, 100)
    records = reads()
    for record in records:
        if record.offset == 10:
            break
    assert next(records).offset == 11
    assert [record.offset for record in records] == list(range(12, 100))
    assert list(records) == []


def test_a_read_is_closed_at_its_end_and_when_it_is_left(server: ModelServer, reads: Reads) -> None:
    topic(server, 100)
    records = reads()
    session = records._reading.session
    assert len(list(records)) == 100
    assert session.closed
    with reads() as records:
        next(records)
    with pytest.raises(ClosedError, match="this read was closed before its end"):
        next(records)


def test_a_forgotten_read_is_closed(server: ModelServer) -> None:
    topic(server, 100)
    records = read("t", bootstrap_servers=server.bootstrap_servers)
    runtime = records._reading.session.runtime
    for _ in records:
        break
    del records
    gc.collect()
    server.wait_for(lambda cluster: not runtime.loop.alive)


def test_a_shared_client_stays_open(server: ModelServer) -> None:
    from pykafka4 import Client

    topic(server, 3)
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        assert len(list(read("t", client=client))) == 3
        assert len(list(read("t", client=client))) == 3
        assert client.status()["state"] == "connected"
        assert inspect(client).runtime.loop.alive
