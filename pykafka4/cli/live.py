"""Rewinds a running group for `groups rewind --live`: a member that subscribes to no topic, and so gets no partition,
joins for a moment."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Never

import attrs

from pykafka4.admin.values import OffsetPlan
from pykafka4.assignors.builtin import ASSIGNORS
from pykafka4.assignors.interface import Assignor
from pykafka4.cli.invocation import Invocation
from pykafka4.core.admin.values import CLASSIC
from pykafka4.core.group.leading.rewinds import member_title, strangers_refusal
from pykafka4.errors import KafkaError
from pykafka4.misuse import api_timeout

__all__ = ["live_obstacle", "rewind_live"]

NOTHING: Final = re.compile("(?!)")  # matches no name
CLIENT_ID: Final = "pykafka4-rewind"
POLL_S: Final = 0.1  # seconds between two checks of whether the rewind is done; the polls keep the member in the group


@attrs.frozen
class AbsentAssignor:
    """The stand-in for an assignor that this program lacks: a member can join a group only with an assignor that all members name."""

    name: str
    cooperative: bool = False

    def assign(self, members: Collection[Any], topics: Mapping[str, Any]) -> Never:
        """Raise KafkaError. The client calls this method only if this member leads, because the earlier leader has left."""
        raise KafkaError(f"the member that rewinds the group cannot assign partitions by {self.name!r}; repeat the command")


def live_obstacle(plan: OffsetPlan) -> KafkaError | None:
    """The reason why the members cannot carry out the plan; None if no reason is known."""
    found = plan.description
    if not plan.rows:
        return KafkaError(f"group {plan.group_id} has committed no offsets to move; name topics with --topic")
    if found is None:  # no such group, or a streams group, with or without members
        return KafkaError(
            f"no group of consumers has the id {plan.group_id}: leave out --live; if a streams program has the id, stop it first"
        )
    if not found.is_active:
        return KafkaError(f"group {plan.group_id} has no members: leave out --live")
    if found.type != CLASSIC:
        return KafkaError(f"group {plan.group_id} is of the consumer protocol (KIP-848), which has no rewind: stop its members")
    strangers = [member for member in found.members if member.can_rewind is False]
    if refusal := strangers_refusal([member_title(m.member_id, m.client_id, m.host) for m in strangers]):
        return KafkaError(f"group {plan.group_id} is not rewound, and nothing has changed: {refusal}")
    return None


def rewind_live(invocation: Invocation, plan: OffsetPlan) -> None:
    """Rewind the group; return when the offsets are committed."""
    assert plan.description is not None
    seconds = api_timeout(invocation.timeout)
    assignor = plan.description.assignor or ""
    strategy: str | Assignor = assignor if assignor in ASSIGNORS else AbsentAssignor(assignor)
    options = {"client_id": CLIENT_ID, "partition_assignment_strategy": [strategy], "enable_auto_commit": False}
    with invocation.consumer(group_id=plan.group_id, **options) as consumer:
        consumer.subscribe(NOTHING)
        future = consumer.rewind_group({row.partition: row.new for row in plan}, seconds)
        while not future.done():
            consumer.poll(POLL_S)
        future.result()
