"""Lists the API versions and the behaviour of the Kafka releases that the model knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pykafka4.testing.storage.log import REMEMBERED, UnknownProducer

__all__ = ["RELEASES", "Behaviour", "versions_of"]

Ranges = Mapping[int, tuple[int, int]]

# fmt: off
# The highest version of each API key. Before 4.0 the lowest is 0; from 4.0 on, rows also have the lowest, because KIP-896 removed versions.
_OLD: Final[dict[str, dict[int, int]]] = {
    "0.11": {0: 3, 1: 5, 2: 2, 3: 4, 8: 3, 9: 3, 10: 1, 11: 2, 12: 1, 13: 1, 14: 1, 18: 1, 19: 2, 20: 1, 22: 0, 23: 0,
            24: 0, 25: 0, 26: 0, 28: 0},
    "1.0": {0: 5, 1: 6, 2: 2, 3: 5, 8: 3, 9: 3, 10: 1, 11: 2, 12: 1, 13: 1, 14: 1, 18: 1, 19: 2, 20: 1, 22: 0, 23: 0,
            24: 0, 25: 0, 26: 0, 28: 0},
    "2.1": {0: 7, 1: 10, 2: 4, 3: 7, 8: 6, 9: 5, 10: 2, 11: 3, 12: 2, 13: 2, 14: 2, 18: 2, 19: 3, 20: 3, 22: 1, 23: 2,
            24: 1, 25: 1, 26: 1, 28: 2},
    "2.4": {0: 8, 1: 11, 2: 5, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 18: 3, 19: 5, 20: 4, 22: 2, 23: 3,
            24: 1, 25: 1, 26: 1, 28: 2, 47: 0},
    "2.8": {0: 9, 1: 12, 2: 6, 3: 11, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 18: 3, 19: 7, 20: 6, 22: 4, 23: 4,
            24: 3, 25: 3, 26: 3, 28: 3, 47: 0},
    "3.7": {0: 10, 1: 16, 2: 8, 3: 12, 8: 9, 9: 9, 10: 4, 11: 9, 12: 4, 13: 5, 14: 5, 18: 3, 19: 7, 20: 6, 22: 4, 23: 4,
            24: 4, 25: 3, 26: 3, 28: 3, 47: 0},
    "3.9": {0: 11, 1: 17, 2: 9, 3: 12, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 18: 4, 19: 7, 20: 6, 22: 5, 23: 4,
            24: 5, 25: 4, 26: 4, 28: 4, 47: 0},
}
_FROM_4: Final[dict[str, dict[int, tuple[int, int]]]] = {
    "4.0": {0: (0, 12), 1: (4, 17), 2: (1, 10), 3: (0, 13), 8: (2, 9), 9: (1, 9), 10: (0, 6), 11: (2, 9), 12: (0, 4), 13: (0, 5),
            14: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 28: (0, 5),
            47: (0, 0), 69: (0, 1)},
    "4.4": {0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5),
            14: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 28: (0, 6),
            47: (0, 0), 69: (0, 1), 76: (1, 1), 78: (1, 2), 79: (1, 2)},
}
# fmt: on

# DescribeGroups, ListGroups, DeleteRecords, DescribeConfigs, CreatePartitions, DeleteGroups; from 4.0 on, also DescribeLogDirs,
# IncrementalAlterConfigs, DescribeCluster, ConsumerGroupHeartbeat
_MANAGEMENT: Final[dict[int, tuple[int, int]]] = {15: (0, 1), 16: (0, 1), 21: (0, 0), 32: (0, 1), 37: (0, 0), 42: (0, 0)}
_MANAGEMENT_FROM_4: Final[dict[int, tuple[int, int]]] = {
    15: (0, 6),
    16: (0, 5),
    21: (0, 2),
    32: (1, 4),
    35: (1, 4),
    37: (0, 3),
    42: (0, 2),
    44: (0, 1),
    60: (0, 2),
    68: (0, 1),
}

RELEASES: Final[Mapping[str, Ranges]] = {
    **{release: {**{key: (0, high) for key, high in highs.items()}, **_MANAGEMENT} for release, highs in _OLD.items()},
    **{release: {**spans, **_MANAGEMENT_FROM_4} for release, spans in _FROM_4.items()},
}


def versions_of(release: str) -> Ranges:
    """Raises TypeError for a release that is not a string, ValueError with the known releases for an unknown one."""
    if not isinstance(release, str):
        raise TypeError(f"release={release!r} must be a string such as '3.9'")
    if release not in RELEASES:
        raise ValueError(f"unknown release {release!r}; the model knows {', '.join(RELEASES)}")
    return RELEASES[release]


class Behaviour:
    def __init__(self, release: str) -> None:
        number = tuple(int(part) for part in release.split("."))
        self.unknown_producer = (
            UnknownProducer.ACCEPT if number >= (2, 5) else UnknownProducer.REFUSE if number >= (1, 0) else UnknownProducer.OUT_OF_ORDER
        )
        self.remembered = REMEMBERED if number >= (1, 0) else 1  # number of batches remembered for each producer and partition
        self.after_max_ms = 3_600_000 if number >= (4, 0) else None  # the default of message.timestamp.after.max.ms
        self.invalid_record = "INVALID_RECORD" if number >= (2, 4) else "CORRUPT_MESSAGE"
        # errors of Produce whose responses do not contain the log's start offset
        self.without_start = ("CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE", *(() if number >= (2, 4) else ("INVALID_TIMESTAMP",)))
        self.knows_zstd = number >= (2, 1)
        self.waits_below_min = number >= (3, 7)  # the high watermark does not rise while fewer than min.insync.replicas are in sync
        self.interrupts_sync = number < (2, 4)  # heartbeats get REBALANCE_IN_PROGRESS until the leader's assignment arrives
        self.replication_lag = 0.5 if number >= (4, 0) else 0.0  # seconds until a new coordinator knows that its log is replicated
        self.transaction_version = 2 if number >= (4, 0) else 0  # the finalized level of the feature `transaction.version`
        self.verifies_transactions = number >= (3, 6)  # brokers check transactional writes with the transaction coordinator (KIP-890)
        # The error for a topic that is being created.
        self.missing_topic = "UNKNOWN_TOPIC_OR_PARTITION" if number >= (3, 0) else "LEADER_NOT_AVAILABLE"
