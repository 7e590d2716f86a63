"""Ends a loop over a consumer at the ends of the logs. Invariant: every partition that is read has an end before the loop can end.

The loop looks up the ends when it begins, and later the ends of partitions that a rebalance brings. The ends are in the claims
(`Claim.until`), as for a bounded read. The first poll outside the loop lifts the ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from pykafka4.consumer.guard import Iteration
from pykafka4.consumer.lookups import Lookups
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.selection import Selection
from pykafka4.consumer.waits import Steps
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.subscription import UNBOUNDED, Claim
from pykafka4.misuse import API_S
from pykafka4.records import TopicPartition

__all__ = ["CHECK_S", "UntilEnd"]

CHECK_S: Final = 0.25  # seconds after which a waiting poll checks again whether the member has its partitions


class LoopSession(Protocol):
    """The parts of a consumer that a loop of `until_end` uses."""

    reader: Reader
    selection: Selection
    lookups: Lookups
    machine: ConsumerMachine

    def finding_positions(self, tps: list[TopicPartition], timeout: float) -> Steps[None]:
        """See ConsumerSession.finding_positions."""


class UntilEnd:
    """The ends of one loop (a `consumer.session.BoundedEnds`)."""

    def __init__(self, session: LoopSession, iteration: Iteration) -> None:
        self._session, self.iteration = session, iteration
        self.begun = False

    def due(self) -> bool:
        return self.lacks_some() or self.is_over()

    def lacks_some(self) -> bool:
        """Whether a partition that is not paused has no end yet."""
        return any(True for _ in self._without_end())

    def _without_end(self) -> Iterator[TopicPartition]:
        reader = self._session.reader
        return (tp for tp, claim in reader.claims.items() if claim.until == UNBOUNDED and tp not in reader.paused)

    def is_over(self) -> bool:
        """Whether all partitions are read up to their ends, paused partitions aside, and a member of a group has its partitions."""
        session = self._session
        reader, settled = session.reader, not session.selection.subscribed or session.machine.membership.state.meaning is None
        # The state is read before `reader.ready`: the event of an assignment arrives before the member's state changes. In the other order
        # the event could arrive between the two reads, and the loop would end without the new partitions.
        return settled and not reader.ready and all(self._is_done(reader, claim) for claim in reader.claims.values())

    def _is_done(self, reader: Reader, claim: Claim) -> bool:
        return claim.tp in reader.paused or reader.has_reached_end(claim)

    def finding(self) -> Steps[None]:
        """Raises the errors of `Consumer.position` and `Consumer.end_offsets`."""
        session, reader = self._session, self._session.reader
        if not (new := list(self._without_end())):
            return
        yield from session.finding_positions(new, API_S)
        found = yield from session.lookups.ends(new, API_S)
        reader.begin(new)
        reader.bound_each({tp: end for tp, end in found.items() if tp in reader.claims})

    def lift(self) -> None:
        reader = self._session.reader
        ends: Mapping[TopicPartition, int] = {tp: UNBOUNDED for tp, claim in reader.claims.items() if claim.until != UNBOUNDED}
        reader.bound_each(ends)
