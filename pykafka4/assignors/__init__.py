"""Assigns the partitions of a classic group to its members. Invariant: for the same input, the Java client makes the same assignment
(`sticky` and `java` name the exceptions).

Applications import assignors from here, or write their own (`Assignor`). In a group with members of different clients, any member can be
the leader, so an assignor is an agreement between implementations.

Modules; each line imports only from lines below it:
    builtin             the assignors that have a name in `partition_assignment_strategy`
    range               RangeAssignor
    round_robin         RoundRobinAssignor
    sticky              StickyAssignor, CooperativeStickyAssignor: previous owners, choice of the algorithm, cooperative steps
    sticky_constrained  the sticky algorithm for members with equal subscriptions
    sticky_general      the sticky algorithm for members with different subscriptions
    racks               members and partitions in racks
    java                the orders in which Java sorts strings, and iterates maps and sets
    interface           the interface of assignors: members and partitions go in, an assignment comes out
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
