"""Fetches records by offset, without a fetch session. Invariant: each partition gets a result or an error; fetches share no state.

The loop reads only headers of batches; `decode_all` makes the records, on a helper thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.offsets import PartitionQuestion, by_topic
from pykafka4.core.admin.question_run import NEXT_REQUEST, Lane, Refusal
from pykafka4.core.admin.values import FetchedPartition
from pykafka4.errors import BrokerError, CorruptRecord, DecodeError, KafkaError, RecordTooLarge
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.frame import FrameTooLarge
from pykafka4.wire.protocol.messages_fetch import FetchRequest
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk, Record
from pykafka4.wire.records.layout import INT64_MAX

__all__ = ["Fetch", "FetchFrom", "FetchLimits", "UndecodedPartition", "decode_all"]

CLIENT: Final = -1  # the replica id of clients
OUT_OF_RANGE: Final = BY_NAME["OFFSET_OUT_OF_RANGE"].code
LAST_NAME_VERSION: Final = 12  # the last version of Fetch with topic names
FRAME_BYTES: Final = 4_096  # bytes allowed for a response, in addition to its partitions
MANY: Final = 2**31 - 1  # a number of records that limits nothing
PER_PARTITION_BYTES: Final = 256  # bytes allowed for a partition in a response, in addition to its records


@attrs.frozen
class FetchFrom:
    """The offset to fetch from, and the limit for the bytes of the partition.

    A first batch over this limit is returned whole, unless it is too large for `FetchLimits.max_response`.
    """

    offset: int
    max_bytes: int


@attrs.frozen
class FetchLimits:
    """The limits of a fetch. `isolation`: 0 for all records, 1 for records outside of transactions and in committed transactions."""

    max_wait_ms: int
    min_bytes: int
    isolation: int
    max_response: int  # bytes, receive_message_max_bytes
    max_decompressed: int  # bytes of one batch; also `most` of `decode_all`


@attrs.frozen
class UndecodedPartition:
    """The outcome of a partition, with undecoded records. With an error, `chunk` is None."""

    fetched: FetchedPartition
    chunk: Chunk | None = None

    def lacks_room(self, isolation: int) -> bool:
        fetched, chunk = self.fetched, self.chunk
        end = fetched.last_stable_offset if isolation else fetched.high_watermark
        return chunk is not None and not chunk.size and end is not None and fetched.next_offset < end


class Fetch(PartitionQuestion):
    """The question about batches of partitions."""

    api = "Fetch"
    max_version = LAST_NAME_VERSION

    def __init__(self, wanted: Mapping[TopicPartition, FetchFrom], limits: FetchLimits) -> None:
        super().__init__()
        self._wanted, self._limits = dict(wanted), limits
        self._grew = False  # whether the last response has raised `max_bytes` of a partition
        self.lane = Lane.FETCH if limits.max_wait_ms else Lane.PROMPT
        self.wait_s = limits.max_wait_ms / 1000

    def message(self, keys: Sequence[TopicPartition]) -> FetchRequest:
        room = self._limits.max_response - FRAME_BYTES - PER_PARTITION_BYTES * len(keys)
        topics = [FetchRequest.Topic(topic=name, partitions=[self._part(tp) for tp in tps]) for name, tps in by_topic(keys).items()]
        return FetchRequest(
            replica_id=CLIENT,
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=self._limits.min_bytes,
            max_bytes=max(1, min(room, sum(self._wanted[tp].max_bytes for tp in keys))),
            isolation_level=self._limits.isolation,
            topics=topics,
            forgotten_topics_data=[],
        )

    def _part(self, tp: TopicPartition) -> FetchRequest.Topic.Partition:
        wanted = self._wanted[tp]
        return FetchRequest.Topic.Partition(partition=tp.partition, fetch_offset=wanted.offset, partition_max_bytes=wanted.max_bytes)

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, UndecodedPartition | Refusal]:
        """If the response had no room for the next batch of a partition, the partition gets another request."""
        if reply.message.error_code:
            return dict.fromkeys(keys, Refusal(reply.message.error_code))
        found: dict[TopicPartition, UndecodedPartition | Refusal] = {}
        self._grew = False
        for topic in reply.message.responses:
            for row in topic.partitions:
                tp = TopicPartition(topic.topic, row.partition_index)
                if row.error_code:
                    found[tp] = Refusal(row.error_code)
                elif tp in self._wanted:
                    found[tp] = self._fetched(tp, row)
        if any(isinstance(one, UndecodedPartition) and one.chunk is not None and one.chunk.size for one in found.values()):
            for tp, one in found.items():
                if isinstance(one, UndecodedPartition) and one.lacks_room(self._limits.isolation):
                    found[tp] = NEXT_REQUEST
        if not self._grew and found and all(one is NEXT_REQUEST for one in found.values()):
            # Brokers return a first batch whole (KIP-74). A broker that returned only a part would get the same request again and again.
            found.update((tp, self._broken(tp, "the broker returned only a part of the next batch")) for tp in found)
        return found

    def _broken(self, tp: TopicPartition, reason: str) -> UndecodedPartition:
        offset = self._wanted[tp].offset
        return UndecodedPartition(FetchedPartition(tp, offset, error=CorruptRecord(*tp, offset, reason)))

    def failed(self, keys: Sequence[TopicPartition], reason: KafkaError) -> Mapping[TopicPartition, UndecodedPartition] | None:
        """Divide a request whose response exceeded the limit; if only one partition remains, report its next batch as too large.

        The request allowed less than the limit, so as a rule the excess comes from a batch that the broker returned whole.
        """
        cause = reason.__cause__
        if not isinstance(cause, FrameTooLarge):
            return None
        return {tp: self._too_large(tp, f"needs a response of {cause.size:,} bytes") for tp in keys if len(keys) == 1}

    def _too_large(self, tp: TopicPartition, size: str) -> UndecodedPartition:
        offset, limit = self._wanted[tp].offset, f"receive_message_max_bytes={self._limits.max_response}"
        error = RecordTooLarge.fetched(*tp, offset, f"the next batch {size}, too many for {limit}; raise that option to read it")
        return UndecodedPartition(FetchedPartition(tp, offset, error=error))

    def error(self, key: TopicPartition, refusal: Refusal) -> BrokerError:
        """An error for an offset out of range names the offset and the way out."""
        detail = f"offset {self._wanted[key].offset} is not in the log; list_offsets returns its ends, EARLIEST and LATEST"
        return super().error(key, Refusal(refusal.code, detail) if refusal.code == OUT_OF_RANGE else refusal)

    def _fetched(self, tp: TopicPartition, row: Any) -> UndecodedPartition | Refusal:
        wanted = self._wanted[tp]
        high, stable, start = (None if end < 0 else end for end in (row.high_watermark, row.last_stable_offset, row.log_start_offset))
        fetched = FetchedPartition(tp, wanted.offset, (), high, stable, start)
        aborted = (row.aborted_transactions or ()) if self._limits.isolation else ()
        try:
            chunk = Chunk(
                *tp,
                row.records or b"",
                wanted.offset,
                decompress=_decompress,
                max_decompressed=self._limits.max_decompressed,
                aborted=[(transaction.producer_id, transaction.first_offset) for transaction in aborted],
                high_watermark=INT64_MAX if high is None else high,
            )
        except DecodeError as error:
            return UndecodedPartition(attrs.evolve(fetched, error=CorruptRecord(*tp, wanted.offset, str(error))))
        if chunk.incomplete > self._limits.max_response - FRAME_BYTES - PER_PARTITION_BYTES:
            return self._too_large(tp, f"has {chunk.incomplete:,} bytes")
        if chunk.incomplete:  # the response ends within the next batch: the next request leaves room for it
            if wanted.max_bytes < chunk.incomplete:
                self._wanted[tp], self._grew = attrs.evolve(wanted, max_bytes=chunk.incomplete), True
            return NEXT_REQUEST
        return UndecodedPartition(fetched, chunk)


def _decompress(codec: int, data: Any, max_size: int) -> bytes:
    return decompress(codec, bytes(data), max_size)


def decode_all(
    wanted: Mapping[TopicPartition, FetchFrom], most: int, found: Mapping[TopicPartition, UndecodedPartition | KafkaError]
) -> dict[TopicPartition, FetchedPartition]:
    """Replace chunks with their records. After about `most` bytes in memory, no more records are decoded."""
    outcomes: dict[TopicPartition, FetchedPartition] = {}
    for tp, one in found.items():
        if isinstance(one, KafkaError):
            outcomes[tp] = FetchedPartition(tp, wanted[tp].offset, error=one)
        elif one.chunk is not None:
            outcomes[tp], taken = _decoded(one.fetched, one.chunk, most)
            most -= taken
        else:
            outcomes[tp] = one.fetched
    return outcomes


def _decoded(fetched: FetchedPartition, chunk: Chunk, most: int) -> tuple[FetchedPartition, int]:
    """Return (`fetched` with its records, their size in memory). Records before a corrupt batch are returned without the error."""
    records: list[Record] = []
    taken = 0
    try:
        while taken < most and chunk.decode(records, MANY, most - taken):
            taken += chunk.decoded
    except KafkaError as error:
        if not records:
            return attrs.evolve(fetched, error=error), 0
    after = max(chunk.position, chunk.next_offset) if chunk.exhausted else chunk.position
    return attrs.evolve(fetched, records=tuple(records), next_offset=after), taken
