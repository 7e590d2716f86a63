"""Describes and changes the start offsets of share groups (KIP-932). Coordinators refuse changes while a group has members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykafka4.admin.arguments import as_groups
from pykafka4.admin.calls import AdminCalls, require_all_done
from pykafka4.admin.topic_arguments import as_topic_names
from pykafka4.core.admin.shares import AlterShareOffsets, DeleteShareOffsets, DescribeShareOffsets, ShareGroupOffset
from pykafka4.errors import KafkaError
from pykafka4.misuse import check_count, check_group, check_group_to_set, topic_partition
from pykafka4.records import TopicPartition

__all__ = ["ShareCalls"]


class ShareCalls(AdminCalls):
    """The calls of an `AdminClient` about share groups. Brokers need Kafka 4.1, with share groups enabled."""

    def share_group_offsets(
        self, groups: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, ShareGroupOffset] | KafkaError]:
        """Return the partitions of each share group, with the first offset that is neither acknowledged nor archived, and the lag.

        A group that does not exist has an empty dict. With brokers that lack share groups, each group has UnsupportedVersion.
        """
        names, deadline = as_groups(groups), self._begin(timeout)

        def begin(machine: Any, now: float, seconds: float, done: Any) -> Any:
            return machine.begin(now, DescribeShareOffsets(), machine.coordinators, names, seconds, done)

        return self._session.ask(begin, deadline).wait()

    def alter_share_group_offsets(self, group: str, offsets: Mapping[Any, int], *, timeout: float | None = None) -> None:
        """Set the start offsets of a share group: `{("orders", 0): 1000}`. Creates a group that does not exist.

        Raises BrokerError NON_EMPTY_GROUP while the group has members, GROUP_ID_NOT_FOUND if the group is of another type;
        AuthorizationError, UnsupportedVersion, KafkaTimeoutError; PartialFailure with the errors of partitions.
        """
        wanted = {(tp := topic_partition(item)): check_count(at, f"the offset of {tp}") for item, at in offsets.items()}
        name, deadline = check_group_to_set(group), self._begin(timeout)
        found = self._session.ask_coordinator(AlterShareOffsets(name, wanted), name, wanted, deadline).wait()
        require_all_done(f"offsets of share group {name} cannot be set", found)

    def delete_share_group_offsets(self, group: str, topics: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete the start offsets of a share group for whole topics.

        Raises the same errors as `alter_share_group_offsets`, with PartialFailure for the errors of topics, and GROUP_ID_NOT_FOUND also if
        the group does not exist.
        """
        names, name, deadline = as_topic_names(topics), check_group(group), self._begin(timeout)
        found = self._session.ask_coordinator(DeleteShareOffsets(name), name, names, deadline).wait()
        require_all_done(f"offsets of share group {name} cannot be deleted", found)
