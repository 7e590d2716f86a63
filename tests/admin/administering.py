"""What tests of the admin client share."""

from __future__ import annotations

from pykafka4 import AdminClient, GroupDescription, GroupLag, TopicPartition
from tests.consumer.consuming import Maker, poll_until

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def joined(make: Maker, **options: object) -> object:
    """A member of `g` that has its partitions."""
    consumer = make.member(**options)
    poll_until(consumer, consumer.assignment)
    return consumer


def described(admin: AdminClient, group: str = "g") -> GroupDescription:
    found = admin.describe_groups([group])[group]
    assert isinstance(found, GroupDescription)
    return found


def lag_of(admin: AdminClient, group: str = "g") -> GroupLag:
    found = admin.group_lag([group])[group]
    assert isinstance(found, GroupLag)
    return found
