"""Defines methods of `Producer` and `aio.Producer` that do not wait, or wait only for turns of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka4.client.runtime import Runtime
from pykafka4.client.serving import ServesStatus
from pykafka4.core.producer.outcomes.ledger import ProducerStats
from pykafka4.misuse import check_count
from pykafka4.producer.session import ProducerSession
from pykafka4.records import ProducerRecord

if TYPE_CHECKING:
    from pykafka4.metrics.sources import Source
    from pykafka4.pages.watched import Watched

__all__ = ["ProducerHandle"]


class ProducerHandle(ServesStatus):
    """The common base of `Producer` and `aio.Producer`."""

    _session: ProducerSession

    @property
    def _sources(self) -> tuple[Source, ...]:
        from pykafka4.metrics.sources import NetworkSource, ProducerSource  # imported here: few programs read figures

        return ProducerSource(self._session), NetworkSource(self._session.runtime)

    _failures_at_start = 0  # the number of failed records when the `with` block began

    def purge(self, *, in_flight: bool = False) -> int:
        """Fail the records that wait to be sent, with the code `PURGED`; return the number of failed records. The producer stays open.

        `written` is NO, or MAYBE for records that may be in the log and wait to be sent again. With `in_flight`, records in flight
        fail as well (MAYBE); their partitions send nothing until the requests with these records have ended. Callbacks run as for other
        failures. Records that another thread sends meanwhile may escape. If a record fails, an open transaction can only be aborted.
        Raises ClosedError, ForkedClientError, KafkaTimeoutError if the client's thread is stuck. Source: librdkafka's `rd_kafka_purge`.
        """
        return self._session.purge(in_flight)

    def stats(self) -> ProducerStats:
        """Counts of all records so far, by outcome; they always add up to the accepted records. Also works after `close`.

        Raises KafkaTimeoutError if the client's thread is stuck, ForkedClientError in a forked child.
        """
        return self._session.stats()

    def raise_failures(self, since: int = 0) -> None:
        """Raise DeliveryFailed for the first failure that the application has not seen; a note has the number of unseen failures.

        Skips the first `since` failures (an earlier `stats().lost`). After more than 100 failed batches, the raised failure may not be
        the first one. The application has seen a failure after `result()` or `exception()` of its Delivery, and in the same thread (in
        asyncio: the same task) after `delivery_scope` or this method has raised or counted the failure, or `abort_transaction` has aborted
        its transaction.
        """
        self._session.raise_failures(check_count(since, "since"))

    def status(self) -> dict[str, Any]:
        """The reasons why records are not delivered: states of brokers, offline partitions, and the queue of each partition that was used.

        `partitions` maps `"topic-0"`, or `"topic (no partition yet)"`, to: `state` (online, offline), `since` (seconds ago) and `reason`,
        `queued` (records; of them `open` in a batch that may still grow, `parked` until their partition is known),
        `queued_bytes`, `oldest_age` (seconds since `send` of the oldest record without an outcome), `in_flight` (records), `last_error` and
        `last_error_age`.
        `producer` has the counts of `stats`; it is empty if the client's thread is stuck, and in a forked child. `json.dumps` accepts the
        result. Also works after `close`. See docs/guide/monitoring.md.
        """
        return self._session.status()

    def _shown(self) -> tuple[Runtime, object, Watched]:
        from pykafka4.producer.watched import WatchedProducer

        session = self._session
        session.check()
        return session.runtime, session, WatchedProducer(session.config.client_id, session)

    def _begin_block(self) -> None:
        self._session.check()
        self._failures_at_start = self._session.machine.ledger.failures_seen

    def _end_block(self, error: BaseException | None, undelivered: list[ProducerRecord]) -> None:
        """Raise the first unseen failure of the `with` block, or add a note to the `error` that ended it. Call this after `close`."""
        if error is None:
            self._session.raise_failures(self._failures_at_start)
        elif undelivered:
            error.add_note(f"pykafka4: records not delivered when the producer closed: {len(undelivered)}")

    def __repr__(self) -> str:
        return f"<{self._name} of {self._session.runtime!r}>"

    if not TYPE_CHECKING:  # otherwise a type checker would accept `len(producer)`

        def __len__(self) -> int:
            raise TypeError("a producer has no length; stats().queued + stats().in_flight is the number of unacknowledged records")

        def __bool__(self) -> bool:
            return True
