"""Keeps a member's wish to rewind its group, and carries out rewinds of the member's partitions.

Invariant: a member repeats its wish until each partition is known to be rewound, the wish is refused, overdue, withdrawn or ended by an
error, or the member has left.

A wish takes three steps. DescribeGroups shows whether all members can rewind; if not, the wish is refused. A refusal at the first check
leaves all offsets unchanged. If all members can rewind, the asker (the member with the wish) joins with the wish in its note. The leader
puts the offsets into the assignments, except for partitions that members have noted as rewound, and lists the rewound partitions in the
assignment of the asker.
Until each partition is known to be rewound (an owner may have missed the assignment, the leader may have changed, the rebalance may have
failed), the asker repeats these steps.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from pykafka4.core import INFINITY, Failed, Outcome
from pykafka4.core.group.committing.offsets import Commit, names_of
from pykafka4.core.group.leading.rewinds import member_title, strangers_refusal
from pykafka4.core.group.membership.protocol import MemberCommits
from pykafka4.core.group.notes import WITHOUT_NOTES, Note, Rewind, carries_note, note_bytes, read_note
from pykafka4.core.group.reactions import Reaction, reaction
from pykafka4.core.subscription import MemberIdentity
from pykafka4.errors import KafkaError, KafkaTimeoutError, broker_error, listed
from pykafka4.errors.codes import error_code
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_group import DescribeGroupsRequest, DescribeGroupsResponse

__all__ = ["Done", "Rewinds"]

log = get_log("pykafka4.group")

CHECK_AGAIN_S: Final = 0.3  # seconds to the next DescribeGroups after a failure, or during a rebalance; also the first `pause` of a wish
COMMIT_S: Final = 60.0  # seconds until the commit of a rewind is given up
MOST_KEPT: Final = 4  # number of rewinds that a member remembers, because their askers may still repeat them
STABLE: Final = "Stable"  # the group state in which DescribeGroups returns the members' notes
EMPTY: Final = "Empty"  # the state of a group without members; the coordinator may have removed frozen members, which may join again
NOTHING: Final = frozenset[TopicPartition]()
DEAD: Final = "Dead"  # the state in the response to DescribeGroups if the classic protocol has no such group

Done = Callable[[KafkaError | None], None]


class Step(enum.Enum):
    NEW = "DescribeGroups has to be sent"
    CHECKING = "waiting for the response to DescribeGroups"
    READY = "the next join has the wish"


@attrs.define(eq=False)
class RequestedRewind:
    """The application's wish for a rewind, until `deadline`.

    `open` has the partitions that are not known to be rewound; None until an assignment has contained the wish. After `pause` seconds the
    wish is made again. The pause doubles each time, so that slow owners have time to get their assignments.

    `in_join` is set from a join with the wish to its result: an assignment, or an error in the response to JoinGroup. `lost` is set if an
    earlier join with the wish had no such result, so that other members may have carried out the wish in a generation that this member
    missed.
    """

    rewind: Rewind
    deadline: float
    done: Done
    step: Step = Step.NEW
    in_join: bool = False
    lost: bool = False
    open: frozenset[TopicPartition] | None = None
    pause: float = CHECK_AGAIN_S

    @property
    def unconfirmed(self) -> frozenset[TopicPartition]:
        """The partitions that may or may not be rewound; empty if certainly no offset has changed."""
        if self.open is not None:
            return self.open
        return frozenset(self.rewind.offsets) if self.in_join or self.lost else NOTHING


class Rewinds:
    __slots__ = ("_check_at", "_commits", "_committing", "_config", "_done", "_group", "_taken", "_wish")

    def __init__(self, config: ConsumerConfig, commits: MemberCommits) -> None:
        self._config, self._commits = config, commits
        self._group = config.group_id or ""
        self._wish: RequestedRewind | None = None
        self._check_at = 0.0
        self._done: dict[str, frozenset[TopicPartition]] = {}  # by rewind: the partitions whose new offsets this member has committed
        self._committing: dict[str, frozenset[TopicPartition]] = {}  # by rewind: the partitions whose new offsets this member is committing
        self._taken = ""  # the id of the rewind in the last assignment that had one

    # ---------------------------------------------------------------- the wish

    def ask(self, rewind: Rewind, deadline: float, done: Done) -> Callable[[], None]:
        """`done` gets None when each partition is rewound, or an error. Return a function to withdraw the wish."""
        if self._wish is not None:
            done(KafkaError(f"group {self._group} cannot be rewound: this consumer waits for another rewind; wait for its end"))
            return lambda: None
        wish = self._wish = RequestedRewind(rewind, deadline, done)

        def withdraw() -> None:
            if self._wish is wish:
                self._wish = None

        return withdraw

    @property
    def ready(self) -> bool:
        return self._wish is not None and self._wish.step is Step.READY

    @property
    def checking(self) -> bool:
        return self._wish is not None and self._wish.step is Step.CHECKING

    @property
    def check_at(self) -> float:
        return self._check_at if self._wish is not None and self._wish.step is Step.NEW else INFINITY

    def question(self) -> DescribeGroupsRequest:
        assert self._wish is not None
        self._wish.step = Step.CHECKING
        return DescribeGroupsRequest(groups=[self._group])

    def learn(self, now: float, outcome: Outcome, *, is_member: bool) -> None:
        """End the wish with an error, put the wish into the next join, or check again later."""
        wish = self._wish
        if wish is None or wish.step is not Step.CHECKING:
            return
        wish.step, self._check_at = Step.NEW, now + CHECK_AGAIN_S
        groups: list[DescribeGroupsResponse.Group] = [] if isinstance(outcome, Failed) else outcome.message.groups
        if not groups:
            return
        group = groups[0]
        if group.group_state == STABLE or (group.group_state in (EMPTY, DEAD) and not is_member):
            refusal = strangers_refusal(
                [member_title(m.member_id, m.client_id, m.client_host) for m in group.members if not carries_note(m.member_metadata)]
            )
            if refusal:
                self._refuse(refusal)
            else:
                wish.step = Step.READY
        elif group.group_state == DEAD or error_code(group.error_code).name == "GROUP_ID_NOT_FOUND":
            self._refuse("it has members of the consumer protocol (KIP-848), whose partitions the coordinator assigns")
        elif group.error_code and reaction(group.error_code) in (Reaction.DENIED, Reaction.FATAL):
            self.end(broker_error(group.error_code, f"describing group {self._group}", None, "DescribeGroups", group=self._group))

    def _refuse(self, why: str) -> None:
        rest = NOTHING if self._wish is None else self._wish.unconfirmed
        told = f"might not be rewound for {listed(sorted(rest))}" if rest else "is not rewound, and nothing has changed"
        self.end(KafkaError(f"group {self._group} {told}: {why}"))

    def end(self, error: KafkaError | None) -> None:
        if (wish := self._wish) is not None:
            self._wish = None
            wish.done(error)

    def left(self) -> None:
        way_out = "check the group's lag, then repeat the rewind"
        self.end(KafkaError(f"this consumer left group {self._group} before each partition was known to be rewound; {way_out}"))

    def expire(self, now: float) -> float:
        if (wish := self._wish) is None:
            return INFINITY
        if now < wish.deadline:
            return wish.deadline
        if wish.open is not None:
            known = f"not confirmed in time for {listed(sorted(wish.open))}; check the group's lag, then repeat the rewind"
        else:
            known = f"in no assignment in time; {'it may still be carried out' if wish.unconfirmed else 'nothing has changed'}"
        self.end(KafkaTimeoutError(f"group {self._group}: the rewind was {known}"))
        return INFINITY

    # ---------------------------------------------------------------- notes

    def with_note(self, user_data: Mapping[str, bytes | None], generation: int) -> dict[str, bytes | None]:
        """Return `user_data`, by assignor, with this member's note at the end of each value, except for `sticky`."""
        rewind = None
        if (wish := self._wish) is not None:
            wish.lost |= wish.in_join
            wish.in_join = self.ready or wish.open is not None
            rewind = wish.rewind if wish.in_join else None
        note = note_bytes(Note(rewind, -1 if rewind is None else generation, self._done))
        return {name: data if name == WITHOUT_NOTES else (data or b"") + note for name, data in user_data.items()}

    def turned_away(self) -> None:
        """Record that the last join got an error: no leader got the wish of this join."""
        if self._wish is not None:
            self._wish.in_join = False

    def take(self, now: float, assignment: bytes) -> Mapping[TopicPartition, int]:
        """Return the offsets in an assignment, for partitions that this member has not rewound and is not rewinding, to pass to `commit`.

        A wish of this member ends if it is refused or all its partitions are rewound; otherwise it is made again. Raises DecodeError.
        """
        note = read_note(assignment)
        rewind = None if note is None else note.rewind
        wish = self._wish
        if wish is not None:
            wish.in_join = False
        if wish is not None and (rewind is None or rewind.rewind_id != wish.rewind.rewind_id):
            wish.step, self._check_at = Step.NEW, 0.0
        if note is None or rewind is None:
            return {}
        self._taken = rewind.rewind_id
        before = self._done.get(self._taken, NOTHING) | self._committing.get(self._taken, NOTHING)
        if wish is not None and rewind.rewind_id == wish.rewind.rewind_id:
            done = note.done.get(self._taken, NOTHING) | self._done.get(self._taken, NOTHING)
            if done or not note.refusal:
                self._carried_out(wish, done)
            if note.refusal:
                self._refuse(note.refusal)
            else:
                wish.step, self._check_at = Step.NEW, now + wish.pause
                wish.pause *= 2
        return {tp: offset for tp, offset in rewind.offsets.items() if tp not in before}

    def _carried_out(self, wish: RequestedRewind, partitions: frozenset[TopicPartition]) -> None:
        wish.open = (frozenset(wish.rewind.offsets) if wish.open is None else wish.open) - partitions
        if not wish.open and wish is self._wish:
            self.end(None)

    def commit(self, now: float, identity: MemberIdentity | None, starts: Mapping[TopicPartition, int]) -> None:
        """Commit `starts`, the offsets of the rewind in the last assignment, in the generation that begins.

        Until the commit ends, the partitions count as being committed, so that an assignment that repeats the rewind does not rewind them
        twice.
        """
        where, rewind_id, partitions = self._config.log_name, self._taken, frozenset(starts)
        log.info("%s: rewinding partitions (%d)", where, len(starts), partitions=len(starts))
        self._committing[rewind_id] = self._committing.get(rewind_id, NOTHING) | partitions

        def done(error: KafkaError | None) -> None:
            if rest := self._committing.pop(rewind_id, NOTHING) - partitions:
                self._committing[rewind_id] = rest
            if error is not None:  # no note lists these partitions, so the asker repeats its wish, and their owner gets the offsets again
                log.warning("%s: the offsets of a rewind were not committed (%s): %s", where, names_of(starts), error)
                return
            self._done[rewind_id] = self._done.pop(rewind_id, NOTHING) | partitions
            while len(self._done) > MOST_KEPT:
                del self._done[next(iter(self._done))]
            if (wish := self._wish) is not None and wish.rewind.rewind_id == rewind_id:
                self._carried_out(wish, partitions)

        places = {tp: OffsetAndMetadata(offset) for tp, offset in starts.items()}
        self._commits.commit(Commit(places, identity, now + COMMIT_S, done))
