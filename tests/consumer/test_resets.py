"""auto_offset_reset=by_duration (KIP-1106): where reading starts."""

from __future__ import annotations

import time
from datetime import timedelta

from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord
from tests.consumer.consuming import LONG, Maker, fill, numbers, poll_until, read

HOUR_S = 3_600


def aged(server: ModelServer, partition: int, *hours: float) -> None:
    """A record for each age, one batch each."""
    now_ms = int(time.time() * 1000)
    for age in hours:
        record = WireRecord(timestamp_ms=now_ms - int(age * HOUR_S * 1000), value=b"%g" % age)
        server.do(lambda cluster, record=record: cluster.append("t", partition, [record]))


def test_reading_starts_at_the_first_record_of_the_duration(server: ModelServer, make: Maker) -> None:
    """Without a younger record at the end of the log, with only younger ones at its beginning."""
    server.create_topic("t", 4)
    aged(server, 0, 3, 2, 0.5, 0.1)
    aged(server, 1, 3, 2)
    aged(server, 2, 0.5)
    for reset in ("by_duration:PT1H", timedelta(hours=1)):
        consumer = make(auto_offset_reset=reset)
        consumer.assign([("t", partition) for partition in range(4)])
        assert sorted((record.partition, record.offset) for record in read(consumer, 3)) == [(0, 2), (0, 3), (2, 0)]
        assert [consumer.position(("t", partition), LONG) for partition in range(4)] == [4, 2, 1, 0]


def test_a_new_partition_is_read_from_its_beginning(server: ModelServer, make: Maker) -> None:
    """Its records may be older than the duration: they were written after the subscription all the same."""
    server.create_topic("t", 1)
    aged(server, 0, 2)
    consumer = make.member(auto_offset_reset="by_duration:PT1H", metadata_max_age_ms=200)
    poll_until(consumer, consumer.assignment)
    assert consumer.position(("t", 0), LONG) == 1
    server.do(lambda cluster: cluster.add_partitions("t", 2))
    aged(server, 1, 2, 1.5)
    assert [record.offset for record in read(consumer, 2)] == [0, 1]


def test_a_committed_offset_comes_first(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 4))
    first = make.member(enable_auto_commit=False)
    poll_until(first, first.assignment)
    first.commit({("t", 0): 1})
    first.close()
    consumer = make.member(auto_offset_reset="by_duration:PT1H")
    assert [record.offset for record in read(consumer, 3)] == [1, 2, 3]
