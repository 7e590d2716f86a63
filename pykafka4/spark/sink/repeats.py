"""Compares a repeated exactly-once job or micro-batch with its first run, on the driver. Invariants: a job whose end `find_end` finds
writes nothing; `difference` reports a repetition of an unfinished run if a skipped partition has another number of rows, or if there is a
token of the partition after the last one.

Tokens belong to Spark's partitions. An unfinished run may be repeated with other partitions (another number of executors or
`minPartitions`, a changed input). Rows that move from an uncommitted partition into a committed one, which is skipped, are then lost;
rows that move from a committed partition into an uncommitted one are written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from pykafka4.options.config import ProducerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.spark.sink.exactly_once import (
    ANY_TOPIC,
    PREFIX,
    Committed,
    CommitToken,
    Skipped,
    WriteUnit,
    find_token,
    is_written,
    once_client,
)
from pykafka4.spark.sink.options import Delivery, SinkOptions

__all__ = ["Repeated", "difference", "find_end", "note_end"]

Messages = Sequence[WriterCommitMessage | None]
SAME: Final = (
    "exactly_once needs the same rows in the same partitions when a job or micro-batch is repeated; some rows may be lost, or written twice"
)


@attrs.frozen
class Repeated(WriterCommitMessage):
    """The result of a task that wrote nothing, because an earlier run has ended the job."""

    rows: int


def difference(sink: SinkOptions, messages: Messages) -> str | None:
    """The difference between this run and an earlier unfinished run that had committed some partitions; None if none is found.

    The earlier run may have had more partitions. A batch job with rows looks for the token of the partition after its last one even if no
    partition was skipped, because all partitions that the earlier run has committed may be beyond the last one. A micro-batch does so only
    if one of its partitions was skipped: only the first micro-batch after a restart can be a repetition, and each lookup sends requests.

    Not found: an earlier run without rows in the partition after the last one, but with rows in later partitions; and tokens of partitions
    that have no rows now. Lookups for all of them would take requests for each empty partition, hundreds after a shuffle.
    """
    repeated = [each for each in messages if isinstance(each, Skipped) and not each.same_run]
    for each in repeated:
        if each.rows != each.offered:
            return f"{each.unit}: rows committed before: {each.rows}, rows now: {each.offered}; {SAME}"
    for one in (repeated or _of_job(sink, messages))[:1]:
        beyond = attrs.evolve(one.unit, partition=len(messages))
        token = _find(sink, beyond.name, one.token_partition)
        if token is not None and token.number >= beyond.number:
            return f"{beyond}: rows committed before: {token.rows}, and the number of partitions is only {len(messages)} now; {SAME}"
    return None


def note_end(sink: SinkOptions, messages: Messages) -> None:
    """Commit a token that marks a batch job with rows as ended.

    A micro-batch needs no such token, because Spark records its end.
    """
    if done := _of_job(sink, messages):
        unit = done[0].unit
        _store(sink, unit.job, done[0].token_partition, CommitToken(unit.number, sum(each.rows for each in done), sink.run).offset())


def find_end(sink: SinkOptions) -> CommitToken | None:
    """The token that marks this batch job as ended; None if there is none."""
    unit = _job(sink)
    token = None if unit is None else _find(sink, unit.job, None)
    return token if token is not None and unit is not None and is_written(unit, token) else None


def _job(sink: SinkOptions) -> WriteUnit | None:
    """The unit of a batch job with a key; None without a key. Units of a streaming query have other names, with the id of the query."""
    if sink.delivery is not Delivery.EXACTLY_ONCE or sink.idempotency_key is None:
        return None
    return WriteUnit(sink.transactional_id_prefix or PREFIX, sink.idempotency_key, sink.topic or ANY_TOPIC, 0, sink.batch_id or 0)


def _of_job(sink: SinkOptions, messages: Messages) -> list[Committed | Skipped]:
    """The results of the tasks of a batch job with a key; none in a micro-batch."""
    unit = _job(sink)
    done = [each for each in messages if isinstance(each, (Committed, Skipped))]
    return [] if unit is None else [each for each in done if each.unit.job == unit.job]


def _find(sink: SinkOptions, group: str, token_partition: TopicPartition | None) -> CommitToken | None:
    return find_token(once_client(sink.client), group, token_partition if sink.topic else None, _patience(sink))


def _store(sink: SinkOptions, group: str, token_partition: TopicPartition, offset: OffsetAndMetadata) -> None:
    for result in once_client(sink.client).commit_offsets(group, {token_partition: offset}, _patience(sink)).values():
        if result.error is not None:
            raise result.error


def _patience(sink: SinkOptions) -> float:
    return ProducerConfig.parse(sink.client).delivery_timeout_ms / 1000
