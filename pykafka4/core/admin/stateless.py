"""Makes the stateless calls of a client: offsets, fetches, coordinators, commits, single messages. Invariant: each item of a call has
its own outcome.

Each public function returns a `Begin`, which starts the call. When the call ends, `done` gets a dict with the outcome of each key: for
`found_coordinator` and `sent` a value or an error, otherwise a value with a field `error`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from pykafka4.core import ANY, CONTROLLER, Job
from pykafka4.core.admin.broker_choices import FindCoordinators, GroupCoordinatorChoice, LeaderChoice
from pykafka4.core.admin.call import Begin, Call
from pykafka4.core.admin.fetches import Fetch, FetchFrom, FetchLimits, UndecodedPartition, decode_all
from pykafka4.core.admin.machine import AdminMachine
from pykafka4.core.admin.offsets import ListOffsets, listed_together
from pykafka4.core.admin.question_run import BrokerChoice
from pykafka4.core.admin.requests import ControllerChoice, FollowingReader, OneBrokerChoice, OneMessage, OneReader, reads
from pykafka4.core.admin.values import CommitResult, CommittedOffset, FetchedPartition, GroupDescription, ListedOffset
from pykafka4.errors import REWIND_INSTEAD, GroupNotEmpty, KafkaError
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["committed_of", "committing", "fetched", "found_coordinator", "listed", "sent"]

V = TypeVar("V")
Done = Callable[[dict[Any, Any]], None]


def listed(timestamps: Mapping[TopicPartition, int], isolation: int) -> Begin:
    """The call for a `ListedOffset` of each partition."""

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        call, timeout_ms = Call(machine, now, seconds, done), int(machine.config.request_timeout_ms)
        call.expect(timestamps)

        def settled(tp: TopicPartition, found: ListedOffset | KafkaError) -> None:
            call.settle(tp, ListedOffset(tp, error=found) if isinstance(found, KafkaError) else found)

        for part in listed_together(timestamps):
            call.question(ListOffsets(part, isolation, timeout_ms), LeaderChoice(machine.cluster), settled)(part)
        return call.started()

    return begin


def fetched(wanted: Mapping[TopicPartition, FetchFrom], limits: FetchLimits) -> Begin:
    """The call for a `FetchedPartition` of each partition."""

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        def decode(found: dict[TopicPartition, UndecodedPartition | KafkaError]) -> None:
            machine.start(Job(partial(decode_all, wanted, limits.max_decompressed, found), decoded))

        def decoded(now: float, found: dict[TopicPartition, FetchedPartition] | Exception) -> None:
            if isinstance(found, Exception):  # a bug in this client: the exception becomes the error of each partition
                error = KafkaError(f"decoding failed: {type(found).__name__}: {found}")
                error.__cause__ = found
                found = {tp: FetchedPartition(tp, one.offset, error=error) for tp, one in wanted.items()}
            done(found)

        return machine.begin(now, Fetch(wanted, limits), LeaderChoice(machine.cluster), wanted, seconds, decode)

    return begin


def found_coordinator(group: str) -> Begin:
    """The call for the `GroupCoordinator` of `group`, the only key."""

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        return machine.begin(now, FindCoordinators(), machine.any_broker(), [group], seconds, done)

    return begin


def committed_of(group: str, partitions: list[TopicPartition], *, stable: bool) -> Begin:
    """The call for a `CommittedOffset` of each partition. `stable` has the same meaning as in `calls.committed`."""
    # Imported here and below, because bounded reads need no messages about groups.
    from pykafka4.core.admin.committed import FetchOffsetsOfPartitions

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        call = Call(machine, now, seconds, done)

        def settled(tp: TopicPartition, found: CommittedOffset | KafkaError) -> None:
            call.settle(tp, CommittedOffset(tp, error=found) if isinstance(found, KafkaError) else found)

        return call.begin(
            partitions, call.question(FetchOffsetsOfPartitions(group, stable), GroupCoordinatorChoice(machine.coordinators, group), settled)
        )

    return begin


def committing(group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Begin:
    """The call for a `CommitResult` of each partition. GroupNotEmpty names the group's members, if a description shows them."""
    from pykafka4.core.admin.calls import describing, is_occupied
    from pykafka4.core.admin.committed import CommitOffsets

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        call = Call(machine, now, seconds, done)
        refused: dict[TopicPartition, KafkaError] = {}  # errors that wait for the description of the group
        reason: list[GroupDescription | KafkaError] = []

        def refuse(tp: TopicPartition, error: KafkaError) -> None:
            if isinstance(reason[0], GroupDescription) and reason[0].is_active:
                what = f"offsets of group {group} cannot be committed"
                error = GroupNotEmpty.with_members(group, reason[0].members, what, REWIND_INSTEAD)
            call.settle(tp, CommitResult(tp, error))

        def described(name: str, found: GroupDescription | KafkaError) -> None:
            reason.append(found)
            for tp, error in refused.items():
                refuse(tp, error)

        describe = describing(call, described)

        def settled(tp: TopicPartition, found: bool | KafkaError) -> None:
            if not isinstance(found, KafkaError):
                call.settle(tp, CommitResult(tp))
            elif not is_occupied(found):
                call.settle(tp, CommitResult(tp, found))
            elif reason:
                refuse(tp, found)
            else:
                refused[tp] = found
                describe([group])  # a second call does no harm: only the first description counts

        return call.begin(
            offsets, call.question(CommitOffsets(group, offsets), GroupCoordinatorChoice(machine.coordinators, group), settled)
        )

    return begin


def sent(message: Any, target: object, where: str, max_version: int | None) -> Begin:
    """The call for the response to `message`. The only key is `target`: a node, ANY, CONTROLLER, a group or a partition."""

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        choice = _choice(machine, target)
        reader = OneReader if isinstance(choice, OneBrokerChoice) else FollowingReader
        question = (reader if reads(message) else OneMessage)(message, where, max_version, seconds)
        return machine.begin(now, question, choice, [target], seconds, done)

    return begin


def _choice(machine: AdminMachine, target: object) -> BrokerChoice[Any]:
    if target == ANY:
        return machine.any_broker()
    if target == CONTROLLER:
        return ControllerChoice(machine.cluster)
    if isinstance(target, int):
        return OneBrokerChoice(machine.cluster)
    if isinstance(target, TopicPartition):
        return LeaderChoice(machine.cluster)
    assert isinstance(target, str)
    return GroupCoordinatorChoice(machine.coordinators, target)
