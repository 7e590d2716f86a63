"""Ends bounded reads whose last offsets have no record. A read up to an offset ends there even if compaction has removed the records before
that offset, and fails if the log ends earlier.

If compaction has removed all records between a position and its bound (`Claim.until`), and there is no record after the bound, no response
moves the position. A response without bytes of any partition proves the gap, because brokers return the first batch whole (KIP-74).
Such a response proves nothing if it was throttled, has an error or chose a follower, or if the log ends before the bound. After a proof, a
lookup makes sure that the position is not in tiered storage: a remote read that takes too long returns no bytes either (KIP-405).

If the log ends before the bound, the leader is new and does not know the end yet, or the log has lost records. A lookup of the end
distinguishes the two cases: a leader that does not know the end returns a retriable error (KIP-207).
"""

from __future__ import annotations

from typing import Final

from pykafka4.core.consumer.positions import Positions
from pykafka4.core.consumer.searches import Search, Searches
from pykafka4.core.consumer.source import Answer, InFlightFetch
from pykafka4.core.subscription import UNBOUNDED, Position, Stage, Start
from pykafka4.errors import KafkaError, LogTruncated
from pykafka4.wire.protocol.messages_fetch import FetchResponse

__all__ = ["Tails"]


class TailSearch(Search):
    """A lookup after a response without bytes."""

    __slots__ = ("_kind", "_offset", "_position", "_positions")

    def __init__(self, position: Position, target: Start, positions: Positions) -> None:
        super().__init__(position.tp, target)
        self._kind, self._position, self._positions, self._offset = target, position, positions, position.offset

    def wanted(self) -> bool:
        position = self._position
        return (
            position.tail is self
            and self._positions.is_current(position)
            and position.stage is Stage.FETCHING
            and position.offset == self._offset
        )

    def found(self, now: float, offset: int, epoch: int) -> None:
        """End the reading, with an error if the log ends earlier; or fetch again."""
        self._position.tail = None
        SETTLE[self._kind](self._positions, self._position, offset)

    def refused(self, now: float, error: KafkaError) -> None:
        self._positions.tell_once(self._position, error)


def _pass_gap(positions: Positions, position: Position, first_local: int) -> None:
    if first_local <= position.offset:
        positions.pass_over(position)


def _check_end(positions: Positions, position: Position, end: int) -> None:
    tp, until = position.tp, position.claim.until
    if end < until:
        positions.stop(position, LogTruncated.before(*tp, until, end))


def _says_more(answer: Answer) -> bool:
    """Whether `answer` has records, or a reason for having none: an error, or a follower to read from instead."""
    return bool(answer.records) or answer.error_code != 0 or answer.preferred_read_replica >= 0


SETTLE: Final = {Start.EARLIEST_LOCAL: _pass_gap, Start.LATEST: _check_end}


class Tails:
    def __init__(self, positions: Positions, searches: Searches) -> None:
        self._positions, self._searches = positions, searches

    def answered(self, fetch: InFlightFetch, response: FetchResponse) -> None:
        """Call this after `response` has been applied. In a session, partitions that `response` does not name have no bytes."""
        answers = [answer for topic in response.responses for answer in topic.partitions]
        if response.throttle_time_ms or any(map(_says_more, answers)):
            return
        for asked in fetch.asked.values():
            position = asked.position
            if position.claim.until < UNBOUNDED and self._is_at(position, asked.offset):
                position.found_nothing = True
                if (position.tail is None or not position.tail.wanted()) and position.claim.end >= 0:
                    self._look(position)

    def _is_at(self, position: Position, offset: int) -> bool:
        """Whether the response still applies: a diverging epoch, for example, may have stopped the position."""
        return (
            self._positions.is_current(position) and position.stage is Stage.FETCHING and position.offset == offset < position.claim.until
        )

    def _look(self, position: Position) -> None:
        target = Start.EARLIEST_LOCAL if position.claim.end >= position.claim.until else Start.LATEST
        position.tail = search = TailSearch(position, target, self._positions)
        self._searches.begin(search)
