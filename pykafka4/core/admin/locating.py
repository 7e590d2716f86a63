"""Looks up partitions, offsets and sizes for bounded reads. Invariant: each partition gets offsets or an error; sizes can be missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from pykafka4.core.admin.broker_choices import LeaderChoice, NumberedBrokerChoice
from pykafka4.core.admin.call import Begin, Call
from pykafka4.core.admin.machine import AdminMachine
from pykafka4.core.admin.offsets import CountPartitions, ListOffsetsAt
from pykafka4.core.admin.question_run import Question
from pykafka4.core.admin.values import ListedOffset
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["located", "sizes_of"]

SIZES_S: Final = 5.0  # brokers can return sizes for this many seconds after the start of the call
Selection = Mapping[str, "tuple[int, ...] | None"]  # the partitions of each topic; None: all
Done = Callable[[dict[Any, Any]], None]
Sizes = Callable[[Collection[TopicPartition]], "Question[int, dict[TopicPartition, int]]"]  # makes the question about sizes


class Locating:
    """One call that counts partitions, looks up their offsets and, once all partitions are known, their sizes.

    Each outcome is a value or an error. The value is a dict of offsets by timestamp for a partition, the number of partitions for a topic,
    and a dict of sizes by partition for a broker.
    """

    def __init__(self, call: Call, timestamps: Collection[int], isolation: int, sizes: Sizes | None, sizes_s: float) -> None:
        self._call, self._timestamps, self._sizes, self._sizes_s = call, timestamps, sizes, sizes_s
        self._offsets: dict[TopicPartition, dict[int, int | None]] = {}
        self._counting: set[str] = set()
        leaders = {timestamp: LeaderChoice(call.machine.cluster) for timestamp in timestamps}
        self._list = {
            timestamp: call.question(ListOffsetsAt(timestamp, isolation), choice, partial(self._listed, timestamp))
            for timestamp, choice in leaders.items()
        }

    def begin(self, selection: Selection) -> Callable[[], None]:
        self._counting = {topic for topic, chosen in selection.items() if chosen is None}
        self._call.expect(self._counting)
        self._locate([TopicPartition(topic, number) for topic, chosen in selection.items() for number in chosen or ()])
        if self._counting:
            count = self._call.question(CountPartitions(), self._call.machine.any_broker(), self._counted)
            count(self._counting)
        return self._call.started()

    def _counted(self, topic: str, found: int | KafkaError) -> None:
        self._counting.remove(topic)
        if not isinstance(found, KafkaError):
            self._locate([TopicPartition(topic, number) for number in range(found)])
        self._call.settle(topic, found)

    def _locate(self, partitions: list[TopicPartition]) -> None:
        self._call.expect(partitions)
        self._call.topics.begin(partitions)  # keeps the metadata of the topics until the call ends, for all lookups
        self._offsets.update((tp, {}) for tp in partitions)
        for ask in self._list.values():
            ask(partitions)

    def _listed(self, timestamp: int, tp: TopicPartition, found: ListedOffset | KafkaError) -> None:
        if isinstance(found, KafkaError):
            self._call.settle(tp, found)
            return
        self._offsets[tp][timestamp] = found.offset
        if not self._counting:  # all partitions are known, so one request to each broker is enough
            self._measure()
        if len(self._offsets[tp]) == len(self._timestamps):
            self._call.settle(tp, self._offsets[tp])

    def _measure(self) -> None:
        """Ask every broker for sizes, once. For a partition, the response of one replica's broker is enough."""
        sizes, self._sizes = self._sizes, None
        if sizes is not None:
            brokers, choice = list(self._call.machine.cluster.brokers), NumberedBrokerChoice(self._call.machine.cluster)
            self._call.expect(brokers)
            self._call.question(sizes(self._offsets), choice, self._call.settle, self._sizes_s)(brokers)


def located(selection: Selection, timestamps: Collection[int], isolation: int, sizes: Sizes | None = None) -> Begin:
    """The call for offsets of the selected partitions at `timestamps`; with `sizes`, also for sizes that arrive in time. See `Locating`."""

    def begin(machine: AdminMachine, now: float, seconds: float, done: Done) -> Callable[[], None]:
        return Locating(Call(machine, now, seconds, done), timestamps, isolation, sizes, min(SIZES_S, seconds)).begin(selection)

    return begin


def sizes_of(found: Mapping[Any, Any]) -> dict[TopicPartition, int]:
    """The largest size that a broker reported for each partition, in bytes, from the outcome of `located`."""
    sizes: dict[TopicPartition, int] = {}
    for key, of_broker in found.items():
        if isinstance(key, int) and isinstance(of_broker, dict):
            for tp, size in of_broker.items():
                sizes[tp] = max(size, sizes.get(tp, 0))
    return sizes
