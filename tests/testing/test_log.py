"""A partition's log: what a broker does with duplicates, gaps, epochs and damage."""

from __future__ import annotations

import struct
from typing import Any

import lz4.frame
import pytest

from pykafka4.records import TopicPartition
from pykafka4.testing.storage.log import DuplicateAnswer, PartitionLog, UnknownProducer
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.compression import compress

TP = TopicPartition("t", 0)


def log(**options: Any) -> PartitionLog:
    return PartitionLog(TP, lambda: 1234, **options)


def batch(sequence: int, count: int = 1, *, pid: int = 7, epoch: int = 0, codec: int = 0, text: str = "v") -> bytes:
    records = [WireRecord(timestamp_ms=1000 + i, value=f"{text}{sequence + i}".encode()) for i in range(count)]
    return build_batch(records, codec=codec, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)


def values(one: PartitionLog) -> list[bytes | None]:
    return [record.value for record in one.records()]


def test_offsets_follow_each_other_and_epochs_are_the_leaders() -> None:
    one = log()
    assert [one.append(batch(0, 3), 5).base_offset, one.append(batch(3, 2), 6).base_offset] == [0, 3]
    assert [(r.offset, r.leader_epoch) for r in one.records()] == [(0, 5), (1, 5), (2, 5), (3, 6), (4, 6)]
    assert one.end_of_epoch(5) == (5, 3)
    assert one.end_of_epoch(6) == (6, 5)
    assert one.end_of_epoch(9) == (-1, -1)
    assert one.end_of_epoch(4) == (4, 0)


def test_a_repeated_batch_gets_the_offset_of_its_first_copy() -> None:
    one = log()
    first = [one.append(batch(n), 0).base_offset for n in range(5)]
    again = [one.append(batch(n), 0) for n in range(5)]
    assert [a.base_offset for a in again] == first
    assert all(a.duplicate for a in again)
    assert one.end_offset == 5


def with_body(codec: int, body: bytes) -> bytes:
    """A batch of one record, with `body` as its compressed records and a good checksum."""
    made = bytearray(batch(0, codec=codec)[:61] + body)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
    return bytes(made)


def test_compressed_data_is_valid_if_javas_reader_takes_it() -> None:
    one, large = log(), build_batch([WireRecord(value=bytes(100_000))])[61:]
    skippable = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    frames = skippable + compress(4, large[:9]) + compress(4, large[9:]) + skippable
    assert one.append(with_body(4, frames), 0).error == "NONE"
    independent, dependent = (
        lz4.frame.compress(large, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=flag) for flag in (False, True)
    )
    assert one.append(with_body(3, independent), 0).error == "NONE"
    assert one.append(with_body(3, dependent), 0).error == "INVALID_RECORD"


def test_a_repeated_batch_can_be_refused_instead() -> None:
    one = log(duplicate_answer=DuplicateAnswer.ERROR)
    one.append(batch(0), 0)
    assert one.append(batch(0), 0).error == "DUPLICATE_SEQUENCE_NUMBER"


def test_only_five_batches_are_remembered() -> None:
    one = log()
    for n in range(6):
        one.append(batch(n), 0)
    assert one.append(batch(0), 0).error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert one.append(batch(1), 0).duplicate


def test_a_gap_is_refused_and_leaves_nothing_behind() -> None:
    one = log()
    one.append(batch(0), 0)
    assert one.append(batch(2), 0).error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert one.append(batch(1), 0).base_offset == 1


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one() -> None:
    one = log()
    one.append(batch(0), 0)
    assert one.append(batch(5, epoch=1), 0).error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert one.append(batch(0, epoch=1), 0).base_offset == 1
    assert one.append(batch(1), 0).error == "INVALID_PRODUCER_EPOCH"


def test_an_unknown_producer_may_start_anywhere_since_2_5_and_nowhere_before() -> None:
    assert log().append(batch(9), 0).error == "NONE"
    assert log(unknown_producer=UnknownProducer.REFUSE).append(batch(9), 0).error == "UNKNOWN_PRODUCER_ID"


def test_forgotten_producers_make_duplicates_possible() -> None:
    one = log()
    one.append(batch(0), 0)
    one.producers.clear()
    assert not one.append(batch(0), 0).duplicate
    assert values(one) == [b"v0", b"v0"]


