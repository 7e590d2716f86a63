"""Small bugs around leaders that are replaced, frozen, or in doubt; see `producer_mutants`."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core.producer.outcomes.batch_outcomes import Outcomes
from pykafka4.core.producer.produce.requests import InFlightProduce
from pykafka4.core.producer.queues.partition_queue import UNASSIGNED, PartitionQueue
from pykafka4.core.producer.sender import Sender
from tests.simulation.mutants.handle_mutants import SHORT
from tests.simulation.plans.producer_plan import PIPELINED
from tests.simulation.plans.schedules import Hunt, Patch, around

__all__ = ["MUTANTS", "one_epoch_for_all", "take_what_follows_for_written"]


def two_leaders(patch: pytest.MonkeyPatch) -> None:
    """A new leader gets the next batch while the old one has not answered, also without idempotence."""

    def follow(original: Any, self: Sender, queue: PartitionQueue) -> None:
        leader = self.recovery.leader(queue.tp)
        if queue.awaits_response and leader is not None and leader.node != queue.node:
            self.ledger.requeued(queue.supersede())
        original(self, queue)

    around(patch, Sender, "_follow_leader", follow)


def supersede_without_doubt(patch: pytest.MonkeyPatch) -> None:
    """What the old leader has not answered counts as not written."""

    def supersede(original: Any, self: PartitionQueue) -> int:
        before = [(batch, batch.written) for batch in self.batches]
        records: int = original(self)
        for batch, written in before:
            batch.written = written
        return records

    around(patch, PartitionQueue, "supersede", supersede)


def number_again_for_the_new_leader(patch: pytest.MonkeyPatch) -> None:
    """A batch that the old leader has not answered gets another number at the new one."""

    def supersede(original: Any, self: PartitionQueue) -> int:
        flying = [batch for batch in self.batches if batch.in_flight]
        records: int = original(self)
        for batch in flying:
            batch.base_sequence = UNASSIGNED
        return records

    around(patch, PartitionQueue, "supersede", supersede)


def believe_the_old_leader(patch: pytest.MonkeyPatch) -> None:
    """What a replaced leader says of a batch counts as if the new one had said it."""
    patch.setattr(InFlightProduce, "superseded", property(lambda self: []))


def overtake_what_timed_out(patch: pytest.MonkeyPatch) -> None:
    """A batch that timed out under way is no reason to wait."""
    around(patch, PartitionQueue, "hold_behind", lambda original, self, batch: None)
    around(patch, PartitionQueue, "request_ended", lambda original, self, batch: None)


def one_epoch_for_all(patch: pytest.MonkeyPatch) -> None:
    """When a partition begins another epoch, all do, whatever may be in their logs: a known bug of librdkafka."""
    looking: list[Sender] = []

    def may_send(original: Any, self: Sender, *where: Any) -> bool:
        looking[:] = [self]
        return bool(original(self, *where))

    def begin_epoch(original: Any, self: PartitionQueue, producer_id: int, epoch: int) -> None:
        again = self.producer_id >= 0
        original(self, producer_id, epoch)
        for queue in looking[0].queues.values() if again and looking else ():
            if queue is not self and queue.producer_id >= 0 and not queue.in_flight:
                original(queue, producer_id, epoch)

    around(patch, Sender, "_may_send", may_send)
    around(patch, PartitionQueue, "begin_epoch", begin_epoch)


def take_what_follows_for_written(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement counts for all batches that may be written: gaps when their leader was frozen, a known bug of librdkafka."""

    def acknowledge(original: Any, self: Outcomes, queue: PartitionQueue, batch: Any, offset: int, stamp: int) -> None:
        original(self, queue, batch, offset, stamp)
        at = offset + batch.count
        for later in [later for later in queue.batches if later.written and not later.in_flight]:
            self.ledger.sent_before(later.count)
            original(self, queue, later, at, stamp)
            at += later.count

    around(patch, Outcomes, "acknowledge", acknowledge)


LOST = "nothing acked is lost"
TWO = "one leader at a time"
ORDER = "order per partition"
LEDGER = "the ledger balances"
UNWRITTEN = "not written is not in the log"
IDEMPOTENT = {"acks": "all", "enable_idempotence": True}
PLAIN = {"acks": "all", "enable_idempotence": False}

MUTANTS: dict[Patch, Hunt] = {
    two_leaders: Hunt(
        {TWO},
        {**PLAIN, "request_timeout_ms": 2_000, "metadata_max_age_ms": 500},
        ("move leader", "answer delayed", "request delayed", "broker freezes"),
        every=0.1,
        says=" are under way to ",
        plan={"topics": {"t": 1}, "actors": 3, "records": 80, "spaced": False},
    ),
    supersede_without_doubt: Hunt(
        {UNWRITTEN, ORDER, "no duplicates"},
        {**PIPELINED, "request_timeout_ms": 2_000, "metadata_max_age_ms": 500, "delivery_timeout_ms": 3_000},
        ("move leader", "answer delayed", "request delayed", "broker freezes"),
        every=0.1,
        says=") and came into the log later",
        plan={"topics": {"t": 1}, "actors": 3, "records": 80, "spaced": False},
        first=42,
    ),
    number_again_for_the_new_leader: Hunt(
        {"no duplicates", ORDER, "progress"},
        {**PIPELINED, "request_timeout_ms": 2_000, "metadata_max_age_ms": 500, "delivery_timeout_ms": 60_000},
        ("move leader", "answer delayed", "request delayed", "broker freezes"),
        every=0.1,
        says=" lies at ",
        plan={"topics": {"t": 1}, "actors": 3, "records": 80, "spaced": False},
    ),
    believe_the_old_leader: Hunt(
        {LEDGER, ORDER, "no duplicates", "no internal errors"},
        {**PIPELINED, "request_timeout_ms": 2_000, "metadata_max_age_ms": 500, "delivery_timeout_ms": 60_000},
        ("move leader", "answer delayed", "request delayed", "broker freezes"),
        every=0.1,
        says=" in flight, ",
        plan={"topics": {"t": 1}, "actors": 3, "records": 80, "spaced": False},
    ),
    overtake_what_timed_out: Hunt(
        {TWO, ORDER},
        {**IDEMPOTENT, **SHORT},
        ("move leader", "answer delayed", "request delayed", "answer swallowed"),
        says=" are under way to ",
        first=20,
    ),
    one_epoch_for_all: Hunt(
        {"no duplicates", ORDER, "progress"},
        {**PIPELINED, "metadata_max_age_ms": 500},
        ("sequence error", "lost after append", "answer swallowed", "network is dark"),
        every=0.1,
        says=" lies at ",
        plan={"topics": {"t": 4}, "actors": 3, "records": 80, "spaced": False},
        first=12,
    ),
    take_what_follows_for_written: Hunt(
        {LOST, LEDGER, ORDER, "offsets are told"},
        {**PIPELINED, "metadata_max_age_ms": 500},
        ("move leader", "broker freezes"),
        every=0.1,
        says="; it lies at ",
        plan={"topics": {"t": 1}, "actors": 3, "records": 80, "spaced": False},
        first=5,
    ),
}
