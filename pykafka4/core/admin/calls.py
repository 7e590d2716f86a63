"""Makes the calls about many groups, each with one or more questions.

Invariant: the next question about a group follows as soon as the earlier questions have outcomes for the group, so that a silent
coordinator delays only its own groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import attrs

from pykafka4.core.admin.broker_choices import LeaderChoice, NumberedBrokerChoice
from pykafka4.core.admin.call import Ask, Begin, Call, Done, Settled
from pykafka4.core.admin.committed import FetchOffsets, Unstable
from pykafka4.core.admin.groups import DeleteGroups, DescribeClassic, DescribeConsumer, DescribeShare, ListGroups, UnknownGroup
from pykafka4.core.admin.machine import AdminMachine
from pykafka4.core.admin.offsets import LATEST, ListOffsetsAt
from pykafka4.core.admin.question_run import DOUBT
from pykafka4.core.admin.values import GroupDescription, GroupListing, GroupPosition, ListedOffset
from pykafka4.errors import BrokerError, GroupNotEmpty, KafkaError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = [
    *("committed", "deleted", "described", "described_with_shares", "describing", "in_doubt", "is_occupied"),
    *("lags", "listed"),
]

Committed = dict[TopicPartition, OffsetAndMetadata]
# Errors of coordinators for a commit without a member id, or a deletion, while the group has members.
OCCUPIED: Final = (
    *("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH"),
    *("NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC"),
)


def _about(keys: Iterable[Any], first: Callable[[Call], Ask[Any]]) -> Begin:

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        call = Call(machine, now, seconds, done)
        return call.begin(keys, first(call))

    return begin


def described(groups: Iterable[str]) -> Begin:
    return _about(groups, lambda call: describing(call, call.settle))


def described_with_shares(groups: Iterable[str]) -> Begin:
    return _about(groups, lambda call: _describing_with_shares(call, call.settle))


def describing(call: Call, settled: Settled[str, GroupDescription]) -> Ask[str]:
    """Return a function that asks about groups as classic groups, then about unknown groups as groups of the consumer protocol."""
    return _describing(call, lambda name, found: settled(name, found.error(name) if isinstance(found, UnknownGroup) else found))


def _describing_with_shares(call: Call, settled: Settled[str, GroupDescription]) -> Ask[str]:
    """Return a function that asks as in `describing`, then about groups that are still unknown as share groups."""
    unknown: dict[str, UnknownGroup] = {}

    def last(name: str, found: GroupDescription | UnknownGroup | KafkaError) -> None:
        nothing = isinstance(found, (UnknownGroup, UnsupportedVersion))
        settled(name, unknown[name].error(name) if nothing else found)  # type: ignore[arg-type]

    share = call.question(DescribeShare(call.machine.address), call.machine.coordinators, last)

    def first(name: str, found: GroupDescription | UnknownGroup | KafkaError) -> None:
        if not isinstance(found, UnknownGroup):
            settled(name, found)
        elif not name:
            settled(name, found.error(name))
        else:
            unknown[name] = found
            share([name])

    return _describing(call, first)


def _describing(call: Call, settled: Settled[str, GroupDescription | UnknownGroup]) -> Ask[str]:
    machine = call.machine

    def last(name: str, found: GroupDescription | UnknownGroup | KafkaError) -> None:
        settled(name, UnknownGroup() if isinstance(found, UnsupportedVersion) else found)  # the broker knows only classic groups

    modern = call.question(DescribeConsumer(machine.address), machine.coordinators, last)

    def first(name: str, found: GroupDescription | UnknownGroup | KafkaError) -> None:
        if isinstance(found, UnknownGroup) and name:  # no other protocol has the group with the empty id
            modern([name])
        else:
            last(name, found)

    return call.question(DescribeClassic(machine.address), machine.coordinators, first)


def committed(groups: Iterable[str], *, stable: bool) -> Begin:
    """The call for the committed offsets of each group.

    With `stable`, if the coordinator knows `require_stable`, the call waits for the end of an open transaction with offsets of a group;
    otherwise the outcome has the offsets from before the transaction.
    """

    return _about(groups, lambda call: _fetching(call, call.settle, stable=stable))


def _fetching(call: Call, settled: Settled[str, Committed], *, stable: bool) -> Ask[str]:
    coordinators = call.machine.coordinators

    def last(name: str, found: Committed | Unstable | KafkaError) -> None:
        settled(name, KafkaError(str(found.value)) if isinstance(found, Unstable) else found)

    before = call.question(FetchOffsets(Unstable.IGNORE), coordinators, last)

    def first(name: str, found: Committed | Unstable | KafkaError) -> None:
        if isinstance(found, Unstable):
            before([name])
        else:
            last(name, found)

    return call.question(FetchOffsets(Unstable.WAIT if stable else Unstable.REPORT), coordinators, first)


def lags(groups: Iterable[str]) -> Begin:
    """The call for the `GroupPosition` of each group."""

    return _about(groups, lambda call: _LagCall(call).ask)


@attrs.define(eq=False)
class _GroupStanding:
    """A group whose description and offsets had both arrived by the machine's turn `since`. `ends` are in the order of partitions."""

    name: str
    description: GroupDescription
    committed: Committed
    since: int
    missing: int = 0
    ends: dict[TopicPartition, Any] = attrs.Factory(dict)


