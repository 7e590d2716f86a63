"""Groups. Rule: a group is changed without its members only while it has none; an error of one group never hides the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar

import attrs

from pykafka4.admin.desk import Deadline, Desk
from pykafka4.admin.values import GroupLag, GroupList, PartitionLag
from pykafka4.core.admin.groups import DeleteGroups, DescribeClassic, DescribeConsumer, ListGroups, no_such_group
from pykafka4.core.admin.offsets import LATEST, CommitOffsets, CountPartitions, DeleteOffsets, FetchOffsets, ListOffsets, Unstable
from pykafka4.core.admin.values import GroupDescription, GroupListing
from pykafka4.errors import BrokerError, GroupNotEmpty, KafkaError, PartialFailure, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["Groups"]

V = TypeVar("V")
Committed = dict[TopicPartition, OffsetAndMetadata]
# What coordinators answer to a commit without a member, or a deletion, while the group has members.
OCCUPIED: Final = (
    *("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH"),
    *("NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC"),
)


class Groups:
    """What an admin client does with groups, as sequences of questions."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    # -- looking

    def listed(self, states: Collection[str], types: Collection[str], protocol_types: Collection[str], deadline: Deadline) -> GroupList:
        """See AdminClient.list_groups."""
        found: dict[str, GroupListing] = {}
        errors: dict[int, KafkaError] = {}
        for node, listed in self._desk.of_brokers(ListGroups(), deadline).wait().items():
            if isinstance(listed, KafkaError):
                errors[node] = listed
            else:
                found.update((group.group_id, group) for group in listed)  # one that moved meanwhile may be in two lists
        kinds = [g for g in found.values() if _among(g.type, types) and _among(g.protocol_type, protocol_types)]
        stated = self._with_states(kinds, deadline)
        chosen = [group for group in stated if _among(group.state, states)]
        return GroupList(tuple(sorted(chosen, key=lambda group: group.group_id)), errors)

    def _with_states(self, groups: list[GroupListing], deadline: Deadline) -> list[GroupListing]:
        """Brokers before 2.6 do not list states."""
        silent = [group.group_id for group in groups if not group.state]
        described = self.describe(silent, deadline) if silent else {}
        states = {name: found.state for name, found in described.items() if isinstance(found, GroupDescription)}
        return [attrs.evolve(group, state=group.state or states.get(group.group_id, "Unknown")) for group in groups]

    def describe(self, groups: Collection[str], deadline: Deadline) -> dict[str, GroupDescription | KafkaError]:
        """See AdminClient.describe_groups."""
        asked = self._desk.of_groups(DescribeClassic(self._desk.address), groups, deadline).wait()
        unknown = [name for name, found in asked.items() if found is None]
        others = self._desk.of_groups(DescribeConsumer(self._desk.address), unknown, deadline).wait() if unknown else {}
        return {name: _described(name, others[name] if found is None else found) for name, found in asked.items()}

    def offsets(self, groups: Collection[str], deadline: Deadline, *, stable: bool) -> dict[str, Committed | KafkaError]:
        """See AdminClient.group_offsets."""
        found = self._desk.of_groups(FetchOffsets(Unstable.WAIT if stable else Unstable.REPORT), groups, deadline).wait()
        open_ = [name for name, one in found.items() if isinstance(one, Unstable)]
        found |= self._desk.of_groups(FetchOffsets(Unstable.IGNORE), open_, deadline).wait() if open_ else {}
        return {name: dict(sorted(one.items())) if isinstance(one, dict) else _error(one) for name, one in found.items()}

    def lag(self, groups: Collection[str], deadline: Deadline) -> dict[str, GroupLag | KafkaError]:
        """See AdminClient.group_lag."""
        described, committed = self.describe(groups, deadline), self.offsets(groups, deadline, stable=False)
        wanted: dict[TopicPartition, None] = {}
        for name, description in described.items():
            stored = committed[name]
            if not isinstance(description, KafkaError) and not isinstance(stored, KafkaError):
                wanted.update(dict.fromkeys((*stored, *_owned(description))))
        ends = self._desk.of_leaders(ListOffsets(LATEST), wanted, deadline).wait()
        return {name: _lag(described[name], committed[name], ends) for name in described}

    def partitions(self, topics: Iterable[str], deadline: Deadline) -> dict[str, int | KafkaError]:
        """The numbers of partitions of `topics`."""
        return self._desk.of_anyone(CountPartitions(), topics, deadline).wait()

    # -- changing

    def require_empty(self, group: str, what: str, deadline: Deadline) -> GroupDescription | None:
        """The description of a group without members, None if it does not exist; GroupNotEmpty for `what` if it has some."""
        found = self.find(group, deadline)
        if found is not None and found.is_active:
            raise GroupNotEmpty.with_members(group, found.members, what)
        return found

    def find(self, group: str, deadline: Deadline) -> GroupDescription | None:
        """The description of a group, None if it does not exist."""
        found = self.describe([group], deadline)[group]
        if isinstance(found, BrokerError) and found.code.name == "GROUP_ID_NOT_FOUND":
            return None
        return raised(found)

    def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        """See AdminClient.set_offsets."""
        what = f"offsets of group {group} cannot be set"
        self.require_empty(group, what, deadline)
        found = self._desk.of_group(CommitOffsets(group, offsets), group, offsets, deadline).wait()
        self._require_done(group, found, what, deadline)

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """See AdminClient.delete_offsets."""
        found = self._desk.of_group(DeleteOffsets(group), group, partitions, deadline).wait()
        self._require_done(group, found, f"offsets of group {group} cannot be deleted", deadline)

    def delete(self, groups: Collection[str], deadline: Deadline) -> dict[str, KafkaError | None]:
        """See AdminClient.delete_groups."""
        found = self._desk.of_groups(DeleteGroups(), groups, deadline).wait()
        errors = {name: one if isinstance(one, KafkaError) else None for name, one in found.items()}
        occupied = [name for name, error in errors.items() if _is_occupied(error)]
        for name, described in self.describe(occupied, deadline).items() if occupied else ():
            if isinstance(described, GroupDescription) and described.is_active:
                errors[name] = GroupNotEmpty.with_members(name, described.members, f"group {name} cannot be deleted")
        return errors

    def _require_done(self, group: str, found: Mapping[TopicPartition, bool | KafkaError], what: str, deadline: Deadline) -> None:
        errors = {tp: one for tp, one in found.items() if isinstance(one, KafkaError)}
        if any(map(_is_occupied, errors.values())):  # a member has joined since it was looked at
            self.require_empty(group, what, deadline)
        if len(set(map(str, errors.values()))) == 1 and len(errors) == len(found):
            raise next(iter(errors.values()))
        if errors:
            raise PartialFailure.of(f"{what} for {len(errors)} of {len(found)} partitions", errors)


