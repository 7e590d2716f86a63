"""Finds the reason why a batch cannot be sent, or was not acknowledged in time. Invariant: this module only reads."""

from __future__ import annotations

from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.errors import KafkaError, KafkaTimeoutError, UnsupportedVersion
from pykafka4.options.config import ProducerConfig
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.records.compression import CODECS
from pykafka4.wire.records.hot import Batch

__all__ = ["Obstacles"]

ZSTD = CODECS["zstd"]
ZSTD_FROM = 7  # brokers with this version of Produce support the codec


class Obstacles:
    __slots__ = ("_config", "_network", "_recovery")

    def __init__(self, config: ProducerConfig, network: Network, recovery: Recovery) -> None:
        self._config, self._network, self._recovery = config, network, recovery

    def of(self, queue: PartitionQueue, batch: Batch, trouble: KafkaError | None) -> KafkaError:
        """The reason why `batch` is not acknowledged although no request with it failed. `trouble` is from `Numbering.trouble`."""
        offline = self._recovery.offline.get(queue.tp)
        if offline is not None and offline.attempts:
            return offline.reason
        return trouble or self._late(queue, batch)

    def unreadable(self, node: int, batch: Batch) -> KafkaError | None:
        """The error if `node` cannot decompress `batch`. (The broker would respond with UNKNOWN_SERVER_ERROR, which hides the reason.)

        A batch that was too small to be compressed also gets the error: otherwise only some records of a topic would be sent.
        """
        if batch.wanted_codec != ZSTD:
            return None
        version = self._network.version(node, ProduceRequest.api_key)
        if version is None or version >= ZSTD_FROM:
            return None
        return UnsupportedVersion(
            f"broker {node} is older than Kafka 2.1 and does not support compression with zstd; use lz4, or upgrade the broker"
        )

    def _late(self, queue: PartitionQueue, batch: Batch) -> KafkaTimeoutError:
        late = f"not acknowledged within delivery_timeout_ms={self._config.delivery_timeout_ms:g}"
        missing = self._network.why_unreachable() or self._missing(queue, batch)
        return KafkaTimeoutError(f"{late}: {missing}" if missing else late)

    def _missing(self, queue: PartitionQueue, batch: Batch) -> str:
        if batch.in_flight:
            return f"broker {queue.node} has not responded"
        if queue.tp.partition < 0:
            return "no partition of the topic had a leader that could take the batch"
        if (offline := self._recovery.offline.get(queue.tp)) is not None:
            return str(offline.reason)
        leader = self._recovery.leader(queue.tp)
        return "the partition has no leader" if leader is None else self._network.why_down(leader.node)
