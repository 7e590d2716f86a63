"""Lists the needs of Kafka releases on today's Java, one row for a range of releases. Invariant: no backend compares versions."""

from __future__ import annotations

import enum

import attrs

__all__ = ["Kind", "Release", "release"]


class Kind(enum.Enum):
    """The kinds of quorum, which elects the controller and keeps the metadata."""

    RAFT = "the brokers themselves (KRaft)"
    ZOOKEEPER = "a ZooKeeper"


@attrs.frozen
class Release:
    """The releases from `since` on: the Scala version of the broker's artifact, the profiles of the pom, the quorum."""

    since: tuple[int, ...]
    scala: str
    profiles: str
    quorum: Kind


# The newest first. ZooKeeper 3.4.11 to 3.4.14 cannot resolve 127.0.0.1 on Java 17, so releases of that time get an earlier ZooKeeper.
TABLE = (
    Release((4, 0), "2.13", "broker", Kind.RAFT),
    Release((2, 4), "2.13", "old-broker", Kind.ZOOKEEPER),
    Release((0, 10, 2), "2.12", "old-broker,zookeeper", Kind.ZOOKEEPER),
)


def release(version: str) -> Release:
    """Raises ValueError for a release that is too old to run here."""
    number = tuple(int(part) for part in version.split("."))
    found = next((row for row in TABLE if number >= row.since), None)
    if found is None:
        oldest = ".".join(map(str, TABLE[-1].since))
        raise ValueError(f"Kafka {version} cannot be run here: {oldest} is the oldest whose brokers have listeners with names")
    return found
