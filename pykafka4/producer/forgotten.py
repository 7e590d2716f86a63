"""Delivers the records of a producer whose handle was garbage-collected, then closes the producer.

Logs the number of records that failed meanwhile, unless the client closes the producer first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykafka4.client.runtime import warn_unclosed
from pykafka4.core import NOTHING, Effects
from pykafka4.errors import KafkaError
from pykafka4.logs import get_log
from pykafka4.producer.session import ProducerSession

__all__ = ["deliver_forgotten"]

log = get_log("pykafka4.producer")

FORGOTTEN_S: Final = 1.0  # a producer without a handle stays open this long after its last record, for a `send` that has just begun


def deliver_forgotten(session: ProducerSession) -> None:
    """Warn that an open producer's handle was garbage-collected, and deliver the accepted records in the background."""
    if session.undelivered is None and not session.runtime.loop.forked:
        session.runtime.loop.call(lambda _: session.runtime.engine.add(ForgottenProducer(session)))
        if session.pending is None:  # otherwise a `close` has begun, and did not finish
            warn_unclosed("Producer")


class ForgottenProducer:
    """The machine that closes a producer without a handle when every accepted record has its outcome.

    The producer stays open for FORGOTTEN_S after the last record: in `Producer(…).send(…)` the handle is collected before `send` begins.
    The producer also stays open while a `send` waits.
    """

    def __init__(self, session: ProducerSession) -> None:
        self._session = session
        self._accepted, self._since = -1, 0.0
        self._failed_before = session.acc.failed

    def poll(self, now: float) -> Effects:
        session, acc = self._session, self._session.acc
        if session.undelivered is not None:  # closed already, by the client or at interpreter exit
            session.runtime.engine.remove(self)
            return NOTHING
        if acc.accepted != self._accepted or acc.accepted != acc.acked + acc.failed:
            self._accepted, self._since = acc.accepted, now
            if acc.accepted != acc.acked + acc.failed:
                return NOTHING  # no `wake_at`: an outcome arrives in a turn of the loop, which polls this machine again
        self._since = max(self._since, session.busy_until())
        if now - self._since < FORGOTTEN_S or session.closers:
            return Effects(wake_at=max(now, self._since) + FORGOTTEN_S)
        self._report(acc.failed - self._failed_before)
        session.runtime.engine.remove(self)
        session.close(0)
        return NOTHING

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        acc = self._session.acc
        if not self._session.closers:  # at interpreter exit, the thread that closes the producer logs the number
            self._report(acc.accepted - acc.acked - self._failed_before)
        return ()

    def _report(self, lost: int) -> None:
        if lost:
            _, first = self._session.machine.ledger.failures_since(0)
            log.warning(
                "%s: lost records of a producer that was not closed: %d; first failure: %s", self._session.config.client_id, lost, first
            )