def test_sequences_wrap_to_zero() -> None:
    last = 2**31 - 1
    one = log()
    one.append(batch(last - 1, 2), 0)
    assert one.append(batch(0), 0).error == "NONE"
    assert one.append(batch(last - 1, 2), 0).duplicate


@pytest.mark.parametrize("place", [21, 30, 61, 66])
def test_one_flipped_bit_is_seen(place: int) -> None:
    data = bytearray(batch(0, 2))
    data[place] ^= 1
    one = log()
    assert one.append(bytes(data), 0).error == "CORRUPT_MESSAGE"
    assert one.end_offset == 0


@pytest.mark.parametrize("data", [b"", b"\0" * 60, batch(0) + b"\0", batch(0) + batch(1), batch(0)[:-1]])
def test_what_is_not_exactly_one_batch_is_refused(data: bytes) -> None:
    assert log().append(data, 0).error == "INVALID_RECORD"


def test_a_wrong_count_is_refused() -> None:
    from pykafka4.testing.storage.batch import BODY_AT, CRC_AT
    from pykafka4.wire.records.checksum import crc32c

    data = bytearray(batch(0, 2))
    struct.pack_into(">i", data, 57, 3)
    struct.pack_into(">i", data, 23, 2)
    struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data[BODY_AT:])))
    assert log().append(bytes(data), 0).error == "INVALID_RECORD"


def test_too_large_a_batch_is_refused() -> None:
    assert log(max_message_bytes=80).append(batch(0, 10), 0).error == "MESSAGE_TOO_LARGE"


def test_append_time_is_the_brokers() -> None:
    one = log(append_time=True)
    assert one.append(batch(0, 2), 0).append_time_ms == 1234
    assert [r.timestamp_ms for r in one.records()] == [1234, 1234]


def test_reading_gives_the_first_batch_whole_and_cuts_the_last() -> None:
    one = log()
    sizes = []
    for n in range(3):
        one.append(batch(2 * n, 2), 0)
        sizes.append(len(one.batches[-1].data))
    assert one.read(0, 1) == b""
    one.high_watermark = one.end_offset
    assert len(one.read(1, 1)) == sizes[0]
    assert len(one.read(2, sizes[1] + 10)) == sizes[1] + 10
    assert one.read(6, 1000) == b""


def test_compacted_gaps_are_read_over() -> None:
    one = log()
    one.store(build_batch([WireRecord(value=b"a")], base_offset=0))
    one.store(build_batch([WireRecord(value=b"b")], base_offset=5))
    one.high_watermark = one.end_offset
    assert one.read(1, 1000) == one.batches[1].data
    assert one.end_offset == 6


def test_truncation_takes_whole_batches_and_what_producers_said_in_them() -> None:
    one = log()
    for n in range(3):
        one.append(batch(n), n)
    one.truncate(1)
    assert one.end_offset == 1
    assert one.append(batch(1), 9).base_offset == 1
    assert one.end_of_epoch(0) == (0, 1)
    assert one.end_of_epoch(2) == (0, 1)


def test_an_epoch_in_which_a_replica_wrote_nothing_does_not_hide_those_before_it_follows_again() -> None:
    leader, follower = log(), log()
    leader.begin_epoch(1)
    leader.append(batch(0, 3), 1)
    leader.begin_epoch(2)
    leader.append(batch(3, 2), 2)
    follower.follow(leader)
    follower.begin_epoch(3)
    leader.append(batch(5), 2)
    follower.follow(leader)
    assert follower.epochs == leader.epochs == [(1, 0), (2, 3)]
    assert follower.end_of_epoch(1) == (1, 3)


def test_deleting_records_moves_the_start() -> None:
    one = log()
    for n in range(3):
        one.append(batch(2 * n, 2), 0)
    one.delete_before(3)
    assert one.start_offset == 3
    assert [b.base_offset for b in one.batches] == [2, 4]


def test_offsets_are_found_by_time() -> None:
    one = log()
    one.append(batch(0, 3), 0)
    assert one.offset_at(1001) == (-1, -1)
    one.high_watermark = one.end_offset
    assert one.offset_at(1001) == (1, 1001)
    assert one.offset_at(5000) == (-1, -1)
    assert one.newest() == (2, 1002)
