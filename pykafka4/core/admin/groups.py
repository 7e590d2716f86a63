"""Lists, describes and deletes groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.core.admin.values import CLASSIC, CONSUMER, SHARE, GroupDescription, GroupListing
from pykafka4.core.group.encoding import assigned_partitions
from pykafka4.core.group.notes import carries_note
from pykafka4.errors import BrokerError, DecodeError, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import MemberDescription, TopicPartition
from pykafka4.wire.protocol.messages_admin import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    ListGroupsRequest,
)
from pykafka4.wire.protocol.messages_group import DescribeGroupsRequest, DescribeGroupsResponse
from pykafka4.wire.protocol.messages_share import ShareGroupDescribeRequest, ShareGroupDescribeResponse

__all__ = ["DeleteGroups", "DescribeClassic", "DescribeConsumer", "DescribeShare", "ListGroups", "UnknownGroup"]

NOT_FOUND: Final = BY_NAME["GROUP_ID_NOT_FOUND"].code
TURNED_OFF: Final = BY_NAME["UNSUPPORTED_VERSION"].code  # as the error of a group: the broker has the protocol turned off
DEAD: Final = "Dead"  # the state in DescribeGroups, up to v5, of a group that does not exist or has another protocol
CONSUMER_PROTOCOL_TYPE: Final = "consumer"  # the protocol type of groups of consumers; assignments of other types cannot be read


@attrs.frozen
class UnknownGroup:
    """The outcome of a group that does not exist or has another protocol, or whose protocol is turned off.

    `detail` is the broker's text.
    """

    detail: str | None = None

    def error(self, group: str) -> BrokerError:
        return broker_error(NOT_FOUND, f"group {group}", self.detail or "there is no group of consumers with this id")


class ListGroups(Question[int, tuple[GroupListing, ...]]):
    api = "ListGroups"
    about = "groups of broker {}"
    most = 1

    def message(self, keys: Sequence[int]) -> ListGroupsRequest:
        """Send no filters, which older brokers do not know."""
        return ListGroupsRequest()

    def read(self, keys: Sequence[int], reply: Reply) -> Mapping[int, tuple[GroupListing, ...] | Refusal]:
        if reply.message.error_code:
            return {keys[0]: Refusal(reply.message.error_code)}
        rows = reply.message.groups  # state and type are empty if the broker does not report them
        found = (GroupListing(g.group_id, g.group_state, g.group_type.lower() or CLASSIC, g.protocol_type, keys[0]) for g in rows)
        return {keys[0]: tuple(found)}


class GroupQuestion(Question[str, "GroupDescription | UnknownGroup"]):
    """A question about descriptions of groups. `address(node)` returns host and port of a broker."""

    about = "group {}"
    resource = "group"

    def __init__(self, address: Callable[[int], str]) -> None:
        self._address = address

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, GroupDescription | Refusal | UnknownGroup]:
        return {row.group_id: self._described(row, reply.node) for row in reply.message.groups}

    def _described(self, row: Any, node: int) -> GroupDescription | Refusal | UnknownGroup:
        raise NotImplementedError


class DescribeClassic(GroupQuestion):
    """The question about classic groups; the outcome is UnknownGroup for any other group."""

    api = "DescribeGroups"

    def message(self, keys: Sequence[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=list(keys))

    def _described(self, row: DescribeGroupsResponse.Group, node: int) -> GroupDescription | Refusal | UnknownGroup:
        if row.error_code == NOT_FOUND or (not row.error_code and row.group_state == DEAD):
            return UnknownGroup(row.error_message)
        if row.error_code:
            return Refusal(row.error_code, row.error_message)
        return GroupDescription(
            row.group_id,
            row.group_state,
            CLASSIC,
            row.protocol_type,
            row.protocol_data,
            node,
            self._address(node),
            tuple(_classic_member(member, row.protocol_type) for member in row.members),
        )


def _classic_member(member: DescribeGroupsResponse.Group.Member, protocol_type: str) -> MemberDescription:
    partitions: tuple[TopicPartition, ...] = ()
    readable = protocol_type == CONSUMER_PROTOCOL_TYPE
    if readable:
        try:
            partitions = tuple(sorted(assigned_partitions(member.member_assignment)))
        except DecodeError:  # for example, an assignor of another client has its own format
            readable = False
    host = member.client_host.removeprefix("/")  # Java prints addresses with a slash
    rewinds = carries_note(member.member_metadata) if member.member_metadata else None  # no metadata while the group rebalances
    return MemberDescription(
        member.member_id, member.client_id, host, member.group_instance_id, partitions, is_readable=readable, can_rewind=rewinds
    )


class NewerGroupQuestion(GroupQuestion):
    """A question about groups of a newer protocol. A broker that knows the requests might have the protocol turned off."""

    kind: ClassVar[str]
    protocol_type: ClassVar[str]

    def _described(self, row: Any, node: int) -> GroupDescription | Refusal | UnknownGroup:
        if row.error_code == TURNED_OFF:
            return UnknownGroup()
        if row.error_code == NOT_FOUND:
            return UnknownGroup(row.error_message)
        if row.error_code:
            return Refusal(row.error_code, row.error_message)
        return GroupDescription(
            row.group_id,
            row.group_state,
            self.kind,
            self.protocol_type,
            row.assignor_name,
            node,
            self._address(node),
            tuple(map(self._member, row.members)),
            row.group_epoch,
            row.assignment_epoch,
        )

    def _member(self, member: Any) -> MemberDescription:
        raise NotImplementedError


class DescribeConsumer(NewerGroupQuestion):
    """The question about groups of the consumer protocol (KIP-848); the outcome is UnknownGroup for any other group."""

    api = "ConsumerGroupDescribe"
    kind, protocol_type = CONSUMER, CONSUMER_PROTOCOL_TYPE

    def message(self, keys: Sequence[str]) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(group_ids=list(keys))

    def _member(self, member: ConsumerGroupDescribeResponse.Group.Member) -> MemberDescription:
        return MemberDescription(
            member.member_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            member.instance_id,
            _partitions(member.assignment),
            _partitions(member.target_assignment),
            member.member_epoch,
        )


def _partitions(
    assignment: ConsumerGroupDescribeResponse.Group.Member.Assignment | ShareGroupDescribeResponse.Group.Member.Assignment,
) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions))


class DescribeShare(NewerGroupQuestion):
    """The question about share groups (KIP-932); the outcome is UnknownGroup for any other group."""

    api = "ShareGroupDescribe"
    kind = protocol_type = SHARE

    def message(self, keys: Sequence[str]) -> ShareGroupDescribeRequest:
        return ShareGroupDescribeRequest(group_ids=list(keys))

    def _member(self, member: ShareGroupDescribeResponse.Group.Member) -> MemberDescription:
        host, partitions = member.client_host.removeprefix("/"), _partitions(member.assignment)
        return MemberDescription(member.member_id, member.client_id, host, partitions=partitions, epoch=member.member_epoch)


class DeleteGroups(Question[str, bool]):
    """Deletes groups without members."""

    api = "DeleteGroups"
    about = "group {}"
    changes = True

    def repeated(self, found: bool | Refusal) -> bool | Refusal:
        """True for a group that does not exist, because the request whose response was lost may have deleted the group."""
        return True if isinstance(found, Refusal) and found.code == NOT_FOUND else found

    def message(self, keys: Sequence[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=list(keys))

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, bool | Refusal]:
        return {r.group_id: Refusal(r.error_code, r.error_message) if r.error_code else True for r in reply.message.results}

    def error(self, key: str, refusal: Refusal) -> BrokerError:
        return broker_error(refusal.code, f"deleting group {key}", refusal.detail, self.api, group=key)
