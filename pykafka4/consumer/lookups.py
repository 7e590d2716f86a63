"""Looks up offsets of logs for the application. Invariant: a lookup moves no position, and accepts any partition, assigned or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pykafka4.bounds import Selection
from pykafka4.client.attachment import LOOP_ANSWER_S, Attachment
from pykafka4.consumer.arguments import Partitions, Times, as_partitions, as_timestamp
from pykafka4.consumer.waits import Steps, Waits
from pykafka4.errors import KafkaError, PartialFailure, shown
from pykafka4.misuse import topic_partition
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

if TYPE_CHECKING:  # imported when used: most consumers look up no offsets
    from pykafka4.core.admin.values import ListedOffset

__all__ = ["Lookups"]


class Lookups:
    def __init__(self, attachment: Attachment[Any], config: ConsumerConfig, waits: Waits) -> None:
        self._attachment, self._config, self._waits = attachment, config, waits

    def beginnings(self, partitions: Partitions, timeout: float) -> Steps[dict[TopicPartition, int]]:
        from pykafka4.core.admin.values import EARLIEST

        return self._ends("beginning_offsets", partitions, EARLIEST, timeout)

    def ends(self, partitions: Partitions, timeout: float) -> Steps[dict[TopicPartition, int]]:
        from pykafka4.core.admin.values import LATEST

        return self._ends("end_offsets", partitions, LATEST, timeout)

    def high_watermarks(self, partitions: Partitions, timeout: float) -> Steps[dict[TopicPartition, int]]:
        """The ends of the logs, after the records of open transactions, whatever the isolation level."""
        from pykafka4.core.admin.values import LATEST

        return self._ends("high_watermarks", partitions, LATEST, timeout, "read_uncommitted")

    def located(
        self, selection: Selection, timestamps: Collection[int], timeout: float
    ) -> Steps[dict[TopicPartition, dict[int, int | None]]]:
        """The selected partitions' offsets for each of `timestamps` (EARLIEST, LATEST or milliseconds); None if all records are older.

        Raises BrokerError for a topic or partition that does not exist, AuthorizationError, KafkaTimeoutError; PartialFailure if
        partitions or topics fail with different errors.
        """
        self._attachment.check()
        answers = self._attachment.runtime.calls.locate(selection, timestamps, timeout, self._config.isolation_level)
        try:
            yield from self._waits.result(answers.promise, timeout + LOOP_ANSWER_S)
            return answers.result()
        finally:
            answers.end()

    def _ends(
        self, what: str, partitions: Partitions, spec: Any, timeout: float, isolation_level: str | None = None
    ) -> Steps[dict[TopicPartition, int]]:
        found = yield from self._listed(what, dict.fromkeys(as_partitions(partitions), spec), timeout, isolation_level)
        return {tp: one.offset for tp, one in found.items() if one.offset is not None}  # none is missing: every log has both ends

    def for_times(self, times: Times, timeout: float) -> Steps[dict[TopicPartition, ListedOffset | None]]:
        if not isinstance(times, Mapping):
            raise TypeError(f"offsets_for_times takes a mapping of partitions to times, not {shown(times)}")
        wanted = {topic_partition(item): as_timestamp(time) for item, time in times.items()}
        found = yield from self._listed("offsets_for_times", wanted, timeout)
        return {tp: None if one.offset is None else one for tp, one in found.items()}

    def specs(self, what: str, specs: Mapping[TopicPartition, Any], timeout: float) -> Steps[dict[TopicPartition, int | None]]:
        """The offset of each partition for an end of its log or a time in milliseconds; None if all records are older.

        `what` names the call in messages.
        """
        if not specs:
            return {}
        found = yield from self._listed(what, dict(specs), timeout)
        return {tp: one.offset for tp, one in found.items()}

    def _listed(
        self, what: str, times: dict[TopicPartition, Any], timeout: float, isolation_level: str | None = None
    ) -> Steps[dict[TopicPartition, ListedOffset]]:
        """`isolation_level=None` means the level of the consumer.

        Raises the partition's error if `times` has only one partition, PartialFailure if any of several partitions fails.
        """
        self._attachment.check()
        answers = self._attachment.runtime.calls.list_offsets(times, timeout, isolation_level or self._config.isolation_level)
        try:
            yield from self._waits.result(answers.promise, timeout + LOOP_ANSWER_S)
            found = answers.result()
        finally:
            answers.end()
        errors: dict[TopicPartition, KafkaError] = {tp: one.error for tp, one in found.items() if one.error is not None}
        if len(errors) == 1 == len(found):
            raise next(iter(errors.values())).again()
        if errors:
            raise PartialFailure.of(
                f"{what}: {len(errors)} of {len(found)} partitions failed; Client.list_offsets returns the other offsets", errors
            )
        return found
