"""Writes transaction markers to the leaders of partitions. Invariant: a stored marker counts as written only below the high watermark."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.broker import Brokers
from pykafka4.testing.storage.batch import StoredBatch
from pykafka4.testing.storage.partition import Partition, Topics
from pykafka4.testing.storage.transactions import Marker
from pykafka4.testing.timeline import Timeline

__all__ = ["Ending", "MarkerWriter"]


@attrs.define(eq=False)
class Ending:
    """A transaction that is being ended, with the partitions and groups to which its marker is not yet written."""

    marker: Marker
    partitions: dict[TopicPartition, Partition | None]  # None: the partition did not exist when the transaction ended
    groups: dict[str, None]
    written: dict[TopicPartition, StoredBatch] = attrs.Factory(dict)  # the last marker that was stored in each partition

    @property
    def done(self) -> bool:
        return not self.partitions and not self.groups


class MarkerWriter:
    """The caller repeats `write` until the `Ending` is `done`.

    `appended(partition, offset)` is called after each stored marker. `settle_offsets(group, marker)` ends the transaction in the group, or
    returns False if the call has to be repeated.
    """

    def __init__(
        self,
        brokers: Brokers,
        topics: Topics,
        timeline: Timeline,
        appended: Callable[[Partition, int], None],
        settle_offsets: Callable[[str, Marker], bool],
    ) -> None:
        self._brokers, self._topics, self._timeline = brokers, topics, timeline
        self._appended, self._settle_offsets = appended, settle_offsets

    def begin(self, marker: Marker, partitions: dict[TopicPartition, None], groups: dict[str, None]) -> Ending:
        return Ending(marker, {tp: self._topics.partition(*tp) for tp in partitions}, dict(groups))

    def write(self, ending: Ending) -> None:
        for tp, partition in list(ending.partitions.items()):
            if partition is None or self._topics.partition(*tp) is not partition or self._write(ending, partition):
                del ending.partitions[tp]
        for group in list(ending.groups):
            if self._settle_offsets(group, ending.marker):
                del ending.groups[group]

    def _write(self, ending: Ending, partition: Partition) -> bool:
        leader = partition.leader
        if leader < 0 or not self._brokers[leader].running(self._timeline.now):
            return False
        log, batch = partition.log, ending.written.get(partition.tp)
        if batch is None or not log.holds(batch):  # also if an election has lost the marker
            if len(partition.in_sync) < partition.min_in_sync:
                return False
            base = log.end_offset
            batch = log.mark(ending.marker, partition.epoch)
            if batch is None:
                return True
            ending.written[partition.tp] = batch
            self._appended(partition, base)
        return partition.log.holds(batch) and partition.log.high_watermark >= batch.next_offset
