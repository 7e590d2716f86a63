"""Counts refused bytes and discarded messages as they happen. Invariant: its sums are exact, and its memory is bounded.

Called on the agent's loop (inputs, router, spool) and on the producer's callback executor (failed batches): a lock is held for each
change. Received messages are counted on the loop alone, without the lock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Protocol

import attrs

from pykafka4.agent.account.notices import Notices
from pykafka4.agent.account.reports import Reports
from pykafka4.agent.account.tallies import Tallies
from pykafka4.agent.account.values import Discards, Report
from pykafka4.agent.message import Message, Reason, Refused, Source
from pykafka4.agent.settings.values import ReportSettings

__all__ = ["BeforeProducer", "Entries", "Ledger"]


class Entries(Protocol):
    """The discard log. Its methods do not wait, and raise nothing."""

    def refused(self, data: bytes, refused: Refused) -> None:
        """Write an entry for bytes that are no message."""

    def discarded(self, message: Message, reason: Reason) -> None:
        """Write an entry for a message."""


@attrs.frozen
class BeforeProducer:
    """What the account needs of the ledger: messages that were discarded before the producer had them, and refused bytes.

    `kept` are messages that failed in the producer, by topic and reason, and are on disk nevertheless.
    """

    topics: Mapping[str, Discards]
    others: Discards
    refused: Mapping[Reason, int]
    kept: Mapping[tuple[str, Reason], int]


class Ledger:
    """The counts since the start."""

    def __init__(
        self,
        settings: ReportSettings | None = None,
        entries: Entries | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`entries` is the discard log. `clock` is monotonic; both clocks are in seconds."""
        self._lock = Lock()
        self._reports = Reports(settings or ReportSettings(), clock, wall_clock())
        self._notices = Notices(clock)
        self._entries = entries
        self._received = dict.fromkeys(Source, 0)
        self._kept: Counter[tuple[str, Reason]] = Counter()

    # ---- on the agent's loop

    def received(self, count: int, source: Source) -> None:
        """Messages were read from an input."""
        self._received[source] += count

    def refused(self, data: bytes, refused: Refused, source: Source) -> None:
        """Bytes were no message."""
        with self._lock:
            self._reports.current().refuse(data, refused)
            line = self._notices.note(refused.reason, 1, source.value)
        self._notices.write(line)
        if self._entries is not None:
            self._entries.refused(data, refused)

    def discarded(self, message: Message, reason: Reason) -> None:
        """A message that the producer does not have is lost, for this reason."""
        with self._lock:
            self._reports.current().discard(message, reason)
            line = self._notices.note(reason, 1, message[0])
        if line is not None:
            self._notices.write(line)
        if self._entries is not None:
            self._entries.discarded(message, reason)

    def damaged(self, topic: str, count: int) -> None:
        """Messages were on disk, and cannot be read any more: their times are not known, and they have no entry in the discard log."""
        with self._lock:
            self._reports.current().before_producer.add(topic, Reason.SPOOL_DAMAGED, count, None, None)
            line = self._notices.note(Reason.SPOOL_DAMAGED, count, topic)
        self._notices.write(line)

    def kept(self, topic: str, reason: Reason, count: int) -> None:
        """Messages that failed in the producer for this reason are on disk: they are not discarded, and `failed` is not called."""
        with self._lock:
            self._kept[topic, reason] += count

    # ---- on the callback executor, or at the end

    def failed(self, messages: Iterable[Message], reason: Reason, error: str = "") -> None:
        """Messages that the producer had accepted are lost. The account counts them by the producer's own figures, the reports by these.

        `error` is for the log.
        """
        for message in messages:
            with self._lock:
                tallies = self._reports.current()
                tallies.failed.add(message[0], reason, 1, message[4], message[4])
                tallies.keep_example(message[0], message[1], reason)
                line = self._notices.note(reason, 1, message[0], error)
            if line is not None:
                self._notices.write(line)
            if self._entries is not None:
                self._entries.discarded(message, reason)

    def repeated(self, topic: str, count: int, first_ms: int, last_ms: int) -> None:
        """Acknowledged messages may be in Kafka twice."""
        with self._lock:
            self._reports.current().repeated.add(topic, Reason.BUG, count, first_ms, last_ms)

    # ---- on any thread

    def tick(self) -> None:
        """Begin a new interval if it is time, and write log lines that are due. To be called about once a second."""
        with self._lock:
            self._reports.current()
            lines = self._notices.due()
        for line in lines:
            self._notices.write(line)

    def close(self) -> None:
        """Write the log lines of discards that are in none yet; at the end."""
        with self._lock:
            lines = self._notices.rest()
        for line in lines:
            self._notices.write(line)

    def before_producer(self) -> BeforeProducer:
        """What the account needs; all of one moment."""
        with self._lock:
            before, current = self._reports.totals()
            everything = Tallies(0)
            everything.before_producer.absorb(before.before_producer)
            everything.before_producer.absorb(current.before_producer)
            refused = before.refused + current.refused
            kept = dict(self._kept)
        topics, others = everything.before_producer.values()
        return BeforeProducer(topics, others, dict(refused), kept)

    def unfinished_report(self) -> Report:
        """The interval that goes on now."""
        with self._lock:
            return self._reports.unfinished()

    def finished_report(self) -> Report | None:
        """The last interval that has ended; None in the first one. It counts as read."""
        with self._lock:
            return self._reports.finished()

    def total_report(self) -> Report:
        """All intervals together."""
        with self._lock:
            return self._reports.total()

    def counters(self) -> dict[str, int]:
        """By Dory's names. https://github.com/dspeterson/dory/blob/master/doc/status_monitoring.md"""
        received = self._received
        with self._lock:
            before, current = self._reports.totals()
            refused, unread = before.refused + current.refused, self._reports.unread
        return {
            "UnixDgInputAgentForwardMsg": received[Source.UNIX_DATAGRAM],
            "UnixStreamInputForwardMsg": received[Source.UNIX_STREAM],
            "TcpInputForwardMsg": received[Source.TCP],
            "InputAgentDiscardMsgMalformed": refused[Reason.MALFORMED],
            "InputAgentDiscardMsgUnsupportedApiKey": refused[Reason.API_KEY],
            "InputAgentDiscardMsgUnsupportedVersion": refused[Reason.VERSION],
            "UnixStreamInputUncleanDisconnect": refused[Reason.UNCLEAN_UNIX],
            "TcpInputUncleanDisconnect": refused[Reason.UNCLEAN_TCP],
            "NoDiscardQuery": unread,
        }
