"""`groups rewind --live`: a member that joins for a moment. Rule: it subscribes to nothing, so no partition moves to it."""

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
POLL_S: Final = 0.1


@attrs.frozen
class Absent:
    """An assignor that the group uses and this program does not have: it joins with its name, and never leads."""

    name: str
    cooperative: bool = False

    def assign(self, members: Collection[Any], topics: Mapping[str, Any]) -> Never:
        """Only if all other members are gone in that moment."""
        raise KafkaError(f"the member that rewinds the group cannot assign partitions by {self.name!r}; repeat the command")


def live_obstacle(plan: OffsetPlan) -> KafkaError | None:
    """Why a plan cannot be carried out by the members."""
    found = plan.description
    if not plan.rows:
        return KafkaError(f"group {plan.group_id} has committed no offsets to move; name topics with --topic")
    if found is None or not found.is_active:
        return KafkaError(f"group {plan.group_id} has no members: leave out --live")
    if found.type != CLASSIC:
        return KafkaError(f"group {plan.group_id} is of the consumer protocol (KIP-848), which knows no rewind: stop its members")
    strangers = [member for member in found.members if member.can_rewind is False]
    if refusal := strangers_refusal([member_title(m.member_id, m.client_id, m.host) for m in strangers]):
        return KafkaError(f"group {plan.group_id} is not rewound, and nothing has changed: {refusal}")
    return None


def rewind_live(invocation: Invocation, plan: OffsetPlan) -> None:
    """Have the members carry out `plan`; returns when its offsets are committed."""
    assert plan.description is not None
    seconds = api_timeout(invocation.timeout)
    assignor = plan.description.assignor or ""
    strategy: str | Assignor = assignor if assignor in ASSIGNORS else Absent(assignor)
    options = {"client_id": CLIENT_ID, "partition_assignment_strategy": [strategy], "enable_auto_commit": False}
    with invocation.consumer(group_id=plan.group_id, **options) as consumer:
        consumer.subscribe(NOTHING)
        future = consumer.rewind_group({row.partition: row.new for row in plan}, seconds)
        while not future.done():
            consumer.poll(POLL_S)
        future.result()
