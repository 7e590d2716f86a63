"""Declares the interfaces between a member's protocol and its assignee.

Invariant: the protocol deals with the coordinator, the assignee with the application; neither does the work of the other.

The assignee (`membership`) owns the *partitions*: an assignment adds some, a revocation or loss removes some. The protocol owns the
*generation* and the member *identity*, with which commits are sent. The protocols of a consumer implement `GroupProtocol`, and pass
partitions to the application through `Assignee`.
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

__all__ = ["NOWHERE", "Assignee", "GroupProtocol", "MemberCommits", "State", "Subscription"]

NOWHERE: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


class Subscription(Protocol):
    """The topics of a member, as its protocol uses them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The subscribed topics, by name or by pattern."""

    @property
    def listed(self) -> tuple[str, ...]:
        """The topics subscribed to by name."""

    @property
    def filter(self) -> TopicFilter | None:
        """The patterns of the subscription, or None."""

    def look_for_topics(self, now: float) -> None:
        """If there is a pattern, request the list of topics, because the coordinator has assigned partitions of a topic that is unknown."""


class Assignee(Protocol):
    """The application's side of a member, as its protocol uses it."""

    @property
    def subscription(self) -> Subscription:
        """The subscribed topics."""

    @property
    def held(self) -> Collection[TopicPartition]:
        """The partitions of this member, including revoked and lost partitions that the application has not released yet."""

    def keep_lease(self, now: float) -> float:
        """Return the end of the lease. If the lease has ended, drop out of the group, begin to leave it, and return `now`."""

    def assigned(self, partitions: Collection[TopicPartition], starts: Mapping[TopicPartition, int] = NOWHERE) -> None:
        """Add the `partitions` of subscribed topics to the held partitions. Partitions in `starts` are read from these offsets on."""

    def revoke(self, partitions: Collection[TopicPartition], deadline: float, reason: str) -> None:
        """Have the application release `partitions` by `deadline`."""

    def lost(self, partitions: Collection[TopicPartition], reason: str) -> None:
        """End the reading of `partitions`, which may already belong to other members."""

    def refused(self, error: KafkaError) -> None:
        """Report `error`, which has ended this member."""

    def denied(self, error: KafkaError) -> None:
        """Report that this member lacks a right. The request is repeated, because the right may still be granted."""

    def left(self) -> None:
        """Report that the member has left, and needs no more responses from the coordinator."""


class MemberCommits(Protocol):
    """The commits of a consumer, as its member uses them."""

    @property
    def busy(self) -> bool:
        """Whether any commit is incomplete."""

    @property
    def under_generation(self) -> bool:
        """Whether a commit with a member identity is incomplete and may still be accepted."""

    def commit(self, commit: Commit) -> None:
        """Queue `commit`, or end it at once if it cannot be queued."""

    def incomplete(self) -> set[TopicPartition]:
        """The partitions of the commits that make `under_generation` true."""

    def fail_lost(self, losses: Mapping[TopicPartition, str]) -> None:
        """Let the next poll fail the member's commits with lost partitions, except a commit in flight. `losses` has the reasons."""


class State(Protocol):
    """A state of a member in its protocol."""

    @property
    def value(self) -> str:
        """The name of the state in `status()`."""

    @property
    def meaning(self) -> str | None:
        """The reason in `status()`; None for the normal state."""


class GroupProtocol(Protocol):
    """One member, as its coordinator knows it. Its assignee holds the partitions."""

    @property
    def state(self) -> State:
        """The state, as `status()` shows it."""

    @property
    def is_out(self) -> bool:
        """Whether the member is out of the group, and `join` may change that."""

    @property
    def is_known(self) -> bool:
        """Whether a member that is out has to give up its place in the group when its lease ends."""

    error: KafkaError | None  # the last error; None after a success
    member_id: str
    generation: int  # or the member epoch; -1: none
    identity: MemberIdentity | None  # the identity for commits; None until the member has joined, and while it is out of the group

    def poll(self, now: float) -> float:
        """Send the due requests of a member that is in the group, is joining or is leaving; return the time of the next poll."""

    def join(self, now: float) -> float:
        """Join, if nothing prevents it; return when to try again. The assignee calls this only while the member `is_out`."""

    def released(self) -> None:
        """Continue after the application has released revoked or lost partitions."""

    def drop_out(self) -> None:
        """Put the member out of the group, without a request, after the loss of all partitions."""

    def leave(self, now: float, by: float, reason: str) -> None:
        """Leave the group, at the latest at `by`; `Assignee.left` follows. Only the classic protocol has a field for `reason`."""

    def fail(self, error: KafkaError) -> None:
        """End the member with an error that is not retriable."""

    def start_over(self) -> None:
        """Let a member that an error has ended (`fail`) try again."""

    def dispose(self) -> None:
        """React to the end of the subscription: a leader no longer needs the metadata of the group's topics."""

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        """React to an error, which may concern the member, in the response to a commit that was sent in `generation`.

        Return whether to send the commit again, because the member keeps its partitions and continues in another generation.
        """