def raised(found: V | KafkaError) -> V:
    """`found`, unless it is an error, which is raised."""
    if isinstance(found, KafkaError):
        raise found.again()
    return found


def _error(found: KafkaError | Unstable) -> KafkaError:
    return found if isinstance(found, KafkaError) else KafkaError(str(found.value))


def _among(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in {item.lower() for item in wanted}


def _described(name: str, found: GroupDescription | KafkaError | None) -> GroupDescription | KafkaError:
    """The outcome for a group; without the consumer protocol a broker knows only classic groups."""
    return no_such_group(name) if found is None or isinstance(found, UnsupportedVersion) else found


def _is_occupied(error: KafkaError | None) -> bool:
    return isinstance(error, BrokerError) and error.code.name in OCCUPIED


def _owned(description: GroupDescription) -> list[TopicPartition]:
    return [tp for member in description.members for tp in member.partitions]


def _lag(
    description: GroupDescription | KafkaError, committed: Committed | KafkaError, ends: Mapping[TopicPartition, int | KafkaError | None]
) -> GroupLag | KafkaError:
    if isinstance(description, KafkaError):
        return description
    if isinstance(committed, KafkaError):
        return committed
    owners = {tp: member for member in description.members for tp in member.partitions}
    rows = []
    for tp in sorted({*committed, *owners}):
        end = ends[tp]
        error = end if isinstance(end, KafkaError) else None
        rows.append(PartitionLag(tp, committed.get(tp), end if isinstance(end, int) else None, owners.get(tp), error))
    return GroupLag(description, tuple(rows))
