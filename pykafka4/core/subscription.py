"""Declares claims and positions, and the events that the loop passes to the reader of a consumer.

Invariant: fetched data belongs to a claim and is dropped with that claim; no field of a claim is written by two threads at once.

An assignment creates a claim, a seek replaces it, a revocation or loss ends it. A chunk refers to its claim, as do the errors and
start offsets of a partition, so the reader drops those that arrive after the end of the claim.
"""

from __future__ import annotations

import enum
from typing import Any, Final, TypeAlias
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.errors import KafkaError
from pykafka4.options.resets import duration_ms
from pykafka4.records import TopicPartition

__all__ = [
    "Assigned",
    "Claim",
    "MemberIdentity",
    "Ended",
    "Ending",
    "Lasting",
    "Lately",
    "Located",
    "Move",
    "OffsetAndEpoch",
    "Policy",
    "Position",
    "Since",
    "Stage",
    "Start",
    "Subscribed",
    "PollError",
    "Truncated",
    "UNBOUNDED",
    "of_new_partition",
    "reset_policy",
]

UNBOUNDED: Final = (1 << 63) - 1  # `Claim.until` of a partition that is read without end

OffsetAndEpoch: TypeAlias = tuple[int, int]  # offset of the next record, leader epoch of the record before it


class Start(enum.Enum):
    """A start of reading that has to be looked up, in contrast to a given offset."""

    COMMITTED = "committed"  # the group's committed offset, or auto_offset_reset
    EARLIEST = "earliest"
    LATEST = "latest"
    EARLIEST_LOCAL = "earliest local"  # the first offset that is not only in tiered storage; looked up, but never a start
    NONE = "none"  # auto_offset_reset=none: raise an error instead

    __hash__ = object.__hash__  # `Enum.__hash__` is Python code, and offset lookups use Starts as dict keys


@attrs.frozen
class Since:
    """Start at the first record with this timestamp or a later one; without such a record, at the end of the log."""

    timestamp_ms: int

    @property
    def value(self) -> str:
        return f"time {self.timestamp_ms}"


@attrs.frozen
class Lately:
    """Start at the first record of the last `duration_ms`, counted back from the time of the lookup (KIP-1106)."""

    duration_ms: int

    @property
    def value(self) -> str:
        return f"by_duration:PT{self.duration_ms / 1000:g}S"


Policy: TypeAlias = Start | Lately  # auto_offset_reset


def reset_policy(reset: str) -> Policy:
    duration = duration_ms(reset)
    return Start(reset) if duration is None else Lately(duration)


def of_new_partition(policy: Policy) -> Policy:
    """The start for a partition that did not exist when the subscription began: no record is skipped."""
    return policy if policy is Start.NONE else Start.EARLIEST


class Claim:
    """The reading of one partition, from an assignment or seek to the next. Compared by identity."""

    __slots__ = (
        "consumed",
        "delivered",
        "end",
        "ended",
        "epoch",
        "followed",
        "live",
        "missing",
        "origin",
        "otherwise",
        "position",
        "recreated",
        "start",
        "stuck",
        "target",
        "tp",
        "troubled",
        "until",
    )

    def __init__(self, tp: TopicPartition, replaces: Claim | None = None) -> None:
        """The claim `replaces` ends, after a seek for example; both claims have the same `origin`, which identifies their assignment."""
        self.tp = tp
        self.origin: object = object() if replaces is None else replaces.origin
        # written by the loop
        self.delivered = 0  # bytes made available to the application
        self.end = -1  # the end of the log in the last response: high watermark, or last stable offset with read_committed
        self.ended = False  # revoked or lost: if the application does not read the claim yet, it must not begin
        self.recreated: int = 0 if replaces is None else replaces.recreated  # times that the topic was recreated, or missing at the end
        self.missing: bool = False if replaces is None else replaces.missing  # the topic was missing at the claim's end
        # written by the application
        self.consumed = 0  # bytes of `delivered` that were read or dropped
        self.position: int | None = None  # offset of the next record to return
        self.target: Start | Since | None = None  # the start of a seek without an offset
        self.start: int | None = None if replaces is None else replaces.start  # where reading began, after the assignment or a seek
        self.epoch = -1  # leader epoch of the last record before `position`; -1 if unknown
        self.otherwise: int | None = None  # after a rewind: where to read if the log does not have the committed offset
        self.followed: int = 0 if replaces is None else replaces.followed  # the value of `recreated` to which this claim's offsets belong
        self.stuck = False  # `poll` raises an error until a seek, so the loop stops fetching
        self.live = True  # False: reading has ended, and chunks that still arrive are dropped
        # The offset at which reading ends. Set before the loop gets the claim, and never changed: chunks and positions rely on it.
        self.until: int = UNBOUNDED if replaces is None else replaces.until
        # Whether `poll` has an error of this claim to raise once. Only the loop changes False to True, and only the application changes
        # True to False. If the loop also wrote True over True, an application that was raising the first error at that moment could then
        # write False, and so erase the second error.
        self.troubled = False

    def successor(self, start: Start | Since | int, epoch: int = -1) -> Claim:
        """The claim that replaces this one at `start`; `epoch` is the leader epoch of the record before `start`."""
        new = Claim(self.tp, self)
        if isinstance(start, int):
            new.position = start
        else:
            new.target = start
        new.epoch = epoch
        return new

    @property
    def outdated(self) -> bool:
        """Whether the claim's offsets belong to a deleted topic: in the new topic, other records have these offsets."""
        return self.followed != self.recreated

    def __repr__(self) -> str:
        return f"<Claim of {self.tp} at {self.position}>"


