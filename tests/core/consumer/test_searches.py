"""Searches for the first and last offsets of partitions."""

from __future__ import annotations

import pytest

from pykafka4.core.consumer.searches import Search
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Start
from pykafka4.errors import KafkaError
from pykafka4.errors.codes import CODES
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest, ListOffsetsResponse
from tests.core.consumer_harness import LOST, ConsumerHarness, tp


class Seeker(Search):
    """Searches one offset and records the result."""

    def __init__(self, harness: ConsumerHarness, partition: int, target: Start = Start.EARLIEST) -> None:
        super().__init__(tp(partition), target)
        self.offsets: list[int] = []
        self.errors: list[KafkaError] = []
        self.needed = True
        harness.machine.fetcher.searches.begin(self)

    def wanted(self) -> bool:
        return self.needed

    def found(self, now: float, offset: int, epoch: int) -> None:
        self.offsets.append(offset)

    def refused(self, now: float, error: KafkaError) -> None:
        self.errors.append(error)


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness()
    harness.cluster.set("t", [1, 2, 1])
    return harness


def test_each_leader_is_asked_once_for_all_its_partitions_over_a_lane_for_fetches(harness: ConsumerHarness) -> None:
    """A producer of the same client may have the plain connection held back by `acks=all`."""
    seekers = [Seeker(harness, p) for p in range(3)]
    harness.run()
    assert {r.node // LANE for r in harness.pending(ListOffsetsRequest)} == {2}
    asked = {
        r.node % LANE: [p.partition_index for t in r.message.topics for p in t.partitions] for r in harness.pending(ListOffsetsRequest)
    }
    assert asked == {1: [0, 2], 2: [1]}
    harness.ends(7)
    assert [s.offsets for s in seekers] == [[7], [7], [7]]


def test_two_questions_about_one_partition_go_one_after_the_other(harness: ConsumerHarness) -> None:
    first, last = Seeker(harness, 0), Seeker(harness, 0, Start.LATEST)
    harness.run()
    assert len(harness.pending(ListOffsetsRequest)) == 2
    for request in harness.pending(ListOffsetsRequest):
        (part,) = request.message.topics[0].partitions
        offset = {-2: 3, -1: 9}[part.timestamp]
        row = ListOffsetsResponse.Topic.Partition(partition_index=0, error_code=0, offset=offset)
        harness.answer(request, ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="t", partitions=[row])]))
    assert (first.offsets, last.offsets) == ([3], [9])


@pytest.mark.parametrize("number", [*sorted(CODES.keys() - {0}), 32_000])
def test_an_error_waits_for_recovery_and_is_raised_when_no_retry_helps(harness: ConsumerHarness, number: int) -> None:
    seeker = Seeker(harness, 0)
    harness.run()
    (request,) = harness.pending(ListOffsetsRequest)
    row = ListOffsetsResponse.Topic.Partition(partition_index=0, error_code=number)
    harness.answer(request, ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="t", partitions=[row])]))
    assert harness.pending(ListOffsetsRequest) == []
    retriable = number == -1 or (number in CODES and CODES[number].retriable)
    assert len(seeker.errors) == (0 if retriable else 1)
    harness.recovery.bring_back()
    harness.run()
    harness.ends(5)
    assert seeker.offsets == [5]


def test_a_lost_connection_or_a_missing_row_is_asked_again(harness: ConsumerHarness) -> None:
    seeker = Seeker(harness, 0)
    harness.run()
    harness.answer(harness.one(ListOffsetsRequest), LOST)
    assert harness.recovery.reports == [(tp(0), LOST.reason)]
    harness.recovery.bring_back()
    harness.run()
    harness.answer(harness.one(ListOffsetsRequest), ListOffsetsResponse(topics=[]))
    harness.recovery.bring_back()
    harness.run()
    harness.ends(-1)  # an offset that is none
    harness.recovery.bring_back()
    harness.run()
    harness.ends(5)
    assert (seeker.offsets, seeker.errors) == ([5], [])


def test_an_abandoned_search_is_neither_requested_nor_answered(harness: ConsumerHarness) -> None:
    asked, not_asked = Seeker(harness, 0), Seeker(harness, 1)
    not_asked.needed = False
    harness.run()
    (request,) = harness.pending(ListOffsetsRequest)
    assert request.node % LANE == 1
    asked.needed = False
    harness.ends(5)
    assert asked.offsets == []
    harness.recovery.bring_back()
    harness.run()
    assert harness.pending(ListOffsetsRequest) == []


@pytest.mark.parametrize("missing", ["wanted", "found", "refused"])
def test_a_search_says_what_to_do_with_every_result(missing: str) -> None:
    methods = {name: lambda self, *given: None for name in ("wanted", "found", "refused") if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Half", (Search,), methods)(tp(0), Start.EARLIEST)


def test_a_broker_without_transactions_is_asked_without_the_isolation_level() -> None:
    harness = ConsumerHarness(isolation_level="read_committed")
    harness.cluster.set("t", [1])
    Seeker(harness, 0)
    harness.run()
    assert harness.as_sent(ListOffsetsRequest, 2).isolation_level == 1
    assert harness.as_sent(ListOffsetsRequest, 1).isolation_level == 0
