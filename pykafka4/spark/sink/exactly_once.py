"""Delivers the Arrow batches of a task in one transaction. Invariant: rows and their token are committed together, and only while no later
attempt of the task has begun.

The token is an offset that is committed with the rows, in a consumer group that only the tasks of one Spark partition use. An attempt
begins with `init_transactions`, which aborts the open transaction of an earlier attempt (a zombie, or the twin of a speculative task). From
then on no earlier attempt can commit. Then the attempt looks the token up. If an earlier attempt has committed before `init_transactions`,
the lookup finds its token; if the earlier attempt tries to commit afterwards, its commit fails as fenced.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from pykafka4.errors import ConfigError, KafkaError, ProducerFencedError
from pykafka4.errors.frames import guarded
from pykafka4.options.config import ProducerConfig
from pykafka4.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pykafka4.spark.options import split_options
from pykafka4.spark.outcomes import wait
from pykafka4.spark.sink.options import SinkOptions
from pykafka4.spark.sink.task import Written, send_batches
from pykafka4.spark.workers import client_for, discard, with_linger

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka4.client.client import Client
    from pykafka4.producer import Producer

__all__ = ["Committed", "Skipped", "CommitToken", "WriteUnit", "find_token", "is_written", "once_client", "write_once"]

log = logging.getLogger("pykafka4.spark")

TRANSACTION_TIMEOUT_MS: Final = 900_000  # the brokers' default maximum: a transaction is open while Spark computes the rows of the task
ABORT_S: Final = 5.0  # seconds for an abort after an error; short, because the next attempt's `init_transactions` also aborts
PREFIX: Final = "pykafka4"
ANY_TOPIC: Final = "*"  # in the names of units without the option `topic`; no topic can have this name
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # local properties that Spark sets for the tasks of a micro-batch


@attrs.frozen
class WriteUnit:
    """The rows of one Spark partition in one job or micro-batch, which are written once."""

    prefix: str
    work: str  # the key of a batch job, the id of a query, or both
    topic: str
    partition: int  # the number of Spark's partition
    number: int  # the number of the micro-batch; 0 if there is none

    @property
    def name(self) -> str:
        """The transactional id of its tasks, and the group of its token. Writes of a query have different names if `topic` differs."""
        return f"{self.job}:{self.partition}"

    @property
    def job(self) -> str:
        """The group of the token that marks a batch job as ended."""
        return f"{self.prefix}:{self.work}:{self.topic}"

    def __str__(self) -> str:
        return f"{self.name}, batch {self.number}"


@attrs.frozen
class CommitToken:
    """The proof that rows are written. An attempt commits a token together with its rows; `note_end` commits one for a whole batch job."""

    number: int  # the number of the micro-batch
    rows: int
    run: str  # the run of the job that has written the token, see SinkOptions.run

    def offset(self) -> OffsetAndMetadata:
        """The offset is the number of the micro-batch, so that tools for groups show it."""
        return OffsetAndMetadata(self.number, -1, json.dumps({"rows": self.rows, "run": self.run}))

    @classmethod
    def of(cls, committed: OffsetAndMetadata) -> CommitToken:
        """Raises ConfigError for an offset that something else has committed."""
        try:
            more = json.loads(committed.metadata)
            return cls(committed.offset, int(more["rows"]), str(more["run"]))
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f"a committed offset has the metadata {committed.metadata!r}, which delivery=exactly_once has not written: another "
                "application uses the group; set transactionalIdPrefix to a prefix of your own"
            ) from None


@attrs.frozen
class Committed(Written):
    unit: WriteUnit
    token_partition: TopicPartition  # the partition under which the token is committed


@attrs.frozen
class Skipped(WriterCommitMessage):
    """The result of a task whose rows an earlier attempt had committed."""

    unit: WriteUnit
    token_partition: TopicPartition
    rows: int  # the number that the earlier attempt has committed
    offered: int  # the number in this attempt
    same_run: bool  # whether both attempts have the same `SinkOptions.run`; otherwise the job or micro-batch was repeated

    def __str__(self) -> str:
        differ = f" with another number of rows, {self.rows}" if self.rows != self.offered else ""
        return f"{self.unit}: skipped rows: {self.offered}; an earlier attempt has committed this partition{differ}"


def unit_of(sink: SinkOptions) -> WriteUnit:
    """Raises ConfigError outside of a task, and for a batch job without a key."""
    context = TaskContext.get()
    if context is None:
        raise ConfigError("delivery=exactly_once: only tasks of Spark can write rows")
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    work = ":".join(part for part in (sink.idempotency_key, query) if part)
    if not work:
        raise ConfigError(
            "delivery=exactly_once of a batch job needs the option idempotencyKey: a text that stays the same when the job is repeated, "
            "and that no other job has, such as 'orders-2026-11-28' (with foreach_batch: the argument name)"
        )
    number = int(batch or 0) if sink.batch_id is None else sink.batch_id
    prefix = sink.transactional_id_prefix or PREFIX
    return WriteUnit(prefix, work, sink.topic or ANY_TOPIC, context.partitionId(), number)


@guarded
def write_once(sink: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Written | Skipped:
    """Deliver and commit each row, or raise the first failure. Write nothing if an earlier attempt has committed the rows.

    After an error of the commit itself, the rows may be committed: the next attempt looks for the token.
    """
    unit = unit_of(sink)
    rows = (batch for batch in batches if batch.num_rows)
    for first in rows:  # runs at most once, because the body returns; an empty partition needs no producer
        topic = sink.topic or first_topic(first)
        return _write(sink, unit, TopicPartition(topic, 0), chain((first,), rows))
    return Written({})


def first_topic(batch: pa.RecordBatch) -> str:
    from pykafka4.spark.sink.topics import by_topic  # here: it imports pyarrow, which the driver does not need for the results of tasks

    return next(by_topic(batch.slice(0, 1), ()))[0]


def _write(sink: SinkOptions, unit: WriteUnit, token_partition: TopicPartition, batches: Iterator[pa.RecordBatch]) -> Written | Skipped:
    patience = ProducerConfig.parse(sink.client).delivery_timeout_ms / 1000
    with transactional(sink.client, unit, patience) as (client, producer):
        token = find_token(client, unit.name, token_partition if sink.topic else None, patience)
        if token is not None and is_written(unit, token):
            skipped = Skipped(unit, token_partition, token.rows, sum(batch.num_rows for batch in batches), token.run == sink.run)
            log.warning("%s", skipped)
            return skipped
        with committing(producer, patience):
            counts = send_batches(producer, sink, batches)
            offset = CommitToken(unit.number, sum(counts.values()), sink.run).offset()
            producer.send_offsets_to_transaction({token_partition: offset}, ConsumerGroupMetadata(unit.name), patience)
            wait(producer, patience)
    return Committed(counts, unit, token_partition)


@contextlib.contextmanager
def transactional(options: Mapping[str, Any], unit: WriteUnit, patience: float) -> Iterator[tuple[Client, Producer]]:
    """The worker's client, and a producer for this unit that has fenced the producers of earlier attempts.

    Each attempt has a new producer, and so has the next micro-batch: a kept producer would need `init_transactions` all the same.
    """
    client, others = once_client(options), split_options(with_linger(options))[1]
    from pykafka4.producer import Producer  # here: commits on the driver need no producer

    producer = Producer(client, transactional_id=unit.name, **{"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, **others})
    try:
        producer.init_transactions(patience)
        yield client, producer
    except ProducerFencedError as error:
        error.add_note(
            f"{unit}: another attempt of this task has begun, or this attempt took longer than transaction_timeout_ms (option "
            "kafka.transaction.timeout.ms). The next attempt finds out whether this attempt has committed; Spark repeats the task if "
            "necessary"
        )
        raise
    finally:
        discard(producer)


def once_client(options: Mapping[str, Any]) -> Client:
    return client_for(split_options(options)[0])


def find_token(client: Client, group: str, token_partition: TopicPartition | None, patience: float) -> CommitToken | None:
    """Find the newest token that a group has committed under `token_partition`; None if the group has no token. With `token_partition=None`
    the token may be under any topic: the first row chooses the topic, and the earlier attempt may have had its rows in another order.
    Raises the error of a partition, and ConfigError for an offset that something else has committed.

    `require_stable`: the coordinator may have decided the commit of an attempt that was just fenced, but not have made it visible yet.
    Without `require_stable`, the OffsetFetch would miss this token, and the rows would be written twice.
    """
    found = client.committed_offsets(group, None if token_partition is None else [token_partition], patience, require_stable=True)
    for one in found.values():
        if one.error is not None:
            raise one.error
    tokens = [CommitToken.of(one.committed) for one in found.values() if one.committed is not None]
    return max(tokens, key=lambda token: token.number, default=None)


def is_written(unit: WriteUnit, token: CommitToken) -> bool:
    """Whether `token` proves that this unit is written. Raises ConfigError for the token of a later micro-batch.

    Spark begins a micro-batch when the previous one has ended. So, unless this attempt is a zombie, a later token comes from another query,
    or from a time before the checkpoint was set back. The token's number may stand for other rows: some rows could be lost if this unit
    were skipped, and some could be in the log twice if it were written.
    """
    if token.number > unit.number:
        raise ConfigError(
            f"{unit}: batch {token.number} is committed under this name already, so the checkpoint was set back, or another query has the "
            "name: rows may be missing or be written twice. Nothing is written; to write from here on, set another transactionalIdPrefix "
            "or idempotencyKey (with foreach_batch: transactional_id_prefix or name)"
        )
    return token.number == unit.number


@contextlib.contextmanager
def committing(producer: Producer, patience: float) -> Iterator[None]:
    """A `with` block that is one transaction. Unlike `Producer.transaction`, it does not wait long for the abort after an error.

    A leader refuses the records of a fenced producer with the same error as the records of an aborted transaction. Only the coordinator
    knows the difference, so its response to the abort decides which error is raised.
    """
    producer.begin_transaction()
    try:
        yield
        producer.commit_transaction(patience)
    except ProducerFencedError:
        raise
    except BaseException as error:
        fenced = abort(producer)
        if fenced is not None and isinstance(error, KafkaError):
            raise fenced from error
        raise


def abort(producer: Producer) -> ProducerFencedError | None:
    """Abort the transaction; return the error if the producer is fenced."""
    try:
        producer.abort_transaction(ABORT_S)
    except ProducerFencedError as fenced:
        return fenced
    except KafkaError:
        return None  # the next attempt's `init_transactions` aborts it, or after transaction_timeout_ms the coordinator does
    return None
