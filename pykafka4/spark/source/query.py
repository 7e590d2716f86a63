"""Runs the driver's part of a stream: finds the ends of micro-batches, and commits to the group that shows the lag.

Invariant: a restart needs nothing that is kept here, because the checkpoint has the position. This is a separate module because Spark plans
each micro-batch in a new process, which pickles the reader, sends no request, and need not load the client.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from pykafka4.client.client import Client
from pykafka4.spark.source.lag_group import LagGroup
from pykafka4.spark.source.logs import Logs
from pykafka4.spark.source.lookups import LogLookups
from pykafka4.spark.source.offsets import PLANNING, StreamOffset, by_topic
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.tracker import Tracker

__all__ = ["DriverQuery"]

TOPICS_AGE_S: Final = 10.0  # the age at which topics are looked up again, unless kafka.metadata.max.age.ms is set
COMMIT_S: Final = 5.0  # the longest wait for a commit to a group
STOP_S: Final = 5.0


@attrs.define(eq=False)
class DriverQuery:
    client: Client
    tracker: Tracker
    group: LagGroup | None
    behind: int = 0  # the number of offsets that are in no batch yet

    @classmethod
    def of(cls, options: SourceOptions) -> DriverQuery:
        client = Client(**options.client)
        planning = dict(zip(PLANNING, (options.min_partitions, options.max_records_per_partition), strict=True))
        age_ms = options.client.get("metadata_max_age_ms")
        tracker = Tracker(
            LogLookups(Logs.of(client, options), options),
            fails_on_loss=options.fail_on_data_loss,
            max_delay_s=options.max_trigger_delay,
            planning={name: count for name, count in planning.items() if count is not None},
            topics_age_s=TOPICS_AGE_S if age_ms is None else age_ms / 1000,
        )
        return cls(client, tracker, LagGroup(client, options.commit_group) if options.commit_group else None)

    def next_end(self, start: StreamOffset, most: int | None, least: int | None) -> StreamOffset | None:
        """See Tracker.next_end. Commits `start` to `group`, if any: Spark asks for an end when the records before `start` are processed."""
        if self.group is not None:
            self.group.commit(start.positions)
        end = self.tracker.next_end(start, most, least)
        if self.group is not None:
            self.group.finish(COMMIT_S)
        positions = start.positions if end is None else end.positions
        self.behind = sum(last - positions[tp] for tp, last in self.tracker.latest.items())
        return end

    def report(self) -> dict[str, Any]:
        """The ends of the logs, in the form of the JVM connector, and `behind`, under a key that cannot be the name of a topic."""
        return {**by_topic(self.tracker.latest), "@behind": self.behind}

    def close(self) -> None:
        self.client.close(STOP_S)
