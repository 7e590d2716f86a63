"""Defines each metric. Invariant: a metric's name comes from OpenTelemetry's messaging conventions, or begins with `pykafka4.`.

`python -m tools.metrics` renders the table of the guide from these definitions. Source: OpenTelemetry semantic conventions 1.45, messaging
(development). `sources` yields the values; `pushed` selects the metrics for brokers.
"""

from __future__ import annotations

from typing import Final

from pykafka4.metrics.values import Definition, Kind

__all__ = [
    "BROKER",
    "CLIENT_ID",
    "DEFINITIONS",
    "ERROR",
    "GROUP",
    "OPERATION",
    "OPERATION_TYPE",
    "PARTITION",
    "REASON",
    "REQUEST",
    "SYSTEM",
    "TOPIC",
    "WRITTEN",
]

CLIENT_ID: Final = "messaging.client.id"
GROUP: Final = "messaging.consumer.group.name"
TOPIC: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
ERROR: Final = "error.type"
SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
BROKER, REQUEST, REASON, WRITTEN = "broker", "request", "reason", "written"
PLACE: Final = (TOPIC, PARTITION)

C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_ALL: Final = (
    # every client
    Definition("pykafka4.client.connected", G, "1", "1: a broker is connected and the client's thread responds; otherwise 0."),
    Definition("pykafka4.client.connections", G, "{connection}", "Connections that are ready.", (BROKER,)),
    Definition("pykafka4.client.connections.opened", C, "{connection}", "Connections that became ready.", (BROKER,)),
    Definition("pykafka4.client.connections.failed", C, "{attempt}", "Attempts to connect that failed.", (BROKER,)),
    Definition("pykafka4.client.connections.lost", C, "{connection}", "Ready connections that were lost.", (BROKER,)),
    Definition("pykafka4.client.requests.in_flight", G, "{request}", "Requests without a response yet.", (BROKER,)),
    Definition(
        "pykafka4.client.requests.failed",
        C,
        "{request}",
        "Written requests that failed without a response (timeout, lost connection).",
        (REQUEST, BROKER),
    ),
    Definition("pykafka4.client.request.duration", H, "s", "From writing a request to its response.", (REQUEST, BROKER)),
    Definition(
        "messaging.client.operation.duration",
        H,
        "s",
        "From writing a request that sends, fetches, commits or acknowledges to its response. A fetch waits up to fetch_max_wait_ms.",
        (SYSTEM, OPERATION, OPERATION_TYPE, BROKER),
    ),
    Definition("pykafka4.client.io.sent", C, "By", "Bytes of requests.", (BROKER,)),
    Definition("pykafka4.client.io.received", C, "By", "Bytes of responses.", (BROKER,)),
    Definition("pykafka4.client.throttle.time", C, "s", "Time for which the client was throttled, as brokers report.", (BROKER,)),
    Definition("pykafka4.client.metadata.age", G, "s", "Time since the last response with metadata."),
    Definition("pykafka4.client.offline.partitions", G, "{partition}", "Partitions in use that can be neither written nor read."),
    # producers
    Definition(
        "messaging.client.sent.messages",
        C,
        "{message}",
        "Records that were acknowledged, or failed with error.type. `written`: whether a failed record may be in the log.",
        (SYSTEM, OPERATION, OPERATION_TYPE, *PLACE, ERROR, WRITTEN),
    ),
    Definition("pykafka4.producer.messages.queued", G, "{message}", "Records that wait to be sent.", PLACE),
    Definition("pykafka4.producer.messages.in_flight", G, "{message}", "Records whose request has no response yet.", PLACE),
    Definition("pykafka4.producer.messages.dropped", C, "{message}", "Records dropped by on_full or a rate limit.", (*PLACE, REASON)),
    Definition("pykafka4.producer.messages.repeated", C, "{message}", "Acknowledged records that may be in the log twice.", PLACE),
    Definition(
        "pykafka4.producer.oldest.age",
        G,
        "s",
        "Time since `send` of the oldest record in a batch without an outcome; 0 without such a batch.",
    ),
    Definition("pykafka4.producer.buffer.used", G, "By", "The used part of buffer_memory."),
    Definition("pykafka4.producer.buffer.limit", G, "By", "The limit of the producer's memory: buffer_memory."),
    Definition("pykafka4.producer.requests", C, "{request}", "Produce requests."),
    Definition("pykafka4.producer.retries", C, "{batch}", "Batches that were sent again."),
    Definition("pykafka4.producer.batch.messages", H, "{message}", "Records of an acknowledged batch."),
    Definition("pykafka4.producer.batch.size", H, "By", "Compressed size of an acknowledged batch."),
    Definition("pykafka4.producer.delivery.duration", H, "s", "From `send` of a batch's first record to its acknowledgement."),
    Definition("pykafka4.producer.io.uncompressed", C, "By", "Bytes of acknowledged batches before compression.", PLACE),
    Definition("pykafka4.producer.io.compressed", C, "By", "Bytes of acknowledged batches after compression.", PLACE),
    # consumers
    Definition(
        "messaging.client.consumed.messages",
        C,
        "{message}",
        "Records that polls returned. A `for` loop counts a list of records when it begins the list; share consumers have only the sum.",
        (SYSTEM, OPERATION, OPERATION_TYPE, GROUP, *PLACE),
    ),
    Definition(
        "pykafka4.consumer.lag",
        G,
        "{message}",
        "Offsets from the position to the last known end of the log.",
        (GROUP, *PLACE),
    ),
    Definition("pykafka4.consumer.partitions", G, "{partition}", "Assigned partitions.", (GROUP,)),
    Definition("pykafka4.consumer.partitions.paused", G, "{partition}", "Assigned partitions that the application has paused.", (GROUP,)),
    Definition(
        "pykafka4.consumer.joined", G, "1", "1: the member has its partitions; 0: it is joining, rebalancing or out of the group.", (GROUP,)
    ),
    Definition("pykafka4.consumer.rebalances", C, "{rebalance}", "Assignments that the member has received.", (GROUP,)),
    Definition("pykafka4.consumer.polls", C, "{poll}", "Polls that have begun.", (GROUP,)),
    Definition(
        "pykafka4.consumer.poll.age",
        G,
        "s",
        "Time since the last poll, or since the last record that a `for` loop got. Limit: max_poll_interval_ms.",
        (GROUP,),
    ),
    Definition("pykafka4.consumer.commits", C, "{commit}", "Commits with an outcome; a failed commit has error.type.", (GROUP, ERROR)),
    Definition("pykafka4.consumer.io.fetched", C, "By", "Bytes of fetched batches, as on the wire.", (GROUP,)),
    Definition("pykafka4.consumer.buffer.used", G, "By", "Fetched bytes that wait for a poll. Limit: prefetch_bytes.", (GROUP,)),
    Definition("pykafka4.consumer.columns.held", G, "By", "Bytes of columns of poll_arrow that the application has not freed.", (GROUP,)),
    Definition("pykafka4.consumer.offsets.lost", C, "{offset}", "Offsets that a log lost before they were read (OffsetsLost).", (GROUP,)),
    Definition("pykafka4.consumer.messages.poison", C, "{message}", "Records that on_poison has left out.", (GROUP,)),
    # share consumers
    Definition("pykafka4.share.acknowledged", C, "{message}", "Records whose acknowledgement is stored.", (GROUP,)),
    Definition(
        "pykafka4.share.failed", C, "{message}", "Records whose acknowledgement failed: the group may deliver them again.", (GROUP,)
    ),
    Definition("pykafka4.share.dropped", C, "{message}", "Records whose lock had ended before a poll returned them.", (GROUP,)),
    Definition("pykafka4.share.in_hand", G, "{message}", "Returned records without an acknowledgement.", (GROUP,)),
    Definition("pykafka4.share.buffered", G, "{message}", "Records that wait for a poll.", (GROUP,)),
)
DEFINITIONS: Final = {definition.name: definition for definition in _ALL}
