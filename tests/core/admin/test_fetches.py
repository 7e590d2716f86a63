"""Fetches by offset on scripted brokers: responses that a model broker does not give."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core.admin.broker_choices import LeaderChoice
from pykafka4.core.admin.fetches import Fetch, FetchFrom, FetchLimits, decode_all
from pykafka4.errors import BrokerError, CorruptRecord, RecordTooLarge
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_fetch import FetchResponse
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.core.scripted_admin import Harness, code, make

T0 = TopicPartition("t", 0)
LIMITS = FetchLimits(0, 1, 0, 1 << 20, 1 << 20)


@pytest.fixture
def harness() -> Harness:
    return make()


def batch(first: int, *values: bytes) -> bytes:
    return bytes(build_batch([WireRecord(timestamp_ms=1, value=value) for value in values], base_offset=first))


def response(records: bytes, error: int = 0, high_watermark: int = 100) -> FetchResponse:
    kind = FetchResponse.Topic
    row = kind.Partition(partition_index=0, error_code=error, high_watermark=high_watermark, aborted_transactions=None, records=records)
    return FetchResponse(session_id=0, responses=[kind(topic="t", partitions=[row])])


def fetched(harness: Harness, wanted: FetchFrom, limits: FetchLimits = LIMITS) -> Any:
    outcomes = harness.ask(Fetch({T0: wanted}, limits), LeaderChoice(harness.world.engine.cluster), [T0])
    harness.run(5.0)
    return decode_all({T0: wanted}, 1 << 20, outcomes[0])[T0]


def test_a_first_batch_that_is_cut_off_is_asked_for_again_with_room(harness: Harness) -> None:
    whole = batch(0, b"x" * 500, b"y")
    asked: list[int] = []

    def answer(message: Any, host: str) -> FetchResponse:
        (part,) = message.topics[0].partitions
        asked.append(part.partition_max_bytes)
        return response(whole[: part.partition_max_bytes])

    harness.script["Fetch"] = answer
    found = fetched(harness, FetchFrom(0, 100))
    assert asked == [100, len(whole)]
    assert ([record.offset for record in found.records], found.next_offset) == ([0, 1], 2)


def test_a_broker_that_returns_parts_of_a_batch_only_is_not_asked_for_ever(harness: Harness) -> None:
    asked: list[int] = []

    def answer(message: Any, host: str) -> FetchResponse:
        asked.append(message.topics[0].partitions[0].partition_max_bytes)
        return response(batch(0, b"x" * 500)[:100])

    harness.script["Fetch"] = answer
    found = fetched(harness, FetchFrom(0, 100))
    assert isinstance(found.error, CorruptRecord)
    assert "only a part of the next batch" in str(found.error)
    assert len(asked) == 2


def test_a_batch_that_no_response_has_room_for_is_too_large(harness: Harness) -> None:
    harness.script["Fetch"] = lambda message, host: response(batch(0, b"x" * 9_000)[:100])
    found = fetched(harness, FetchFrom(0, 100), FetchLimits(0, 1, 0, 8_192, 1 << 20))
    assert isinstance(found.error, RecordTooLarge)
    assert "raise that option" in str(found.error)


def test_bytes_that_are_no_batch_are_corrupt(harness: Harness) -> None:
    harness.script["Fetch"] = lambda message, host: response(b"\xff" * 80)
    found = fetched(harness, FetchFrom(7, 100))
    assert isinstance(found.error, CorruptRecord)
    assert found.next_offset == 7


def test_an_offset_out_of_range_says_how_to_find_the_range(harness: Harness) -> None:
    harness.script["Fetch"] = lambda message, host: response(b"", code("OFFSET_OUT_OF_RANGE"))
    found = fetched(harness, FetchFrom(7, 100))
    assert isinstance(found.error, BrokerError)
    assert "offset 7 is not in the log; list_offsets returns its ends" in str(found.error)


def test_records_take_no_more_memory_than_allowed_and_the_rest_is_for_the_next_fetch(harness: Harness) -> None:
    harness.script["Fetch"] = lambda message, host: response(batch(0, *[b"x" * 1_000] * 20))
    outcomes = harness.ask(Fetch({T0: FetchFrom(0, 100)}, LIMITS), LeaderChoice(harness.world.engine.cluster), [T0])
    harness.run(1.0)
    found = decode_all({T0: FetchFrom(0, 100)}, 5_000, outcomes[0])[T0]
    assert 1 <= len(found.records) <= 6
    assert found.next_offset == len(found.records)
