"""Sender: what every error code of Kafka does to the batch it answers, to those pipelined behind it, and to other partitions.

The tables here are written by hand, from what Kafka's brokers do; they do not come from `errors/codes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from pykafka4.core import Reply, Request
from pykafka4.errors import DeliveryFailed
from pykafka4.errors.codes import CODES
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_produce import ProduceResponse
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest, InitProducerIdResponse
from tests.core.producer.sender_harness import SenderHarness, header, producer_id, records

ACKED, RESENT, HALVED, NEXT_EPOCH, OTHER_ID, FAILED = "acked", "resent", "halved", "next epoch", "other id", "failed"
NO, MAYBE = Written.NO, Written.MAYBE

# What a broker answers before it has appended anything, and what becomes of the batch. All other codes fail it as maybe written.
EXPECTED: dict[int, tuple[str, Written]] = {
    0: (ACKED, NO),
    46: (ACKED, NO),
    **dict.fromkeys((2, 19, 51), (RESENT, NO)),
    **dict.fromkeys((3, 5, 6, 7, 8, 9, 13, 20, 41, 56, 72, 74, 75, 80, 83, 84, 89, 100, 103), (RESENT, MAYBE)),
    **dict.fromkeys((10, 18), (HALVED, NO)),
    **dict.fromkeys((45, 59), (NEXT_EPOCH, NO)),
    **dict.fromkeys((47, 90), (OTHER_ID, NO)),
    **dict.fromkeys((17, 21, 29, 31, 32, 35, 42, 43, 48, 49, 53, 76, 87, 120), (FAILED, NO)),
}
ASK_FOR_METADATA = {3, 5, 6, 7, 8, 9, 13, 41, 56, 72, 74, 75, 80, 83, 84, 100, 103}
ASK_ANOTHER_BROKER = {7}  # a leader that is cut off from the others never gets an answer of its replicas: it does not know of its successor
UNHEARD_OF = (137, 999, 32_767)
EVERY_CODE = pytest.mark.parametrize("code", [*sorted(CODES), *UNHEARD_OF])

# InitProducerId: codes after which another try can help; all others end a producer that has no id yet.
ASKED_AGAIN = {-1, 2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 47, 51, 56, 59, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 90, 100}
ASKED_AGAIN |= {103, 106, 122, 123, 133}
DENIED = {29, 30, 31, 53, 65}  # … and these with the next record


def expected(code: int) -> tuple[str, Written]:
    return EXPECTED.get(code, (FAILED, MAYBE))


@attrs.define
class Broker:
    """The log and the producer state of partition 0, as Kafka keeps them."""

    harness: SenderHarness
    log: list[bytes | None] = attrs.Factory(list)
    producer: int = -1
    epoch: int = -1
    following: int = 0  # the next sequence
    remembered: dict[tuple[int, int, int], int] = attrs.Factory(dict)  # (producer, epoch, sequence): offset

    def append(self, request: Request) -> tuple[int, int]:
        """(error code, offset) of a batch; it is appended when that is 0 and it is not there yet."""
        (epoch, sequence, _), producer, values = header(request), producer_id(request), records(request)
        if (producer, epoch, sequence) in self.remembered:
            return 0, self.remembered[producer, epoch, sequence]
        if producer == self.producer and epoch < self.epoch:
            return 47, -1
        known = producer == self.producer and epoch == self.epoch
        if sequence != (self.following if known else 0):
            return 45, -1
        self.producer, self.epoch, self.following = producer, epoch, sequence + len(values)
        self.remembered[producer, epoch, sequence] = len(self.log)
        self.log += values
        return 0, len(self.log) - len(values)

    def serve(self, request: Request, code: int | None = None, appended: bool = False) -> None:
        """Answer a request; with `code`, if given, before or after the append."""
        if code is None or appended:
            found, offset = self.append(request)
            assert code is None or found == 0
            code = found if code is None else code
        else:
            offset = -1
        part = ProduceResponse.Topic.Partition(index=0, error_code=code, base_offset=offset)
        topic = ProduceResponse.Topic(name="t", topic_id=request.message.topic_data[0].topic_id, partition_responses=[part])
        request.on_reply(self.harness.now, Reply(ProduceResponse(responses=[topic]), 13, request.node))
        self.harness.check()

    def serve_all(self) -> None:
        """Until nothing more is sent."""
        for _ in range(20):
            while self.harness.requests:
                self.serve(self.harness.requests.pop(0))
                self.harness.poll()
            self.harness.poll(1)


def judged(broker: Broker, groups: Iterable[tuple[list[bytes], list[Any]]]) -> None:
    """Acknowledged means once in the log, at that offset; not written means not there; and the order is that of sending."""
    sent = [(value, handle) for values, handles in groups for value, handle in zip(values, handles, strict=True)]
    for value, handle in sent:
        error = handle.exception(0)
        if error is None:
            assert broker.log.count(value) == 1
            assert handle.result(0).offset in (broker.log.index(value), -1)
        elif error.written is NO:
            assert value not in broker.log
    order = [value for value, _ in sent if value in broker.log]
    assert [value for value in broker.log if value in dict(sent)] == order


def begin(behind: int) -> tuple[SenderHarness, Broker, list[tuple[list[bytes], list[Any]]]]:
    """A producer with a batch of two records, and `behind` more batches, in flight to partition 0."""
    harness = SenderHarness(linger_ms=10, delivery_timeout_ms=60_000)
    broker = Broker(harness)
    harness.batch(b"first", 0)
    broker.serve(harness.requests.pop())
    harness.batch(b"elsewhere", 1)
    harness.answer(harness.requests.pop())
    groups = []
    for n in range(1 + behind):
        values = [b"%d-a" % n, b"%d-b" % n]
        groups.append((values, harness.together(values)))
    return harness, broker, groups


@EVERY_CODE
@pytest.mark.parametrize("behind", [0, 3], ids=["alone", "pipelined"])
def test_a_code_given_before_the_append(code: int, behind: int) -> None:
    harness, broker, groups = begin(behind)
    flight = harness.requests[:]
    harness.requests.clear()
    victim, (what, written) = groups[0][1], expected(code)
    if code in (0, 46):
        broker.append(flight[0])  # acknowledged is in the log
    harness.recovery.reports.clear()
    broker.serve(flight[0], code)
    for request in flight[1:]:
        broker.serve(request)
    harness.poll(1)
    harness.poll()  # another producer id takes a request
    if what in (RESENT, NEXT_EPOCH, OTHER_ID, HALVED):
        assert not victim[0].done()
        again = harness.requests[0]
        assert records(again) == ([b"0-a"] if what is HALVED else [b"0-a", b"0-b"])
        identity = producer_id(again), *header(again)[:2]
        assert identity == {NEXT_EPOCH: (42, 1, 0), OTHER_ID: (43, 0, 0)}.get(what, (42, 0, 1))
    assert bool(harness.recovery.reports) == (code in ASK_FOR_METADATA)
    assert bool(harness.network.avoided) == (code in ASK_ANOTHER_BROKER)
    broker.serve_all()
    errors = [handle.exception(0) for handle in victim]
    if what is FAILED:
        assert all(isinstance(error, DeliveryFailed) for error in errors)
        assert [(error.code, error.written) for error in errors] == [(str(CODES.get(code, f"UNKNOWN({code})")), written)] * 2
    else:
        assert errors == [None, None]
    for _, handles in groups[1:]:
        assert [handle.exception(0) for handle in handles] == [None, None], "those behind are delivered, whatever came of the first"
    judged(broker, groups)
    harness.batch(b"elsewhere", 1)
    assert (producer_id(harness.requests[-1]), header(harness.requests[-1])) == (42, (0, 1, 1)), "other partitions go on as they were"
    assert not harness.refusals


@pytest.mark.parametrize("code", [code for code in [*sorted(CODES), *UNHEARD_OF] if expected(code)[1] is MAYBE])
@pytest.mark.parametrize("behind", [0, 3], ids=["alone", "pipelined"])
def test_a_code_given_after_the_append(code: int, behind: int) -> None:
    harness, broker, groups = begin(behind)
    flight = harness.requests[:]
    harness.requests.clear()
    broker.serve(flight[0], code, appended=True)
    for request in flight[1:]:
        broker.serve(request)
    broker.serve_all()
    for handle in groups[0][1]:
        error = handle.exception(0)
        assert error is None if expected(code)[0] is RESENT else error.written is MAYBE
    judged(broker, groups)
    assert [value for value in broker.log if value not in (b"first",)] == [value for values, _ in groups for value in values]
    harness.batch(b"next")
    broker.serve_all()
    assert broker.log.count(b"next") == 1


@pytest.mark.parametrize("code", [code for code in sorted(CODES) if expected(code)[0] is RESENT])
def test_a_batch_resent_until_its_timeout_fails_with_the_error_code(code: int) -> None:
    harness, broker, groups = begin(0)
    tries = 0
    while not groups[0][1][0].done():
        while harness.requests:
            broker.serve(harness.requests.pop(0), code)
            tries += 1
        harness.poll(0.5)
    error = groups[0][1][0].exception(0)
    assert (error.code, error.written) == ("TIMED_OUT", expected(code)[1])
    assert error.cause.code.code == code
    assert tries > 20
    harness.batch(b"next")
    broker.serve_all()
    assert broker.log.count(b"next") == 1


@EVERY_CODE
def test_a_code_given_to_the_request_for_a_producer_id(code: int) -> None:
    harness = SenderHarness()
    handle = harness.acc.send("t", b"v", partition=0)

    def asked() -> list[Request]:
        harness.now += 0.2
        requests = []
        for _ in range(3):
            for request in harness.sender.poll(harness.now).requests:
                (requests if isinstance(request.message, InitProducerIdRequest) else harness.requests).append(request)
        return requests

    (request,) = asked()
    if code == 0:
        request.on_reply(harness.now, Reply(InitProducerIdResponse(producer_id=7, producer_epoch=0), 4, 1))
        assert not asked()
        assert producer_id(harness.requests[-1]) == 7
        return
    request.on_reply(harness.now, Reply(InitProducerIdResponse(error_code=code), 4, 1))
    again = asked()
    assert bool(again) == (code in ASKED_AGAIN)
    assert handle.done() == (code not in ASKED_AGAIN)
    assert bool(harness.refusals) == (code not in ASKED_AGAIN and code not in DENIED)
    if code in DENIED:
        harness.acc.send("t", b"v", partition=0)
        assert asked(), "the next record asks again: the right may have been granted"


def test_a_request_that_was_given_up_and_arrives_late_is_fenced() -> None:
    """Written behind a later batch, it would stand in the log in the wrong order."""
    harness, broker, groups = begin(0)
    late = harness.requests.pop()
    (epoch, _, _), producer = header(late), producer_id(late)
    harness.network.up.clear()
    harness.lose(late)
    harness.poll(61)
    assert [handle.exception(0).written for handle in groups[0][1]] == [MAYBE, MAYBE]
    harness.network.up = {1, 2, 3}
    handle = harness.batch(b"next")
    broker.serve_all()
    assert handle.exception(0) is None
    assert producer == broker.producer
    assert epoch < broker.epoch, "brokers refuse it"
    assert broker.log == [b"first", b"next"]


# ---------------------------------------------------------------- what a request and an answer say


@pytest.mark.parametrize(("acks", "wire"), [("all", -1), (1, 1), (0, 0)])
def test_a_request_says_the_acks_and_the_timeout_that_were_configured(acks: object, wire: int) -> None:
    harness = SenderHarness(acks=acks, request_timeout_ms=7_000)
    harness.batch()
    request = harness.requests.pop()
    assert (request.message.acks, request.message.timeout_ms, request.message.transactional_id) == (wire, 5_600, None)
    assert request.deadline == pytest.approx(harness.now + 7, abs=0.1)


@pytest.mark.parametrize("stamp", [-1, 123_456_789])
def test_the_append_time_of_the_broker_is_the_timestamp_of_a_record(stamp: int) -> None:
    harness = SenderHarness().proven()
    handle = harness.acc.send("t", b"v", partition=0, timestamp_ms=5)
    harness.settle()
    harness.answer(harness.requests.pop(), offset=1, stamp=stamp)
    assert handle.result(0).timestamp_ms == (5 if stamp < 0 else stamp)


def test_a_partition_left_out_of_an_answer_may_be_written() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    handle = harness.batch()
    request = harness.requests.pop()
    number = header(request)
    request.on_reply(harness.now, Reply(ProduceResponse(responses=[]), 13, 1))
    harness.poll(1)
    assert header(harness.requests[-1]) == number, "it is sent again as it was"
    harness.network.up.clear()
    harness.requests.pop().on_reply(harness.now, Reply(ProduceResponse(responses=[]), 13, 1))
    harness.poll(11)
    assert handle.exception(0).written is MAYBE
    harness.network.up = {1, 2, 3}
    harness.batch(b"other")
    assert header(harness.requests[-1])[:2] == (1, 0)


@pytest.mark.parametrize("answered", [0, 1])
def test_a_partition_left_out_of_an_answer_does_not_keep_the_answers_of_others_from_being_read(answered: int) -> None:
    harness = SenderHarness().proven()
    deliveries, request = harness.two_partitions_in_one_request()
    found = ProduceResponse.Topic.Partition(index=answered, error_code=0, base_offset=7)
    topic = ProduceResponse.Topic(name="t", topic_id=request.message.topic_data[0].topic_id, partition_responses=[found])
    request.on_reply(harness.now, Reply(ProduceResponse(responses=[topic]), 12, 1))
    assert [delivery.done() for delivery in deliveries] == [partition == answered for partition in (0, 1)]