Move: TypeAlias = tuple[Claim, Claim, Start | Since | int]  # the old claim, its successor, where reading continues


class Ending(enum.Enum):
    """How partitions leave a member."""

    REVOKED = "revoked"  # still held until released: finished records can be committed
    LOST = "lost"  # another member may already read the partitions


@attrs.define(eq=False)
class MemberIdentity:
    """The fields by which a coordinator checks the commits of a member. Compared by object identity.

    A protocol whose members keep partitions from one generation to the next updates `generation` in place: a commit request carries the
    value at the time of sending.
    """

    group_id: str
    generation: int = -1  # or the member epoch; -1: not a member
    member_id: str = ""
    instance_id: str | None = None
    begins: bool = False  # the generation has no assignment yet: commits wait, because coordinators may reject them
    topic_ids: dict[str, UUID] = attrs.Factory(dict)  # topic -> id, if the member's protocol names topics by id


# ---- events that the loop passes to the reader, besides chunks


@attrs.define(eq=False)
class Assigned:
    """Partitions that were newly assigned, in addition to those that the member holds."""

    claims: tuple[Claim, ...]
    reported: bool = False  # written by the application: the listener has been called


@attrs.define(eq=False)
class Ended:
    """The member must release these partitions. The application then passes the event to `Membership.released`."""

    claims: tuple[Claim, ...]
    ending: Ending  # revoked partitions that the application does not release by `deadline` are lost
    reason: str = ""
    deadline: float = INFINITY
    reported: bool = False  # written by the application: the listener has been called


@attrs.frozen(eq=False)
class Located:
    """The offset at which reading starts, or continues after a reset. The reader handles the event after the chunks before it."""

    claim: Claim
    offset: int
    epoch: int = -1
    recreated: int = 0  # `Claim.recreated` when the offset was found


@attrs.frozen(eq=False)
class Truncated:
    """An unclean leader election truncated the log to `offset`: records from `offset` on are lost, even those that were already read."""

    claim: Claim
    offset: int
    epoch: int = -1  # leader epoch of the record before `offset`
    raises: bool = False  # auto_offset_reset=none: raise `LogTruncated` instead of going back to `offset`


@attrs.frozen(eq=False)
class Subscribed:
    """A new subscription has begun: errors before this event belong to the old subscription, although they may have arrived after the
    application's call."""


class Lasting(enum.Enum):
    """Whether `poll` raises an error of a partition once, or in every call until a seek."""

    ONCE = "once"  # the loop retries
    UNTIL_SEEK = "until seek"


@attrs.frozen(eq=False)
class PollError:
    """An error for `poll` to raise, after the earlier records of `claim`. `claim` is None for errors of the consumer itself."""

    claim: Claim | None
    error: KafkaError
    lasting: Lasting = Lasting.UNTIL_SEEK


# ---- the loop's side of a claim


class Stage(enum.Enum):
    """`status()` shows the value as the state, and `meaning` as the reason, unless the partition is paused."""

    UNKNOWN = "unknown"
    ASKING = "asking"
    RESETTING = "resetting"
    FETCHING = "fetching"
    STOPPED = "stopped"

    __hash__ = object.__hash__  # `Enum.__hash__` is Python code, and each `move` hashes stages

    @property
    def meaning(self) -> str | None:
        """The reason why the partition is not fetched; None for FETCHING."""
        return _STAGE_MEANINGS.get(self)


_STAGE_MEANINGS = {
    Stage.UNKNOWN: "the committed offset has to be looked up",
    Stage.ASKING: "looking up the committed offset",
    Stage.RESETTING: "looking up the earliest or latest offset, or the offset of a time",
    Stage.STOPPED: "stopped by an error; seek to continue",
}


