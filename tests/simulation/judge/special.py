"""Special. What is promised of purges, of records that brokers name as bad, of numbers in the place of partitions, and of second callbacks.

`counts` says how often each was looked at: a promise that nothing could have broken was not kept.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pykafka4.records import TopicPartition
from tests.simulation.judge.promised import Broken

if TYPE_CHECKING:
    from tests.simulation.judge.invariants import Sent, StoredRecord, Watch

__all__ = ["REASON", "Special", "forbidden", "value_of"]

REASON: Final = "forbidden on purpose"
EVERY, BAD = 13, 5  # of so many records of an application this one is bad, where brokers look
AROUND_S: Final = 1.0  # seconds before a `send` in which its partition may have been found offline


def value_of(topic: str, actor: int, number: int, size: int) -> bytes:
    """A value that says where it belongs."""
    head = b"%s|%d|%d|" % (topic.encode(), actor, number)
    return head + b"." * max(0, size - len(head))


def forbidden(record: Any) -> str | None:
    """Why a broker refuses a record; None: it does not."""
    number = (record.value or b"").split(b"|", 3)[2:3]
    return REASON if number and int(number[0]) % EVERY == BAD else None


class Special:
    """What the judge knows of these for one producer."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.counts: Counter[str] = Counter()
        self.flying: Counter[bytes] = Counter()  # values that are under way to a broker
        self.named: set[bytes] = set()  # values that a broker named as bad
        self.beside: set[bytes] = set()  # others of their batches
        self.divided: set[TopicPartition] = set()  # where that happened
        self.partitions: dict[str, int] = {}  # how many each topic had when it was created
        self._purges: list[float] = []  # when

    def share(self, first: Special) -> None:
        """What brokers said concerns all producers."""
        self.named, self.beside, self.divided, self.partitions = first.named, first.beside, first.divided, first.partitions
        self.counts = first.counts

    # ---- purges

    def purge(self, original: Any, now: float, reason: Any, in_flight: bool) -> int:
        """A purge, on the loop: `original` does it."""
        watch = self._watch
        before = [s for s in watch.sent if s.accepted and not s.shed and s.delivery is not None and not s.delivery.done()]
        unseen = sum(s.delivery is None for s in watch.sent)  # whose handle was dropped, or whose `send` has not returned
        self._purges.append(now)
        said: int = original(now, reason, in_flight)
        left = [s for s in before if s.delivery is not None and not s.delivery.done()]
        if waiting := [s for s in left if in_flight or not self.flying[s.value]]:
            raise Broken("a purge fails what waits", f"{waiting[0].value[:40]!r} has no outcome after it, and {len(waiting)} in all")
        gone = len(before) - len(left)
        if not gone <= said <= gone + unseen:
            raise Broken("a purge fails what waits", f"{said} records were purged, it says; {gone} to {gone + unseen} were")
        self.counts["purged in flight" if in_flight else "purged"] += gone
        return said

    def look_at_failure(self, sent: Sent, error: Any, code: str, now: float) -> None:
        """Only a purge purges, and what a broker named fails with its reason."""
        if code == "PURGED" and not any(sent.at <= at <= now for at in self._purges):
            raise Broken("a purge fails what waits", f"{sent.value[:40]!r} failed ({error}); nobody purged")
        watch = self._watch
        if code == "INVALID_RECORD" and sent.value in self.named and sent.value not in watch.unsafe:
            self.counts["failed alone"] += 1
            if REASON not in str(error):
                raise Broken("a bad record fails alone", f"{sent.value[:40]!r} failed ({error}) without the broker's reason")

    # ---- bad records

    def refused(self, tp: TopicPartition, values: list[bytes], indexes: list[int]) -> None:
        """A broker refused a batch, and named these of its records."""
        bad = {values[at] for at in indexes}
        self.named |= bad
        self.beside.update(value for value in values if value not in bad)
        self.divided.add(tp)

    def is_refused(self, sent: Sent, tp: TopicPartition | None, why: str) -> bool:
        """Whether a broker named the record, or others of a batch that may be in the log, and cannot be sent without them."""
        if sent.value in self.named or (sent.value in self.beside and sent.value in self._watch.unsafe):
            return True
        if sent.value in self.beside:
            raise Broken("a bad record fails alone", f"{why}; brokers named others of its batch")
        return False

    def acknowledged(self, sent: Sent) -> None:
        """The record is acknowledged."""
        self.counts["acknowledged beside a bad record"] += sent.value in self.beside
        self.counts["acknowledged by number"] += sent.wraps is not None

    # ---- numbers

    def look_at_stored(self, sent: Sent, stored: StoredRecord, now: float) -> None:
        """A number modulo the partitions there are, or were. Only where one of these was disturbed another one may have the record."""
        if sent.wraps is None:
            return
        watch, topic = self._watch, sent.topic
        most = watch.truth.partitions_of(topic)
        homes = {TopicPartition(topic, sent.wraps % count) for count in range(self.partitions.get(topic, 1), most + 1)}
        if stored.tp in homes:
            return
        since = sent.at - AROUND_S
        if all(watch.disturbances.calm(home, since, now) >= now - since - 1e-6 for home in homes):
            raise Broken("a number chooses its partition", f"{sent.value[:40]!r} with {sent.wraps} lies in {stored.tp}, of {most}")
        self.counts["moved on by number"] += 1

    # ---- callbacks

    def again(self, sent: Sent) -> None:
        """A second callback of the record ran."""
        sent.second = (sent.second or 0) + 1
        self.counts["second callbacks"] += 1
        if sent.second > 1:
            broken = Broken("one completion", f"{sent.value[:40]!r}: its second callback ran {sent.second} times")
            self._watch.broken = self._watch.broken or broken
