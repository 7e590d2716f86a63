"""Finds the coordinator of a consumer's group, and keeps the connections to it.

Invariant: the loss of the coordinator by itself ends no membership before a timeout.
"""

from __future__ import annotations

from random import Random

import attrs

from pykafka4.core import ANY, INFINITY, Failed, Outcome, Request
from pykafka4.core.group.reactions import Reaction, reaction
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.coordinators import GROUP, ONE_KEY, Coordinator, CoordinatorUser
from pykafka4.core.network.network import Network, via
from pykafka4.core.outbox import Outbox
from pykafka4.errors import KafkaError
from pykafka4.options.config import ConsumerConfig

__all__ = ["GroupCoordinator", "MembersCoordinator"]

CHECK_S = 10.0  # seconds between the checks of a coordinator that holds a response back


@attrs.define(eq=False)
class CheckInFlight(Request):
    """A FindCoordinator, if possible to another broker, to check that broker `checked` is still the coordinator."""

    coordinator: GroupCoordinator = attrs.field(kw_only=True)
    checked: int = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.coordinator.checked(now, self.checked, outcome)


class MembersCoordinator(Coordinator):
    """The coordinator of a group with members. Errors that end a member, or deny its requests, end the lookup."""

    __slots__ = ()

    def _is_final(self, code: int) -> bool:
        return reaction(code) in (Reaction.FATAL, Reaction.DENIED)


class GroupCoordinator(MembersCoordinator):
    __slots__ = ("_checked_at", "join_lane", "lane")

    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        cluster: Cluster,
        lane: int,
        random: Random,
        outbox: Outbox,
        user: CoordinatorUser,
    ) -> None:
        """`lane` is for all requests to the coordinator except JoinGroup and SyncGroup.

        These use `join_lane`: the coordinator holds their responses back until all members have joined, or the leader has assigned, and
        until then reads no other request from their connection. On the same lane, heartbeats and commits would time out. A timeout closes
        the connection, so the join would be lost as well.
        """
        super().__init__(config, network, cluster, GROUP, config.group_id or "", random, outbox, user)
        self.lane, self.join_lane = lane, network.new_lane()
        self._checked_at = -INFINITY

    @property
    def address(self) -> int | None:
        """The address for requests other than JoinGroup and SyncGroup."""
        return None if self.node is None else via(self.lane, self.node)

    def renew_join_lane(self) -> None:
        """Abandon a JoinGroup or SyncGroup that is held back: on the same connection, the next JoinGroup would have to wait."""
        self._network.drop_lane(self.join_lane)
        self.join_lane = self._network.new_lane()

    def dispose(self) -> None:
        self.well()  # nothing is retried any more
        self._network.drop_lane(self.lane)
        self._network.drop_lane(self.join_lane)

    def check(self, now: float, since: float) -> float:
        """Every CHECK_S seconds, ask another broker, if possible, for the current coordinator; return when to call this again.

        The coordinator has held a response back since `since`. A frozen or isolated broker might hold it back until the timeout (for a
        JoinGroup, more than max_poll_interval_ms), although the group has continued with another coordinator.
        """
        node = self.node
        if node is None:
            return INFINITY
        due = max(since, self._checked_at) + CHECK_S
        if now < due:
            return due
        self._checked_at = now
        self._network.avoid(now, node)
        self._outbox.send(
            CheckInFlight(ANY, self._message(), now + self._config.request_timeout_ms / 1000, ONE_KEY, coordinator=self, checked=node)
        )
        return now + CHECK_S

    def checked(self, now: float, node: int, outcome: Outcome) -> None:
        """Switch to the broker that `outcome` names, if `node` is still used as the coordinator."""
        if isinstance(outcome, Failed) or outcome.message.error_code or outcome.message.node_id == node or self.node != node:
            return
        found = outcome.message.node_id
        self.lost(now, node, KafkaError(f"{self.subject}: broker {outcome.node} reports broker {found} as the coordinator"))
        self._wanted = True  # a lookup follows if `_found` does not accept the broker, because the metadata lacks it
        self._found(now, found, outcome.node)