STAGES = Transitions(
    "position",
    {
        Stage.UNKNOWN: {Stage.ASKING, Stage.RESETTING, Stage.FETCHING, Stage.STOPPED},
        Stage.ASKING: {Stage.UNKNOWN, Stage.RESETTING, Stage.FETCHING, Stage.STOPPED},
        Stage.RESETTING: {Stage.FETCHING, Stage.STOPPED},
        Stage.FETCHING: {Stage.RESETTING, Stage.STOPPED},
        Stage.STOPPED: set(),
    },
    {**_STAGE_MEANINGS, Stage.FETCHING: "is part of Fetch requests"},
)


@attrs.define
class PartitionBackoff:
    """The backoff of a partition after an error that concerns only this consumer, not other users of the client."""

    backoff: Backoff
    reason: KafkaError | None = None  # the error, until the backoff ends


class Position:
    """The offset from which the loop fetches, ahead of the claim's position by the buffered records, and the state of fetching."""

    __slots__ = (
        "after_request",
        "behind_open",
        "bound",
        "by_policy",
        "claim",
        "corruption_reported",
        "cut_off",
        "end_before",
        "epoch",
        "fallback",
        "follower",
        "found_nothing",
        "gap",
        "limit",
        "offset",
        "otherwise",
        "own_backoff",
        "paused",
        "reported",
        "search",
        "stage",
        "tail",
        "target",
        "topic_id",
        "tp",
        "turn",
    )

    def __init__(self, claim: Claim, start: Start | Since | int, fallback: Policy, limit: int) -> None:
        """`fallback` is the start if there is no committed offset; `limit` is the maximum number of bytes per Fetch."""
        self.claim, self.tp = claim, claim.tp
        self.fallback, self.limit = fallback, limit
        self.target: Start | Since | Lately  # the start that a reset looks up
        if not isinstance(start, int):
            self.stage = Stage.UNKNOWN if start is Start.COMMITTED else Stage.RESETTING
            self.target = start
            self.offset = -1
            self.epoch = -1  # leader epoch of the last batch fetched
        else:
            self.stage, self.target, self.offset = Stage.FETCHING, fallback, start
            self.epoch = claim.epoch  # -1 if unknown; with a known epoch, the leader detects a truncation
        self.otherwise = claim.otherwise  # None after its use
        self.paused = False
        self.turn = 0  # order in Fetch requests, lowest first; a served partition moves to the end
        self.reported = False  # recovery knows of an error of the partition
        self.own_backoff: PartitionBackoff | None = None
        self.corruption_reported = False  # `poll` need not raise the error of a corrupt log again
        self.cut_off = 0  # number of consecutive responses without a complete batch
        self.topic_id: object = None
        self.after_request = 0  # number of the last Metadata request before this position was created
        self.by_policy = start is Start.COMMITTED  # the application gave no start
        self.search: Any = None  # the offset lookup in progress
        self.end_before = -1  # the claim's `end`, before a seek
        self.gap: Any = None  # the offsets that are lost when reading continues (`losses.Gap`)
        self.follower: Any = None  # the follower to read from (`Followers`); None: the leader
        self.bound = False  # bound to the leader, which must not choose a follower
        self.found_nothing = False  # the last response had no bytes; set only if reading ends at an offset (`Claim.until`)
        self.tail: Any = None  # the lookup in progress that finds out whether any record is between `offset` and the end
        self.behind_open = 0  # number of offsets behind an open transaction

    def move(self, to: Stage) -> None:
        self.stage = STAGES.move(self.stage, to)

    def locate(self, offset: int, epoch: int) -> None:
        """`epoch` is the leader epoch of the record before `offset`, -1 if unknown."""
        self.move(Stage.FETCHING)
        self.offset, self.epoch = offset, epoch

    def reset(self, target: Policy) -> None:
        self.move(Stage.RESETTING)
        self.target = target

    @property
    def last_end(self) -> int:
        """The end of the log in the last response, even if a seek followed; -1 if unknown."""
        return self.claim.end if self.claim.end >= 0 else self.end_before

    @property
    def fetchable(self) -> bool:
        wanted = self.offset < self.claim.until or self.is_unconfirmed
        return wanted and self.stage is Stage.FETCHING and not self.paused and self.refusal is None

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the position is beyond `Claim.until`, and no response has confirmed its offset: it may be out of range."""
        return self.offset > self.claim.until and self.claim.end < 0

    @property
    def refusal(self) -> KafkaError | None:
        """The error whose backoff is running."""
        return None if self.own_backoff is None else self.own_backoff.reason

    @property
    def buffered(self) -> int:
        """The bytes that the application has not read yet."""
        return self.claim.delivered - self.claim.consumed
