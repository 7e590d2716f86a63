"""Incremental harness. A group protocol for tests: single partitions come and go in numbered epochs; the test is the coordinator."""

from __future__ import annotations

import enum
from typing import Any

from pykafka4.core.group.membership.protocol import Assignee
from pykafka4.core.group.reactions import Reaction
from pykafka4.core.subscription import MemberIdentity
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

RELEASE_SECONDS = 5.0


class State(enum.Enum):
    OUT = "out"
    IN = "in"
    LEFT = "left"

    @property
    def meaning(self) -> str | None:
        return None if self is State.IN else "not a member"


class IncrementalProtocol:
    """What `Membership` needs of a protocol, and `become`, by which a test begins the next epoch."""

    def __init__(self, assignee: Assignee) -> None:
        self._assignee = assignee
        self.target: tuple[TopicPartition, ...] = ()  # at the next join
        self.state = State.OUT
        self.error: KafkaError | None = None
        self.member_id = "m"
        self.generation = -1
        self.identity: MemberIdentity | None = None
        self.revoking: set[TopicPartition] = set()

    @property
    def is_out(self) -> bool:
        return self.state is State.OUT

    @property
    def is_known(self) -> bool:
        return False

    def join(self, now: float) -> float:
        self.state, self.generation = State.IN, 0
        self.identity = MemberIdentity("g", 0, self.member_id)
        self.become(now, *self.target)
        return now

    def become(self, now: float, *target: TopicPartition) -> None:
        """The next epoch: the member keeps what it holds of `target`, and gains and gives back the rest."""
        assert self.identity is not None
        self.generation += 1
        self.identity.generation = self.generation
        held = list(self._assignee.held)
        if gone := [tp for tp in held if tp not in target and tp not in self.revoking]:
            self.revoking.update(gone)
            self._assignee.revoke(gone, now + RELEASE_SECONDS, "the target changed")
        if fresh := [tp for tp in target if tp not in held]:
            self._assignee.assigned(fresh)

    def poll(self, now: float) -> float:
        return self._assignee.keep_lease(now)

    def released(self) -> None:
        self.revoking &= set(self._assignee.held)

    def drop_out(self) -> None:
        self.state, self.generation, self.identity = State.OUT, -1, None
        self.revoking.clear()

    def leave(self, now: float, by: float, reason: str) -> None:
        self.drop_out()
        self._assignee.left()

    def fail(self, error: KafkaError) -> None:
        self.error = error

    def start_over(self) -> None:
        pass

    def dispose(self) -> None:
        pass

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        self.error = error
        return False


def incremental(
    config: Any, coordinator: Any, cluster: Any, assignee: Assignee, random: Any, outbox: Any, commits: Any
) -> IncrementalProtocol:
    """Takes the place of `ClassicProtocol` for `core.consumer.machine`."""
    return IncrementalProtocol(assignee)
