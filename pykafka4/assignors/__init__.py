"""Assignors: how a group's partitions are assigned to its members. Rule: for the same input, the result is that of the Java client's.

What applications import to use an assignor, or to write one of their own (`Assignor`). In a group with different clients any of them can be
the leader, so an assignor is an agreement between implementations.

Modules; each line imports only from lines below it:
    builtin             the assignors that have a name in `partition_assignment_strategy`
    range               RangeAssignor
    round_robin         RoundRobinAssignor
    sticky              StickyAssignor and CooperativeStickyAssignor
    sticky_constrained  their algorithm for members with equal subscriptions
    sticky_general      that for members with different ones
    racks               members and partitions in racks
    java                the orders of strings in Java
    interface           what an assignor gets, and returns
"""

from pykafka4.assignors.interface import Assignor, GroupMember, PartitionInfo, SendsUserData, Topics
from pykafka4.assignors.range import RangeAssignor
from pykafka4.assignors.round_robin import RoundRobinAssignor
from pykafka4.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "GroupMember",
    "PartitionInfo",
    "RangeAssignor",
    "RoundRobinAssignor",
    "SendsUserData",
    "StickyAssignor",
    "Topics",
]
