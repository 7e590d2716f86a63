"""Deletes records, and lists offsets of logs. Invariant: each partition has its own outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pykafka4.admin.calls import AdminCalls, require_all_done
from pykafka4.client.calls import Times, listing
from pykafka4.core.admin.records import DeleteRecords
from pykafka4.core.admin.values import ListedOffset, OffsetSpec
from pykafka4.errors import ConfigError, shown
from pykafka4.misuse import check_count, topic_partition
from pykafka4.records import TopicPartition

__all__ = ["RecordCalls"]


class RecordCalls(AdminCalls):
    def delete_records(self, offsets: Mapping[Any, int | OffsetSpec], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Delete the records before an offset: `{("orders", 0): 1000}`. Returns the first remaining offset of each log.

        LATEST deletes all records up to the high watermark. An offset before the start of the log changes nothing. Raises
        BrokerError OFFSET_OUT_OF_RANGE (beyond the end), POLICY_VIOLATION (cleanup.policy is compact, without delete),
        UNKNOWN_TOPIC_OR_PARTITION; AuthorizationError (DELETE), KafkaTimeoutError; PartialFailure with the other partitions in `done`.
        Source: KIP-107, Kafka 0.11.
        """
        if not isinstance(offsets, Mapping):
            raise ConfigError(f"offsets={shown(offsets)}: takes a mapping of partitions to offsets, or to LATEST")
        wanted = {(tp := topic_partition(item)): _before(tp, at) for item, at in offsets.items()}
        deadline = self._begin(timeout)
        question = DeleteRecords(wanted, int(min(deadline.left * 1000, self._session.config.request_timeout_ms)))
        return require_all_done("records cannot be deleted", self._session.ask_leaders(question, wanted, deadline).wait())

    def list_offsets(
        self,
        times: Times,
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Return offsets by name or by time: `{("orders", 0): EARLIEST, ("orders", 1): aware_datetime}`. See `Client.list_offsets`."""
        begin = listing(times, isolation_level)
        return self._session.ask(begin, self._begin(timeout)).wait()


def _before(tp: TopicPartition, at: int | OffsetSpec) -> int:
    if isinstance(at, OffsetSpec):
        if at is not OffsetSpec.LATEST:
            raise ConfigError(f"the offset of {tp}: no record can be deleted before {at.name}; give an offset, or LATEST for all records")
        return int(at.value)
    return check_count(at, f"the offset of {tp}")
