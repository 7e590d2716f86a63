"""Group protocol. Rule: a protocol deals with the coordinator, its assignee with the application; neither does the other's part.

A member consists of three things. Its assignee (`membership`) owns the *partitions*: an assignment adds some, a revocation or loss takes
some. Its protocol owns the member's *identity* for commits and the *generation*.

There are two protocols: `classic` and `consumer_protocol` (KIP-848). Each implements `GroupProtocol`, and reaches the application only
through `Assignee`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from pykafka4.core.group.committing.offsets import Commit
from pykafka4.core.group.reactions import Reaction
from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.core.subscription import MemberIdentity
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["NOWHERE", "Assignee", "CommitsInFlight", "GroupProtocol", "State", "Subscription"]

NOWHERE: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


class Subscription(Protocol):
    """The topics of a member, as its protocol uses them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that the application is subscribed to, those that match its patterns included."""

    @property
    def listed(self) -> tuple[str, ...]:
        """The topics that the application named."""

    @property
    def filter(self) -> TopicFilter | None:
        """The patterns of the subscription. `names` has what they select, so a protocol may ignore them."""

    def look_for_topics(self, now: float) -> None:
        """The coordinator assigned partitions of a topic that is not known: see which topics there are."""


class Assignee(Protocol):
    """The application's side of a member, as its protocol uses it."""

    @property
    def subscription(self) -> Subscription:
        """The subscribed topics."""

    @property
    def held(self) -> Collection[TopicPartition]:
        """The partitions of this member, including those that the application has not released yet."""

    def keep_lease(self, now: float) -> float:
        """The time by which the application must poll. If it has passed, the member leaves the group before this returns."""

    def assigned(self, partitions: Collection[TopicPartition], starts: Mapping[TopicPartition, int] = NOWHERE) -> None:
        """The group assigned these to this member, in addition to those held. They begin at `starts`, others at their committed offset."""

    def revoke(self, partitions: Collection[TopicPartition], deadline: float, reason: str) -> None:
        """Have the application release these; `GroupProtocol.released` follows, or at `deadline` `GroupProtocol.drop_out`."""

    def lost(self, partitions: Collection[TopicPartition], reason: str) -> None:
        """These may already belong to another member."""

    def refused(self, error: KafkaError) -> None:
        """The group rejected this member with an error that is not retriable."""

    def denied(self, error: KafkaError) -> None:
        """The group denied a request of this member, which is repeated: the right may be granted."""

    def left(self) -> None:
        """The member has left the group, as far as it needed the coordinator for that."""


class CommitsInFlight(Protocol):
    """What a member has to know of commits, and to tell them."""

    @property
    def busy(self) -> bool:
        """Whether any commit is not complete."""

    @property
    def under_generation(self) -> bool:
        """Whether a commit of a member is not complete and may still be accepted."""

    def commit(self, commit: Commit) -> None:
        """Commit offsets."""

    def incomplete(self) -> set[TopicPartition]:
        """The partitions of such commits."""

    def fail_lost(self, losses: Mapping[TopicPartition, str]) -> None:
        """These partitions were lost, for these reasons: their commits fail."""


class State(Protocol):
    """A state of a member, of those that its protocol has."""

    @property
    def value(self) -> str:
        """What `status()` shows as the state."""

    @property
    def meaning(self) -> str | None:
        """What `status()` shows as the reason; None in the normal state."""


class GroupProtocol(Protocol):
    """One member from the coordinator's point of view. It holds no partitions: its assignee does."""

    @property
    def state(self) -> State:
        """The present state."""

    @property
    def is_out(self) -> bool:
        """Whether the member is out of the group, and `join` would change that."""

    @property
    def is_known(self) -> bool:
        """Whether the coordinator may still have the member, though it is out: in another generation, until its session is over."""

    error: KafkaError | None  # the last error
    member_id: str
    generation: int  # or the member epoch; -1: none
    identity: MemberIdentity | None  # of commits; None out of the group

    def poll(self, now: float) -> float:
        """Send what is due while the member is in the group, joins or leaves it; returns when to be polled again."""

    def join(self, now: float) -> float:
        """The member is out, holds nothing and can take partitions: join as soon as the coordinator is known; returns when to try again."""

    def released(self) -> None:
        """The application has released partitions that were revoked or lost."""

    def drop_out(self) -> None:
        """All partitions are lost, so the member is out of the group. No request is sent."""

    def leave(self, now: float, by: float, reason: str) -> None:
        """Leave the group, at most until `by`; `Assignee.left` follows. The coordinator logs `reason`."""

    def fail(self, error: KafkaError) -> None:
        """An error that is not retriable: the member does nothing more until `start_over` or `leave`."""

    def start_over(self) -> None:
        """The subscription changed: a member that was rejected tries again."""

    def gone(self) -> None:
        """The subscription ended, so a leader no longer needs the metadata of the group's topics."""

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        """The response to a commit, sent with that generation, contained an error that concerns the member.

        Returns whether to send the commit again: the member keeps its partitions, and goes on in another generation.
        """
