"""An acknowledgement of any batch of a full pipeline is lost, with the batch in the log or not: the log gets all of them once, in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka4.core import Failed, Request
from pykafka4.errors import KafkaError, KafkaTimeoutError
from pykafka4.records import Written
from tests.core.producer.sender_harness import LOST, SenderHarness, header, producer_id, records

BATCHES = 5  # as many as brokers remember
TIMED_OUT = KafkaTimeoutError("broker 1: Produce timed out")


class Log:
    """A partition as brokers keep it: the batches of a producer in sequence, each once."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.taken: dict[tuple[int, int, int], int] = {}  # (producer id, epoch, sequence): offset
        self.next: dict[tuple[int, int], int] = {}

    def append(self, request: Request) -> tuple[str, int]:
        """What the broker answers: an error and an offset."""
        (epoch, sequence, _), producer = header(request), producer_id(request)
        if (producer, epoch, sequence) in self.taken:
            return "NONE", self.taken[producer, epoch, sequence]
        if sequence != self.next.get((producer, epoch), 0):
            return "OUT_OF_ORDER_SEQUENCE_NUMBER", -1
        offset = self.taken[producer, epoch, sequence] = len(self.values)
        self.values += records(request)
        self.next[producer, epoch] = sequence + len(records(request))
        return "NONE", offset


def orders(lost: int) -> Iterator[list[int]]:
    """When the client learns of the loss: in its turn, before all answers, after all."""
    others = [n for n in range(BATCHES) if n != lost]
    yield from (list(range(BATCHES)), [lost, *others], [*others, lost])


@pytest.mark.parametrize("reason", [LOST, TIMED_OUT], ids=["connection lost", "timed out"])
@pytest.mark.parametrize("order", range(3), ids=["in turn", "first", "last"])
@pytest.mark.parametrize("appended", [True, False], ids=["appended", "not appended"])
@pytest.mark.parametrize("lost", range(BATCHES))
def test_any_lost_acknowledgement_leaves_no_gap_and_no_copy(lost: int, appended: bool, order: int, reason: KafkaError) -> None:
    harness, log = SenderHarness(), Log()
    first = harness.batch(b"first")
    log_answer(harness, log, harness.requests.pop())
    sent = [harness.batch(b"%d" % n) for n in range(BATCHES)]
    flights, harness.requests[:] = harness.requests[:], []
    assert len(flights) == BATCHES
    answers = [None if n == lost and not appended else log.append(request) for n, request in enumerate(flights)]
    for n in list(orders(lost))[order]:
        answer = answers[n]
        if n == lost or answer is None:
            flights[n].on_reply(harness.now, Failed(reason, Written.MAYBE))
            harness.poll()
        else:
            harness.answer(flights[n], answer[0], offset=answer[1])
    for _ in range(30):
        harness.recovery.bring_back()
        harness.poll(0.2)
        while harness.requests:
            log_answer(harness, log, harness.requests.pop(0))
    assert log.values == [b"first", *(b"%d" % n for n in range(BATCHES))]
    assert [delivery.result(0).offset for delivery in [first, *sent]] == list(range(BATCHES + 1))


def log_answer(harness: SenderHarness, log: Log, request: Request) -> None:
    error, offset = log.append(request)
    harness.answer(request, error, offset=offset)
