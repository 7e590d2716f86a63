"""Applies Fetch responses to positions. Invariant: the records and the error of a partition in a response apply only to a position that is
still read, at the requested offset.

So two brokers that both believe that they lead a partition cannot cause duplicates. Data goes to the application undecoded. After most
errors a partition waits for a new leader or a backoff; errors that neither can cure are raised as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from pykafka4.core import Failed, Outcome
from pykafka4.core.backoff import Backoff
from pykafka4.core.consumer.fetch_session import RequestedPartition
from pykafka4.core.consumer.followers import Followers
from pykafka4.core.consumer.losses import Losses
from pykafka4.core.consumer.positions import Positions
from pykafka4.core.consumer.source import Answer, InFlightFetch, Source
from pykafka4.core.consumer.start_offsets import StartOffsets
from pykafka4.core.consumer.tails import Tails
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.subscription import PartitionBackoff, Position, Stage, Start
from pykafka4.core.timers import Timers
from pykafka4.errors import CorruptRecord, DecodeError, KafkaError, RecordTooLarge, broker_error
from pykafka4.errors.codes import ErrorCode, Refresh, error_code
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.frame import FrameTooLarge
from pykafka4.wire.protocol.messages_fetch import FetchResponse
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk
from pykafka4.wire.records.layout import INT64_MAX

__all__ = ["MOST_CUT_OFF", "FetchAnswers"]

# After this many responses in a row without one complete batch, the partition is fetched alone. A few are normal: other partitions of
# a Fetch can use up the room. In a Fetch of a single partition, brokers return the first batch whole (KIP-74): if even then the batch is
# cut off, the broker will never return all of it.
MOST_CUT_OFF: Final = 3


class FetchAnswers:
    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        recovery: Recovery,
        positions: Positions,
        start_offsets: StartOffsets,
        followers: Followers,
        losses: Losses,
        timers: Timers,
        random: Random,
        tails: Tails,
    ) -> None:
        self._config, self._cluster, self._recovery, self._tails = config, cluster, recovery, tails
        self._positions, self._start_offsets, self._timers, self._random = positions, start_offsets, timers, random
        self._followers, self._losses = followers, losses

    def apply(self, now: float, source: Source, fetch: InFlightFetch, outcome: Outcome) -> None:
        if source.conclude(now, fetch, outcome):
            return
        if isinstance(outcome, Failed):
            self._failed(now, source, fetch, outcome)
            return
        source.undecodable = False
        if fetch.alone:
            self._asked_alone(source, fetch)
        response: FetchResponse = outcome.message
        if response.error_code:
            error = broker_error(response.error_code, "Fetch")
            self._unanswered(now, source, fetch, error, error_code(response.error_code).retriable)
            return
        endpoints = {e.node_id: (e.host, e.port) for e in response.node_endpoints}
        if not fetch.incremental:
            # The first partition of a full Fetch has had its chance: a broker returns its first batch whole.
            self._positions.move_to_end(next(iter(fetch.asked)))
        for position, offset, answer in source.read(fetch, response):
            if answer.records:
                self._positions.move_to_end(position.tp)
            if not answer.error_code:
                self._note_end(position, answer)  # even if the records are ignored: a session does not repeat the end
            if self._awaits(position, offset):
                self._answered(now, fetch, position, answer, endpoints)
        if source.bounded:
            self._confirm(fetch)
            self._tails.answered(fetch, response)

    def _note_end(self, position: Position, answer: Answer) -> None:
        """Note the offset up to which this consumer can read. Kafka up to 0.10 has no last stable offset, and no transactions."""
        if position.is_unconfirmed:
            self._positions.touch(position.tp)
        stable = answer.last_stable_offset
        if not self._config.reads_committed or stable < 0:
            position.claim.end = answer.high_watermark
        else:
            position.claim.end = stable
            position.behind_open = max(0, answer.high_watermark - stable)

    def _confirm(self, fetch: InFlightFetch) -> None:
        """Confirm the offsets of requested partitions that have no error, even if the response omits these partitions.

        In a session, a response omits partitions without news, and an error is news.
        """
        for asked in fetch.asked.values():
            position = asked.position
            if position.is_unconfirmed and not position.reported and self._awaits(position, asked.offset):
                position.claim.end = max(0, position.end_before)
                self._positions.touch(position.tp)

    def _awaits(self, position: Position, offset: int) -> bool:
        return self._positions.is_current(position) and position.offset == offset and position.stage is Stage.FETCHING

    # ---------------------------------------------------------------- errors of the whole request

    def _failed(self, now: float, source: Source, fetch: InFlightFetch, outcome: Failed) -> None:
        cause = outcome.reason.__cause__
        if isinstance(cause, FrameTooLarge):
            self._too_large(source, fetch, cause.size)
            return
        passing = outcome.passing
        if isinstance(cause, DecodeError):  # corruption in transit does not repeat, so retry once, then report
            passing = not source.undecodable
            source.undecodable = True
        self._unanswered(now, source, fetch, outcome.reason, passing)

    def _unanswered(self, now: float, source: Source, fetch: InFlightFetch, reason: KafkaError, passing: bool) -> None:
        """Handle a failure as an error of each requested partition. If a retry cannot help, `poll` raises at most one error for all."""
        waiting = list[Position]()
        for position in [asked.position for asked in fetch.asked.values() if self._positions.is_current(asked.position)]:
            if self._followers.serves(position, source.node):
                self._followers.leave(now, position, reason)
            else:
                waiting.append(position)
                self._report(now, source.node, position, reason)
        if waiting and not passing:
            self._positions.tell_once(waiting[0], reason)

    def _too_large(self, source: Source, fetch: InFlightFetch, size: int) -> None:
        """Handle a response over the size limit. Less was requested, so the first batch of one partition is larger than requested.

        Then each partition is requested alone, once. The partition with the large batch stops with RecordTooLarge.
        """
        limit = f"receive_message_max_bytes={self._config.receive_message_max_bytes}"
        reason = f"the next batch needs a response of {size:,} bytes, which exceeds {limit}; raise that option to read it"
        if not fetch.alone:
            source.alone.update((tp, None) for tp in fetch.asked if tp in source.positions)
            return
        asked = self._asked_alone(source, fetch)
        tp = asked.position.tp
        if self._awaits(asked.position, asked.offset):
            self._positions.stop(asked.position, RecordTooLarge.fetched(tp.topic, tp.partition, asked.offset, reason))

    def _asked_alone(self, source: Source, fetch: InFlightFetch) -> RequestedPartition:
        """Return the only partition of `fetch`; it need not be fetched alone again."""
        ((tp, asked),) = fetch.asked.items()
        source.alone.pop(tp, None)
        return asked

    # ---------------------------------------------------------------- one partition of a response

    def _answered(
        self, now: float, fetch: InFlightFetch, position: Position, answer: Answer, endpoints: Mapping[int, tuple[str, int]]
    ) -> None:
        if answer.current_leader.leader_id >= 0:
            hinted = answer.current_leader
            self._cluster.hint(position.tp, hinted.leader_id, hinted.leader_epoch, endpoints.get(hinted.leader_id))
        row, node = error_code(answer.error_code), fetch.source.node
        if self._followers.serves(position, node) and (row.code or answer.diverging_epoch.epoch >= 0):
            what = f"fetching {position.tp} at offset {position.offset}"
            reason = broker_error(row.code, what, None, "Fetch") if row.code else KafkaError(f"{what}: the follower's log diverges")
            self._followers.leave(now, position, reason)
            return
        if (row.name == "OFFSET_OUT_OF_RANGE" or answer.diverging_epoch.epoch >= 0) and not self._followers.leads(position, node):
            return
        if row.code:
            ERRORS.get(row.name, FetchAnswers._by_error_table)(self, now, node, position, row)
            return
        if position.reported:
            position.reported = False
            self._recovery.healthy(position.tp)
        position.own_backoff, position.corruption_reported = None, False
        if answer.diverging_epoch.epoch >= 0:
            # The log was truncated below the position.
            agreed = answer.diverging_epoch
            raises = self._start_offsets.policy is Start.NONE
            if not raises:
                self._losses.truncated(position, max(agreed.end_offset, 0))
            self._positions.truncate(position, max(agreed.end_offset, 0), agreed.epoch, raises=raises)
            return
        if answer.preferred_read_replica >= 0:
            self._followers.choose(now, position, answer.preferred_read_replica)
        if answer.records and position.offset < position.claim.until:
            self._take(fetch, position, answer)

    def _take(self, fetch: InFlightFetch, position: Position, answer: Answer) -> None:
        tp = position.tp
        aborted = (answer.aborted_transactions or ()) if self._config.reads_committed else ()
        try:
            chunk = Chunk(
                tp.topic,
                tp.partition,
                answer.records or b"",
                position.offset,
                serial=position.claim,
                decompress=_decompress,
                max_decompressed=self._config.max_decompressed_bytes,
                aborted=[(transaction.producer_id, transaction.first_offset) for transaction in aborted],
                high_watermark=answer.high_watermark if answer.high_watermark >= 0 else INT64_MAX,
                until=position.claim.until,
            )
        except DecodeError as error:
            self._positions.stop(position, CorruptRecord(tp.topic, tp.partition, position.offset, str(error)))
            return
        if chunk.exhausted and chunk.next_offset < position.claim.until:
            self._cut_off(fetch, position, chunk.incomplete)
            return
        position.cut_off = 0
        position.limit = self._config.max_partition_fetch_bytes  # the normal limit again, after a large batch
        self._positions.deliver(position, chunk)

    def _cut_off(self, fetch: InFlightFetch, position: Position, size: int) -> None:
        """Next time, request all of the incomplete first batch.

        Stop if the batch exceeds receive_message_max_bytes, or if the broker never returns all of it.
        """
        (topic, partition), limit = position.tp, self._config.receive_message_max_bytes
        if size > limit:
            reason = f"the next batch has {size:,} bytes, which exceeds receive_message_max_bytes={limit}; raise that option to read it"
            self._positions.stop(position, RecordTooLarge.fetched(topic, partition, position.offset, reason))
            return
        position.cut_off += 1
        if position.cut_off > MOST_CUT_OFF and len(fetch.asked) == 1 and fetch.asked[position.tp].limit >= size:
            reason = f"the broker returns only a part of a batch of {size:,} bytes, again and again"
            self._positions.stop(position, CorruptRecord(topic, partition, position.offset, reason))
            return
        if position.cut_off >= MOST_CUT_OFF and position.tp in fetch.source.positions:
            fetch.source.alone[position.tp] = None
        position.limit = max(position.limit, size)
        self._positions.touch(position.tp)

    # ---------------------------------------------------------------- error codes

    def _by_error_table(self, now: float, node: int, position: Position, row: ErrorCode) -> None:
        """Wait for a new leader or a backoff; an error that neither can cure is raised as well."""
        error = broker_error(row.code, f"fetching {position.tp} at offset {position.offset}", None, "Fetch", topic=position.tp.topic)
        if row.refresh is Refresh.METADATA:
            self._report(now, node, position, error)
        else:
            self._back_off(now, position, error)
        if not row.retriable and row.name != "UNKNOWN_SERVER_ERROR":
            self._positions.tell_once(position, error)

    def _damaged(self, now: float, node: int, position: Position, row: ErrorCode) -> None:
        """The leader cannot read its log. Another leader may have an intact log, so retry; `poll` does not raise the error every time."""
        self._by_error_table(now, node, position, row)
        if not position.corruption_reported:
            position.corruption_reported = True
            what = f"fetching {position.tp} at offset {position.offset}: the leader's log is corrupt"
            self._positions.tell_once(position, broker_error(row.code, what))

    def _out_of_range(self, now: float, node: int, position: Position, row: ErrorCode) -> None:
        self._start_offsets.out_of_range(position)

    def _report(self, now: float, node: int, position: Position, reason: KafkaError) -> None:
        position.reported = True
        self._positions.touch(position.tp)
        self._recovery.report(now, position.tp, reason, node)

    def _back_off(self, now: float, position: Position, reason: KafkaError) -> None:
        """Begin a backoff of this position only: other users of the partition, such as a producer, continue."""
        own_backoff = position.own_backoff = position.own_backoff or PartitionBackoff(Backoff.retry(self._config, self._random))
        position.reported = True
        self._recovery.note_retry(now, position.tp, reason)
        waits = own_backoff.reason is not None  # if two Fetches were in flight, their failures count as one
        own_backoff.reason = reason
        self._positions.touch(position.tp)
        if not waits:
            self._timers.at(now + own_backoff.backoff.next(), partial(self._end_backoff, position.tp, own_backoff))

    def _end_backoff(self, tp: TopicPartition, own_backoff: PartitionBackoff, now: float) -> None:
        own_backoff.reason = None
        self._positions.touch(tp)


def _decompress(codec: int, data: Any, max_size: int) -> bytes:
    return decompress(codec, data, max_size)


# Handlers of error codes by name; all other codes follow `errors/codes.py`.
ERRORS: Mapping[str, Callable[[FetchAnswers, float, int, Position, ErrorCode], None]] = {
    "CORRUPT_MESSAGE": FetchAnswers._damaged,
    "OFFSET_OUT_OF_RANGE": FetchAnswers._out_of_range,
}
