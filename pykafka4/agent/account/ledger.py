"""Counts refused bytes and discarded messages as they occur. Invariant: sums are exact, and memory is bounded.

The agent's loop (inputs, router, spool) and the producer's callback executor (failed batches) change the counts, each under the lock. Only
the loop counts received messages, so these counts need no lock.
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
    """The methods of the discard log that the ledger calls. No method waits or raises."""

    def refused(self, data: bytes, refused: Refused) -> None:
        """Write an entry for bytes that are not a message."""

    def discarded(self, message: Message, reason: Reason) -> None: ...


@attrs.frozen
class BeforeProducer:
    """The ledger's part of the account: messages discarded before the producer had them, and the number of refusals.

    `kept` counts, by topic and reason, messages that failed in the producer but are on disk.
    """

    topics: Mapping[str, Discards]
    others: Discards
    refused: Mapping[Reason, int]
    kept: Mapping[tuple[str, Reason], int]


class Ledger:
    """The counts since the start, and the reports and log lines of discards."""

    def __init__(
        self,
        settings: ReportSettings | None = None,
        entries: Entries | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`entries` is the discard log. `clock` is monotonic, `wall_clock` counts from the epoch; both are in seconds."""
        self._lock = Lock()
        self._reports = Reports(settings or ReportSettings(), clock, wall_clock())
        self._notices = Notices(clock)
        self._entries = entries
        self._received = dict.fromkeys(Source, 0)
        self._kept: Counter[tuple[str, Reason]] = Counter()

    # ---- on the agent's loop

    def received(self, count: int, source: Source) -> None:
        self._received[source] += count

    def refused(self, data: bytes, refused: Refused, source: Source) -> None:
        with self._lock:
            self._reports.current().refuse(data, refused)
            line = self._notices.note(refused.reason, 1, source.value)
        # Outside the lock, here and below: a logging handler may be slow.
        self._notices.write(line)
        if self._entries is not None:
            self._entries.refused(data, refused)

    def discarded(self, message: Message, reason: Reason) -> None:
        """Count a message that was discarded before the producer had it."""
        with self._lock:
            self._reports.current().discard(message, reason)
            line = self._notices.note(reason, 1, message[0])
        if line is not None:
            self._notices.write(line)
        if self._entries is not None:
            self._entries.discarded(message, reason)

    def damaged(self, topic: str, count: int) -> None:
        """Count messages that can no longer be read from the disk. The discard log has no entry for them."""
        with self._lock:
            self._reports.current().before_producer.add(topic, Reason.SPOOL_DAMAGED, count, None, None)
            line = self._notices.note(Reason.SPOOL_DAMAGED, count, topic)
        self._notices.write(line)

    def kept(self, topic: str, reason: Reason, count: int) -> None:
        """Count messages that failed in the producer, but are on disk."""
        with self._lock:
            self._kept[topic, reason] += count

    # ---- on the callback executor, or at the end

    def failed(self, messages: Iterable[Message], reason: Reason, error: str = "") -> None:
        """For the reports, count lost messages that the producer had accepted. The account takes their number from the producer.

        `error` is the producer's error, for the log line.
        """
        for message in messages:
            with self._lock:  # for each message, not once for all, because the loop waits for this lock
                tallies = self._reports.current()
                tallies.failed.add(message[0], reason, 1, message[4], message[4])
                tallies.keep_example(message[0], message[1], reason)
                line = self._notices.note(reason, 1, message[0], error)
            if line is not None:
                self._notices.write(line)
            if self._entries is not None:
                self._entries.discarded(message, reason)

    def repeated(self, topic: str, count: int, first_ms: int, last_ms: int) -> None:
        """Count acknowledged messages that may be in Kafka twice."""
        with self._lock:  # rows need a reason; the report of repeats drops it
            self._reports.current().repeated.add(topic, Reason.BUG, count, first_ms, last_ms)

    # ---- on any thread

    def tick(self) -> None:
        """Begin a new interval if it is time, and write the log lines that are due. The agent calls this about once a second.

        Without `tick`, the log line about the end of a burst would wait for the next discard for the same reason.
        """
        with self._lock:
            self._reports.current()
            lines = self._notices.due()
        for line in lines:
            self._notices.write(line)

    def close(self) -> None:
        """Write log lines for the discards that are in no line yet."""
        with self._lock:
            lines = self._notices.rest()
        for line in lines:
            self._notices.write(line)

    def before_producer(self) -> BeforeProducer:
        """Return counts of one moment."""
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
        with self._lock:
            return self._reports.unfinished()

    def finished_report(self) -> Report | None:
        """Return the report of the last finished interval, which then counts as read; None during the first interval."""
        with self._lock:
            return self._reports.finished()

    def total_report(self) -> Report:
        with self._lock:
            return self._reports.total()

    def counters(self) -> dict[str, int]:
        """Return counters of inputs, refusals and unread reports, by Dory's names; `…UnsupportedVersion` is a name of older Dorys.

        Source: https://github.com/dspeterson/dory/blob/master/doc/troubleshooting.md, and src/dory/input_dg in that repository.
        """
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