class _LagCall:
    """One call for lags. It asks for descriptions and committed offsets at the same time, then for the ends of each group's partitions.

    Groups share the ends of partitions. Say the end of a partition is requested for one group, then the offsets of another group arrive.
    These may have been committed after the broker read the end, and may be beyond it. So the end is requested once more, for all groups
    whose offsets arrived after the request.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._descriptions: dict[str, GroupDescription | KafkaError] = {}
        self._committed: dict[str, Committed | KafkaError] = {}
        self._asked: dict[TopicPartition, int] = {}  # partitions whose end is requested, with the turn of the request
        self._waiting: dict[TopicPartition, list[_GroupStanding]] = {}
        self._errors: dict[TopicPartition, KafkaError] = {}  # errors instead of ends
        self._describe = describing(call, partial(self._found, self._descriptions))
        self._fetch = _fetching(call, partial(self._found, self._committed), stable=False)
        # LATEST includes the records of open transactions: they count as lag, as in Kafka's tools.
        self._list = call.question(ListOffsetsAt(LATEST), LeaderChoice(call.machine.cluster), self._end)

    def ask(self, groups: Iterable[str]) -> None:
        names = list(groups)
        self._describe(names)
        self._fetch(names)

    def _found(self, store: dict[str, Any], name: str, found: Any) -> None:
        store[name] = found
        description, offsets = self._descriptions.get(name), self._committed.get(name)
        if isinstance(description, KafkaError):
            self._call.settle(name, description)
        elif description is None or offsets is None:
            return
        elif isinstance(offsets, KafkaError):
            self._call.settle(name, offsets)
        else:
            self._both(_GroupStanding(name, description, offsets, self._call.machine.turn))

    def _both(self, group: _GroupStanding) -> None:
        owned = (tp for member in group.description.members for tp in member.partitions)
        group.ends = {tp: self._errors.get(tp) for tp in sorted({*group.committed, *owned})}
        unknown = [tp for tp, error in group.ends.items() if error is None]
        group.missing = len(unknown)
        self._call.topics.begin(unknown)
        for tp in unknown:
            self._waiting.setdefault(tp, []).append(group)
        self._ask_ends([tp for tp in unknown if tp not in self._asked])
        self._complete(group)

    def _ask_ends(self, partitions: list[TopicPartition]) -> None:
        self._asked.update(dict.fromkeys(partitions, self._call.machine.turn))
        self._list(partitions)

    def _end(self, tp: TopicPartition, found: ListedOffset | KafkaError) -> None:
        asked, groups = self._asked.pop(tp), self._waiting.pop(tp)
        if isinstance(found, KafkaError):
            self._errors[tp] = found
        elif late := [group for group in groups if group.since > asked]:
            groups = [group for group in groups if group.since <= asked]
            self._waiting[tp] = late
            self._ask_ends([tp])
        for group in groups:
            group.ends[tp] = found.offset if isinstance(found, ListedOffset) else found
            group.missing -= 1
            self._complete(group)

    def _complete(self, group: _GroupStanding) -> None:
        if not group.missing:
            owners = {tp: member for member in group.description.members for tp in member.partitions}
            self._call.settle(group.name, GroupPosition(group.description, group.committed, owners, group.ends))


def listed(wanted: Callable[[GroupListing], bool]) -> Begin:
    """The call for the groups of each broker. Groups without a state (from brokers before 2.6) are described if they are `wanted`."""

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        call = Call(machine, now, seconds, done)
        describe = describing(call, call.settle)

        def first(node: int, found: tuple[GroupListing, ...] | KafkaError) -> None:
            if not isinstance(found, KafkaError):
                silent = [group.group_id for group in found if not group.state and wanted(group)]
                call.expect(silent)
                describe(silent)
            call.settle(node, found)

        return call.begin(machine.cluster.brokers, call.question(ListGroups(), NumberedBrokerChoice(machine.cluster), first))

    return begin


def deleted(groups: Iterable[str]) -> Begin:
    """The call that deletes groups. The outcome is True, GroupNotEmpty if a description shows members, or another error."""

    def deleting(call: Call) -> Ask[str]:
        refused: dict[str, KafkaError] = {}

        def last(name: str, found: GroupDescription | KafkaError) -> None:
            if isinstance(found, GroupDescription) and found.is_active:
                call.settle(name, GroupNotEmpty.with_members(name, found.members, f"group {name} cannot be deleted"))
            else:
                call.settle(name, refused[name])

        describe = _describing_with_shares(call, last)

        def first(name: str, found: bool | KafkaError) -> None:
            if isinstance(found, KafkaError) and is_occupied(found):
                refused[name] = found
                describe([name])
            else:
                call.settle(name, found)

        return call.question(DeleteGroups(), call.machine.coordinators, first)

    return _about(groups, deleting)


def in_doubt(error: KafkaError) -> bool:
    """Whether `error` has the note that the change may have been carried out nevertheless."""
    return DOUBT in getattr(error, "__notes__", ())


def is_occupied(error: object) -> bool:
    """Whether a change was refused because the group has members."""
    return isinstance(error, BrokerError) and error.code.name in OCCUPIED
