"""First and last offsets."""

from __future__ import annotations

import pytest
from consumer_talk import LOST, Talk, tp

from pykafka4.core.consumer.searches import Search
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Start
from pykafka4.error_table import CODES
from pykafka4.errors import KafkaError
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest, ListOffsetsResponse


class Seeker:
    """Looks for one offset and remembers what it heard."""

    def __init__(self, talk: Talk, partition: int, target: Start = Start.EARLIEST) -> None:
        self.found: list[int] = []
        self.errors: list[KafkaError] = []
        self.wanted = True
        found, refused = self._found, self._refused
        search = Search(tp(partition), target, found, refused, lambda: self.wanted)
        talk.machine.fetcher.searches.begin(search)

    def _found(self, now: float, offset: int, epoch: int) -> None:
        self.found.append(offset)

    def _refused(self, now: float, error: KafkaError) -> None:
        self.errors.append(error)


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk.cluster.set("t", [1, 2, 1])
    return talk


def test_each_leader_is_asked_once_for_all_its_partitions_over_a_lane_for_fetches(talk: Talk) -> None:
    """A producer of the same client may have the plain connection held back by `acks=all`."""
    seekers = [Seeker(talk, p) for p in range(3)]
    talk.run()
    assert {r.node // LANE for r in talk.pending(ListOffsetsRequest)} == {2}
    asked = {r.node % LANE: [p.partition_index for t in r.message.topics for p in t.partitions] for r in talk.pending(ListOffsetsRequest)}
    assert asked == {1: [0, 2], 2: [1]}
    talk.ends(7)
    assert [s.found for s in seekers] == [[7], [7], [7]]


def test_two_questions_about_one_partition_go_one_after_the_other(talk: Talk) -> None:
    first, last = Seeker(talk, 0), Seeker(talk, 0, Start.LATEST)
    talk.run()
    assert len(talk.pending(ListOffsetsRequest)) == 2
    for request in talk.pending(ListOffsetsRequest):
        (part,) = request.message.topics[0].partitions
        offset = {-2: 3, -1: 9}[part.timestamp]
        row = ListOffsetsResponse.Topic.Partition(partition_index=0, error_code=0, offset=offset)
        talk.answer(request, ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="t", partitions=[row])]))
    assert (first.found, last.found) == ([3], [9])


@pytest.mark.parametrize("number", [*sorted(CODES.keys() - {0}), 32_000])
def test_an_error_waits_for_recovery_and_is_told_when_no_retry_helps(talk: Talk, number: int) -> None:
    seeker = Seeker(talk, 0)
    talk.run()
    (request,) = talk.pending(ListOffsetsRequest)
    row = ListOffsetsResponse.Topic.Partition(partition_index=0, error_code=number)
    talk.answer(request, ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="t", partitions=[row])]))
    assert talk.pending(ListOffsetsRequest) == []
    retriable = number == -1 or (number in CODES and CODES[number].retriable)
    assert len(seeker.errors) == (0 if retriable else 1)
    talk.recovery.bring_back()
    talk.run()
    talk.ends(5)
    assert seeker.found == [5]


def test_a_lost_connection_or_a_missing_row_is_asked_again(talk: Talk) -> None:
    seeker = Seeker(talk, 0)
    talk.run()
    talk.answer(talk.one(ListOffsetsRequest), LOST)
    assert talk.recovery.reports == [(tp(0), LOST.reason)]
    talk.recovery.bring_back()
    talk.run()
    talk.answer(talk.one(ListOffsetsRequest), ListOffsetsResponse(topics=[]))
    talk.recovery.bring_back()
    talk.run()
    talk.ends(-1)  # an offset that is none
    talk.recovery.bring_back()
    talk.run()
    talk.ends(5)
    assert (seeker.found, seeker.errors) == ([5], [])


def test_what_nobody_waits_for_any_more_is_not_asked_and_not_told(talk: Talk) -> None:
    asked, not_asked = Seeker(talk, 0), Seeker(talk, 1)
    not_asked.wanted = False
    talk.run()
    (request,) = talk.pending(ListOffsetsRequest)
    assert request.node % LANE == 1
    asked.wanted = False
    talk.ends(5)
    assert asked.found == []
    talk.recovery.bring_back()
    talk.run()
    assert talk.pending(ListOffsetsRequest) == []
