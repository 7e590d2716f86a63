"""Subscription. Rule: fetched data belongs to a claim, and dies with it; every field of a claim is written by one thread only.

A claim is one partition for as long as nothing breaks its sequence: an assignment makes it, a seek replaces it, revocation ends it.
Chunks, errors and markers carry the claim they were made under, so whatever is still under way when it ends is recognised and dropped.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

from pykafka4.core import Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = [
    "Assigned",
    "Assignment",
    "Claim",
    "Credentials",
    "Ended",
    "Ending",
    "Lasting",
    "Located",
    "Position",
    "Stage",
    "Start",
    "Ticket",
    "Trouble",
    "Truncated",
]


class Start(enum.Enum):
    """Where reading begins, if not at an offset."""

    COMMITTED = "committed"  # the group's committed offset; without one, auto_offset_reset
    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"  # only as a policy: there is no place to begin, say so


class Claim:
    """One partition, from an assignment or seek to the next. Compared by identity."""

    __slots__ = ("consumed", "delivered", "end", "epoch", "live", "origin", "position", "tp", "troubled")

    def __init__(self, tp: TopicPartition, replaces: Claim | None = None) -> None:
        """`replaces` is the claim that a seek ends; both have the same `origin`, the mark of their assignment."""
        self.tp = tp
        self.origin: object = object() if replaces is None else replaces.origin
        # written by the loop
        self.delivered = 0  # bytes put before the application
        self.end = -1  # high watermark as the last answer gave it
        # written by the application
        self.consumed = 0  # bytes of `delivered` read or dropped
        self.position: int | None = None  # offset of the next record to hand out
        self.epoch = -1  # leader epoch of the last record handed out
        self.live = True
        # set by the loop when it is False, cleared by the application when it is True
        self.troubled = False

    def __repr__(self) -> str:
        return f"<Claim of {self.tp} at {self.position}>"


class Ending(enum.Enum):
    """How an assignment ended."""

    REVOKED = "revoked"  # still ours until released: what is finished can be committed
    LOST = "lost"  # somebody else may be reading already


@attrs.frozen
class Assignment:
    """What a group's coordinator gives to a member."""

    epoch: int  # which of its decisions it is: the generation, in the classic protocol
    partitions: tuple[TopicPartition, ...]


@attrs.frozen(eq=False)
class Credentials:
    """By what a coordinator recognises a commit as a member's. Each assignment has its own, compared by identity."""

    group_id: str
    generation: int = -1  # without a membership
    member_id: str = ""
    instance_id: str | None = None


@attrs.define(eq=False)
class Ticket:
    """The partitions held. The loop makes and ends it, the application gives it back by `released`."""

    claims: tuple[Claim, ...]
    credentials: Credentials  # for commits of these partitions
    ending: Ending | None = None
    reason: str = ""
    deadline: float = 0.0  # a revocation not released by then is a loss


# ---- what the loop puts into the reader's arrivals besides chunks


@attrs.frozen(eq=False)
class Assigned:
    """The group gave us these partitions."""

    ticket: Ticket


@attrs.frozen(eq=False)
class Ended:
    """The group takes them back; `ticket.ending` says how."""

    ticket: Ticket


@attrs.frozen(eq=False)
class Located:
    """Where reading begins, or goes on after a reset; takes its turn among the chunks."""

    claim: Claim
    offset: int
    epoch: int = -1


@attrs.frozen(eq=False)
class Truncated:
    """The log was cut at `offset` by an unclean election; what was read beyond is gone."""

    claim: Claim
    offset: int
    epoch: int = -1  # leader epoch of the record before `offset`
    raises: bool = False  # auto_offset_reset=none: the application is told instead of being set back


class Lasting(enum.Enum):
    """Whether an error goes away by being told."""

    ONCE = "once"  # the loop tries again meanwhile
    UNTIL_SEEK = "until seek"


@attrs.frozen(eq=False)
class Trouble:
    """An error to raise from `poll`, after everything before it was handed out; `claim` is None when it concerns the consumer."""

    claim: Claim | None
    error: KafkaError
    lasting: Lasting = Lasting.UNTIL_SEEK


# ---- the loop's side of a claim


class Stage(enum.Enum):
    """What a position waits for. The value is what `status()` shows as its state, `meaning` the same for people."""

    UNKNOWN = "unknown"
    ASKING = "asking"
    RESETTING = "resetting"
    FETCHING = "fetching"
    STOPPED = "stopped"

    __hash__ = object.__hash__  # an Enum's own is Python code, and each seek looks several stages up

    @property
    def meaning(self) -> str | None:
        """None for the ordinary state."""
        return _STAGE_MEANINGS.get(self)


_STAGE_MEANINGS = {
    Stage.UNKNOWN: "asks for the committed offset",
    Stage.ASKING: "waits for the committed offset",
    Stage.RESETTING: "looks for the first or last offset",
    Stage.STOPPED: "stopped by an error; seek goes on",
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


@attrs.define(eq=False)
class Rest:
    """The back-off of a partition that its leader refuses to this consumer, for a reason that does not concern the client's other users."""

    backoff: Backoff
    reason: KafkaError | None = None  # while it is waited for


class Position:
    """Where the loop reads a partition; ahead of the claim's own position by what is buffered."""

    __slots__ = (
        "by_policy",
        "claim",
        "epoch",
        "fallback",
        "limit",
        "offset",
        "paused",
        "reported",
        "rest",
        "search",
        "stage",
        "target",
        "told",
        "topic_id",
        "tp",
        "turn",
    )

    def __init__(self, claim: Claim, start: Start | int, fallback: Start, limit: int) -> None:
        """`fallback` says what to do without a committed offset; `limit` is the most bytes to ask for at once."""
        self.claim, self.tp = claim, claim.tp
        self.fallback, self.limit = fallback, limit
        self.offset = -1
        self.epoch = -1  # leader epoch of the last batch fetched
        self.target = start if isinstance(start, Start) else fallback  # what a reset looks for
        self.stage = Stage.UNKNOWN
        self.paused = False
        self.turn = 0  # the lower, the earlier it is asked for: it grows when the partition is served
        self.reported = False  # to recovery, as offline
        self.rest: Rest | None = None
        self.told = False  # the application: that the leader's log is damaged here
        self.topic_id: object = None
        self.by_policy = start is Start.COMMITTED  # not told where to begin
        self.search: Any = None  # the one under way for it
        if isinstance(start, int):
            self.locate(start, claim.epoch)  # known where the client itself steps back, so that a further truncation is noticed
        elif start is not Start.COMMITTED:
            self.move(Stage.RESETTING)

    def move(self, to: Stage) -> None:
        """Change the stage; RuntimeError if that cannot follow."""
        self.stage = STAGES.move(self.stage, to)

    def locate(self, offset: int, epoch: int) -> None:
        """Read from `offset`; `epoch` is the leader epoch of the record before it, -1 unknown."""
        self.move(Stage.FETCHING)
        self.offset, self.epoch = offset, epoch

    def reset(self, target: Start) -> None:
        """Look for the first or last offset."""
        self.move(Stage.RESETTING)
        self.target = target

    @property
    def fetchable(self) -> bool:
        """Whether to ask for it, once its leader can be."""
        return self.stage is Stage.FETCHING and not self.paused and self.refusal is None

    @property
    def refusal(self) -> KafkaError | None:
        """Why it rests, if it does."""
        return None if self.rest is None else self.rest.reason

    @property
    def buffered(self) -> int:
        """Bytes put before the application and not read yet."""
        return self.claim.delivered - self.claim.consumed
