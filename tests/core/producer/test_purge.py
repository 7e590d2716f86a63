"""Purge: what waits fails as PURGED, whatever it waits for; what follows is sent in order, and numbered without a gap."""

from __future__ import annotations

import pytest

from pykafka4.errors import KafkaError
from pykafka4.records import Written
from tests.core.producer.sender_harness import SenderHarness, header, records


def purge(harness: SenderHarness, in_flight: bool = False) -> int:
    reason = KafkaError("the application purged the record")
    reason.code = "PURGED"
    count = harness.sender.purge(harness.now, reason, in_flight)
    harness.poll()
    return count


def test_what_is_in_flight_is_left_alone_unless_asked_for() -> None:
    harness = SenderHarness().proven()
    flying = harness.batch(b"flying")
    harness.network.up.clear()
    waiting = [harness.batch(b"waiting", partition) for partition in (0, 1)]
    assert purge(harness) == 2
    assert [(d.exception(0).code, d.exception(0).written) for d in waiting] == [("PURGED", Written.NO)] * 2
    assert not flying.done()
    assert harness.stats().failed == {("PURGED", Written.NO): 2}
    harness.answer(harness.requests.pop(), offset=1)
    assert flying.result(0).offset == 1


def test_purging_what_is_in_flight_says_maybe_and_the_partition_goes_on_when_its_request_has_ended() -> None:
    harness = SenderHarness().proven()
    flying = harness.batch(b"flying")
    request = harness.requests.pop()
    assert purge(harness, in_flight=True) == 1
    assert (flying.exception(0).code, flying.exception(0).written) == ("PURGED", Written.MAYBE)
    after = harness.batch(b"after")
    assert not harness.requests, "another leader could write it before the purged one"
    harness.answer(request, offset=1)
    harness.settle()
    (following,) = harness.requests
    assert header(following) == (1, 0, 0), "the sequence of the purged batch may be in the log"
    harness.answer(following, offset=2)
    assert after.result(0).offset == 2
    assert harness.acc.reserved == 0


@pytest.mark.parametrize("parked", [False, True])
def test_open_batches_and_records_without_a_partition_are_purged(parked: bool) -> None:
    harness = SenderHarness(linger_ms=1000, partitioner="late")
    harness.cluster.known = not parked
    if parked:
        harness.cluster.hidden.add("t")
    else:
        harness.cluster.change()
    harness.poll()
    sent = [harness.acc.send("t", b"%d" % n) for n in range(3)]
    harness.poll()
    assert purge(harness) == 3
    assert [(d.exception(0).code, d.exception(0).written) for d in sent] == [("PURGED", Written.NO)] * 3
    assert harness.acc.reserved == 0
    assert purge(harness) == 0, "each record is counted once"
    harness.cluster.known = True
    harness.cluster.hidden.clear()
    harness.cluster.change()
    after = harness.acc.send("t", b"after")
    harness.poll(1)
    harness.settle()
    (request,) = harness.requests
    assert records(request) == [b"after"]
    harness.answer(request)
    assert after.result(0).offset == 0


def test_a_batch_that_waits_to_be_sent_again_fails_as_maybe_and_leaves_no_gap() -> None:
    harness = SenderHarness().proven()
    first, second = harness.batch(b"first"), harness.batch(b"second")
    harness.network.up.clear()
    for request in harness.requests[:]:
        harness.lose(request)
    harness.requests.clear()
    assert purge(harness) == 2
    assert first.exception(0).written is Written.MAYBE
    assert second.exception(0).written is Written.MAYBE
    harness.network.up.add(1)
    harness.batch(b"after")
    harness.poll(1)
    assert [header(request) for request in harness.requests] == [(1, 0, 0)]


def test_a_refused_batch_that_waits_for_its_back_off_fails_as_not_written() -> None:
    harness = SenderHarness().proven()
    refused = harness.batch(b"refused")
    harness.answer(harness.requests.pop(), "NOT_ENOUGH_REPLICAS", -1)
    assert purge(harness) == 1
    assert refused.exception(0).written is Written.NO
    harness.batch(b"after")
    harness.poll(1)
    assert [header(request) for request in harness.requests] == [(0, 1, 0)], "its sequence is free"


def test_a_purge_does_not_keep_a_topic_from_being_forgotten() -> None:
    harness = SenderHarness(metadata_max_idle_ms=60_000, linger_ms=1000).proven()
    harness.acc.send("t", b"open", partition=0)
    assert purge(harness) == 1
    harness.poll(61)
    harness.poll(61)
    assert not harness.sender.queues
