"""Names the brokers to which `Client.request` can send a message: by number, or by role."""

from __future__ import annotations

from typing import Final

import attrs

from pykafka4 import core
from pykafka4.errors import ConfigError, shown
from pykafka4.misuse import check_count, check_group, topic_partition
from pykafka4.records import TopicPartition

__all__ = ["ANY", "CONTROLLER", "Target", "coordinator", "leader"]

MAX_NODE: Final = 2**31 - 1


@attrs.frozen
class Target:
    """A broker, given by its number or role: ANY, CONTROLLER, `coordinator(group)` or `leader(partition)`."""

    name: str
    where: object = attrs.field(repr=False)

    def __str__(self) -> str:
        return self.name


ANY: Final = Target("any broker", core.ANY)
CONTROLLER: Final = Target("the controller", core.CONTROLLER)


def coordinator(group: str) -> Target:
    """A target for `Client.request`: the broker that coordinates `group`."""
    name = check_group(group)
    return Target(f"the coordinator of group {name}", name)


def leader(partition: TopicPartition | tuple[str, int]) -> Target:
    """A target for `Client.request`: the leader of `partition`."""
    tp = topic_partition(partition)
    return Target(f"the leader of {tp}", tp)


def as_target(target: object) -> Target:
    """Raises TypeError or ConfigError for a wrong argument."""
    if isinstance(target, Target):
        return target
    if isinstance(target, bool) or not isinstance(target, int):
        raise TypeError(
            f"the target must be the number of a broker, ANY, CONTROLLER, coordinator(group) or leader(partition), not {shown(target)}"
        )
    if target < 0:
        raise ConfigError(f"the target {target} is not the number of a broker; pass ANY for any broker")
    return Target(f"broker {target}", check_count(target, "the target", MAX_NODE))
