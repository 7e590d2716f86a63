"""Metadata without a leader epoch, after one was known, as from brokers of two releases: nothing is stuck or goes to two leaders."""

from __future__ import annotations

import pytest

from pykafka4.records import TopicPartition
from tests.core.producer.sender_harness import SenderHarness, header, records, values

TP = TopicPartition("t", 0)
KNOWN, UNKNOWN = 5, -1


def lead(harness: SenderHarness, node: int, epoch: int) -> None:
    harness.recovery.leaders[TP], harness.recovery.epoch = node, epoch
    harness.cluster.change()
    harness.recovery.bring_back()
    harness.settle()


@pytest.fixture
def harness() -> SenderHarness:
    it = SenderHarness()
    it.recovery.epoch = KNOWN
    return it.proven()


def test_the_same_leader_without_an_epoch_gets_the_next_batches_in_sequence(harness: SenderHarness) -> None:
    lead(harness, 1, UNKNOWN)
    deliveries = [harness.batch(b"%d" % n) for n in range(3)]
    sequence = 1
    while harness.requests:
        request = harness.requests.pop(0)
        assert (request.node, header(request)[:2]) == (1, (0, sequence))
        first, sequence = sequence, sequence + len(records(request))
        harness.answer(request, offset=first)
        harness.settle()
    assert [delivery.result(0).offset for delivery in deliveries] == [1, 2, 3]


def test_another_leader_without_an_epoch_waits_until_the_request_to_the_old_one_has_ended(harness: SenderHarness) -> None:
    """Nothing says that it is the newer one."""
    delivery = harness.batch()
    lead(harness, 3, UNKNOWN)
    (old,) = harness.requests
    harness.lose(old)
    harness.recovery.bring_back()
    harness.settle()
    new = harness.requests[-1]
    assert (new.node, values(new)) == (3, values(old))
    harness.answer(new, offset=7)
    assert delivery.result(0).offset == 7


@pytest.mark.parametrize("epoch", [KNOWN, KNOWN + 1])
def test_an_epoch_that_is_known_again_stops_nothing(harness: SenderHarness, epoch: int) -> None:
    lead(harness, 1, UNKNOWN)
    first = harness.batch()
    harness.answer(harness.requests.pop(), offset=1)
    lead(harness, 2, epoch)
    second = harness.batch()
    request = harness.requests.pop()
    assert (request.node, header(request)[:2]) == (2, (0, 2))
    harness.answer(request, offset=2)
    assert [first.result(0).offset, second.result(0).offset] == [1, 2]
