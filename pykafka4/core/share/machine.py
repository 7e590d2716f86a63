"""Joins the share group, divides the assigned partitions among sources, and ends sessions and membership in `leave`. The machine acquires
records only for a poll, because the lock of a prefetched record could end before a poll returns the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from pykafka4.core import INFINITY, Effects
from pykafka4.core.group.coordinator import MembersCoordinator
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.coordinators import GROUP, Coordinator
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.member import ShareMember
from pykafka4.core.share.requests import not_supported
from pykafka4.core.share.source import SourceContext
from pykafka4.core.share.sources import Parts, ShareSources
from pykafka4.core.share.values import AcknowledgementReport, Acknowledgements
from pykafka4.errors import KafkaError, KafkaTimeoutError, UnsupportedVersion
from pykafka4.options.share import ShareConsumerConfig

__all__ = ["ShareMachine"]


class ShareMachine:
    """Membership and sources of one share consumer. Implements `ShareAssignee`, `ShareUser`, `CoordinatorUser`."""

    def __init__(
        self, config: ShareConsumerConfig, network: Network, cluster: Cluster, recovery: Recovery, random: Random, mailbox: Mailbox
    ) -> None:
        self._network, self._mailbox = network, mailbox
        self._outbox = outbox = Outbox()
        self._lanes = (network.new_lane(), network.new_lane())
        group_lane, fetch_lane = self._lanes
        self.coordinator = MembersCoordinator(config, network, cluster, GROUP, config.group, random, outbox, self)
        self.member = ShareMember(config, self.coordinator, group_lane, mailbox, random, outbox, self)
        context = SourceContext(config, self.member.member_id, fetch_lane, cluster, recovery, mailbox, random, outbox, self)
        self.sources = ShareSources(context)
        self._end_by = INFINITY
        self._then: Callable[[], None] | None = None
        self._leave_by = INFINITY
        self._call_at, self._call = INFINITY, self._done
        network.refusals.listeners[self._refused_by] = None

    # ---------------------------------------------------------------- calls

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.sources.subscribe(topics)
        self.member.subscribe(topics)

    def want(self, now: float, taken: int) -> None:
        """Let the member join, and let each source acquire records once for a poll that found none (see `Mailbox.wants`)."""
        self.member.polled()
        self.sources.want(taken)

    def acknowledge(self, acknowledgements: Iterable[Acknowledgements], report: AcknowledgementReport) -> None:
        """Send acknowledgements; call `report.done` when all of them have an outcome."""
        self.sources.acknowledge(acknowledgements, report)

    def call_at(self, at: float, fn: Callable[[], None]) -> None:
        """Call `fn` at the time `at`. An earlier function that still waits runs now: otherwise `fn` would replace it."""
        if self._call_at < INFINITY:
            self._call()
        self._call_at, self._call = at, fn

    def leave(self, now: float, seconds: float, then: Callable[[], None]) -> None:
        """Send all acknowledgements but renewals, release all other records, leave the group; call `then` within `seconds`."""
        self._then, self._leave_by = then, now + seconds
        self.sources.subscribe(())
        # Now, not in `_sessions_ended`: the application may subscribe again before the sessions have ended, and a later `unsubscribe` would
        # delete the new subscription.
        self.member.unsubscribe()
        self._end_by = now + seconds
        self.sources.close(lambda: self._sessions_ended(now))

    def _sessions_ended(self, now: float) -> None:
        self._end_by = INFINITY
        self.sources.open_again()
        self.member.leave(now, self._leave_by, self._done)

    def _done(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    # ---------------------------------------------------------------- the machine

    def poll(self, now: float) -> Effects:
        """Sessions that have not ended by the deadline of `leave` are abandoned."""
        if now >= self._end_by:
            self._end_by = INFINITY
            self.sources.abandon(KafkaTimeoutError("the consumer was closed or unsubscribed before the broker had answered"))
        if now >= self._call_at:
            self._call_at = INFINITY
            self._call()
        wake_at = min(self._end_by, self._call_at, self.member.poll(now), self.sources.poll(now))
        wake_at = min(wake_at, self.coordinator.poll(now))
        return self._outbox.effects(wake_at)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        try:
            self.sources.abandon(reason)
        finally:
            self._mailbox.end(reason)
        return ()

    def dispose(self) -> None:
        self._network.refusals.listeners.pop(self._refused_by, None)
        self.sources.abandon(KafkaTimeoutError("the consumer was closed before the broker had answered"))
        self.sources.dispose()
        self.coordinator.well()  # the client's status must not list the coordinator of a closed consumer as troubled
        for lane in self._lanes:
            self._network.drop_lane(lane)

    def status(self, now: float) -> dict[str, Any]:
        found = {"topics": list(self.member.topics), "partitions": self.sources.partitions, "errors": self.sources.errors}
        return {**self.member.status(), **found}

    # ---------------------------------------------------------------- calls of the parts

    def assign(self, parts: Parts) -> None:
        self.sources.assign(parts)

    def _refused_by(self, now: float, broker: int, error: KafkaError) -> None:
        self._mailbox.put_error(error)

    def coordinator_refused(self, coordinator: Coordinator, error: KafkaError) -> None:
        if getattr(getattr(error, "code", None), "denied", False):
            self._mailbox.put_error(error)
        else:
            self.member.fail(error)

    def unsupported(self, error: KafkaError) -> None:
        self.member.fail(self.explain(str(error)))

    def explain(self, reason: str | None) -> UnsupportedVersion:
        feature = self._network.feature
        return not_supported(reason, feature("metadata.version"), feature("share.version"))
