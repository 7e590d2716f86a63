"""Lists, describes and deletes groups, and sets and deletes their offsets. Invariant: the error of one group hides no other outcome.

Coordinators refuse to change offsets that members use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import attrs

from pykafka4.admin.calls import cause_of, require_all_done, value_or_raise
from pykafka4.admin.session import AdminSession
from pykafka4.admin.values import GroupLag, GroupList, PartitionLag
from pykafka4.client.answers import Deadline
from pykafka4.core.admin import calls
from pykafka4.core.admin.calls import in_doubt, is_occupied
from pykafka4.core.admin.committed import CommitOffsets, DeleteOffsets
from pykafka4.core.admin.offsets import CountPartitions
from pykafka4.core.admin.values import GroupDescription, GroupListing, GroupPosition
from pykafka4.errors import REWIND_INSTEAD, STOP_MEMBERS, BrokerError, GroupNotEmpty, KafkaError, PartialFailure
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["Groups"]

V = TypeVar("V")
Committed = dict[TopicPartition, OffsetAndMetadata]


class Groups:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    # -- descriptions

    def listed(self, states: Collection[str], types: Collection[str], protocol_types: Collection[str], deadline: Deadline) -> GroupList:

        def wanted(group: GroupListing) -> bool:
            return _among(group.type, types) and _among(group.protocol_type, protocol_types)

        self._session.refresh_brokers(deadline)  # the groups of a broker that the metadata lacks would be missing without an error
        answers = self._session.ask(calls.listed(wanted), deadline).wait()
        lists: dict[int, Any] = {node: found for node, found in answers.items() if isinstance(node, int)}
        errors: dict[int, KafkaError] = {node: found for node, found in lists.items() if isinstance(found, KafkaError)}
        rows = [group for node, found in lists.items() if node not in errors for group in found if wanted(group)]
        unique = {group.group_id: group for group in rows}.values()  # a group that moves meanwhile can be in two lists
        stated = [group if group.state else attrs.evolve(group, state=_state(answers[group.group_id])) for group in unique]
        chosen = [group for group in stated if _among(group.state, states)]
        return GroupList(tuple(sorted(chosen, key=lambda group: group.group_id)), errors)

    def describe(self, groups: Collection[str], deadline: Deadline) -> dict[str, GroupDescription | KafkaError]:
        return self._session.ask(calls.described_with_shares(groups), deadline).wait()

    def offsets(self, groups: Collection[str], deadline: Deadline, *, stable: bool) -> dict[str, Committed | KafkaError]:
        found = self._session.ask(calls.committed(groups, stable=stable), deadline).wait()
        return {name: one if isinstance(one, KafkaError) else dict(sorted(one.items())) for name, one in found.items()}

    def lag(self, groups: Collection[str], deadline: Deadline) -> dict[str, GroupLag | KafkaError]:
        found = self._session.ask(calls.lags(groups), deadline).wait()
        return {name: one if isinstance(one, KafkaError) else _lag(one) for name, one in found.items()}

    def partitions(self, topics: Iterable[str], deadline: Deadline) -> dict[str, int | KafkaError]:
        return self._session.ask_any_broker(CountPartitions(), topics, deadline).wait()

    # -- changes

    def require_empty(self, group: str, what: str, way_out: str, deadline: Deadline) -> GroupDescription | None:
        """Return the result of `find`. Raises GroupNotEmpty, with the text `what`, if the group has members."""
        found = self.find(group, deadline)
        if found is not None and found.is_active:
            raise GroupNotEmpty.with_members(group, found.members, what, way_out)
        return found

    def find(self, group: str, deadline: Deadline) -> GroupDescription | None:
        """Return the group's description, or None if no classic or consumer group has this id."""
        found: GroupDescription | KafkaError = self._session.ask(calls.described([group]), deadline).wait()[group]
        if isinstance(found, BrokerError) and found.code.name == "GROUP_ID_NOT_FOUND":
            return None
        return value_or_raise(found)

    def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        """The coordinator refuses the commit while the group has members; `require_empty` names them."""
        self.require_empty(group, f"offsets of group {group} cannot be set", REWIND_INSTEAD, deadline)
        found = self._session.ask_coordinator(CommitOffsets(group, offsets), group, offsets, deadline).wait()
        self._require_done(group, found, "set", deadline)

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        found = self._session.ask_coordinator(DeleteOffsets(group), group, partitions, deadline).wait()
        self._require_done(group, found, "deleted", deadline)

    def delete(self, groups: Collection[str], deadline: Deadline) -> None:
        require_all_done("groups cannot be deleted", self._session.ask(calls.deleted(groups), deadline).wait())

    def _require_done(self, group: str, found: Mapping[TopicPartition, bool | KafkaError], done: str, deadline: Deadline) -> None:
        """If there are errors, raise the error that all partitions have in common, or PartialFailure. `done` is "set" or "deleted"."""
        errors = {tp: one for tp, one in found.items() if isinstance(one, KafkaError)}
        errors |= self._occupied(group, errors, done, deadline)
        if len(set(map(cause_of, errors.values()))) == 1 and len(errors) == len(found):
            raise next(iter(errors.values()))
        if errors:
            what = f"offsets of group {group} cannot be {done} for {len(errors)} of {len(found)} partitions"
            raise PartialFailure.of(what, errors, {tp: one for tp, one in found.items() if tp not in errors})

    def _occupied(
        self, group: str, errors: Mapping[TopicPartition, KafkaError], done: str, deadline: Deadline
    ) -> dict[TopicPartition, KafkaError]:
        """The errors of partitions that were refused because of members, as GroupNotEmpty if the members can be found."""
        refused = {tp: error for tp, error in errors.items() if is_occupied(error)}
        if not refused:
            return {}
        what = f"offsets of group {group} cannot be {done}"
        if any(map(in_doubt, refused.values())):
            what = f"it is unknown whether an earlier request has {done} offsets of group {group}; they cannot be {done} now"
        try:
            self.require_empty(group, what, REWIND_INSTEAD if done == "set" else STOP_MEMBERS, deadline)
        except GroupNotEmpty as error:
            return dict.fromkeys(refused, error)
        except KafkaError:  # the coordinator's errors say enough without the members
            pass
        return refused


def _among(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in {item.lower() for item in wanted}


def _state(found: GroupDescription | KafkaError) -> str:
    return found.state if isinstance(found, GroupDescription) else "Unknown"


def _lag(found: GroupPosition) -> GroupLag:
    rows = []
    for tp, end in found.ends.items():
        known, error = (None, end) if isinstance(end, KafkaError) else (end, None)
        rows.append(PartitionLag(tp, found.committed.get(tp), known, found.owners.get(tp), error))
    return GroupLag(found.description, tuple(rows))
