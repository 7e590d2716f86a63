"""Peers. Rule: maps option and method names of other Kafka clients to those of this one, for hints in error messages.

The other clients are Java's, kafka-python, confluent-kafka (librdkafka) and aiokafka. Option names are compared with dots as underscores.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["CLIENT_METHODS", "CONSUMER_METHODS", "OPTIONS", "PRODUCER_METHODS", "Needless", "peers_option"]


class Needless(str):
    """The reason why there is no counterpart."""

    __slots__ = ()


_SERIALIZE: Final = Needless("there are no serializers: serialize the value and pass bytes or str to `send`")
_DESERIALIZE: Final = Needless("there are no deserializers: keys and values of records are bytes")
_TLS: Final = Needless("this version supports neither TLS nor SASL: connect to a PLAINTEXT listener")
_TRANSACTIONS: Final = Needless("this version has no transactions; producers are idempotent by default")
_RETRIES: Final = Needless("sends are retried until delivery_timeout_ms expires")
_VERSION: Final = Needless("versions are negotiated with each broker")
_CALLBACKS: Final = Needless("pass `on_delivery` to `send`, or use the Delivery that it returns")
_ASYNCIO: Final = Needless("a Delivery is awaitable in any running asyncio loop")
_BUFFERS: Final = Needless("the operating system sizes the socket buffers")
_PARTITIONER: Final = Needless("keys are hashed with murmur2 as in Java; pass `partition` to `send` to choose a partition yourself")
_STATISTICS: Final = Needless("call `stats()` or `status()` at any time")

OPTIONS: Final[dict[str, str]] = {
    # options that have another name here
    "acknowledgements": "acks",
    "api_version_auto_timeout_ms": "socket_connection_setup_timeout_ms",
    "batch_num_messages": "batch_size",
    "broker_address_ttl": "metadata_max_age_ms",
    "brokers": "bootstrap_servers",
    "check_crcs": Needless("checksums are always verified"),
    "compression": "compression_type",
    "compression_codec": "compression_type",
    "connection_setup_timeout_ms": "socket_connection_setup_timeout_ms",
    "default_offset_commit_callback": Needless("pass `on_done` to commit_async"),
    "enable_auto_offset_store": Needless("commit() commits what poll returned, commit(offsets) any other offsets"),
    "enable_partition_eof": Needless("lag() returns the distance to the end"),
    "exclude_internal_topics": Needless("subscribe takes topic names, not patterns"),
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "group": "group_id",
    "hosts": "bootstrap_servers",
    "http_proxy": "proxy_url",
    "https_proxy": "proxy_url",
    "linger": "linger_ms",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "max_in_flight_requests": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": _RETRIES,
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap_servers",
    "metadata_max_age": "metadata_max_age_ms",
    "offset_reset": "auto_offset_reset",
    "proxy": "proxy_url",
    "queue_buffering_max_kbytes": "buffer_memory",
    "queue_buffering_max_messages": "buffer_memory",
    "queue_buffering_max_ms": "linger_ms",
    "queued_max_messages_kbytes": "prefetch_bytes",
    "queued_min_messages": "prefetch_bytes",
    "reconnect_backoff": "reconnect_backoff_ms",
    "request_required_acks": "acks",
    "request_timeout": "request_timeout_ms",
    "retry_backoff": "retry_backoff_ms",
    "socket_timeout_ms": "request_timeout_ms",
    "socks5_proxy": "proxy_url",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    # options that are not needed or not supported
    "api_version": _VERSION,
    "api_version_fallback_ms": _VERSION,
    "api_version_request": _VERSION,
    "broker_version_fallback": _VERSION,
    "consumer_timeout_ms": Needless("pass `timeout` (seconds) to `poll`"),
    "debug": Needless("configure the logger `pykafka4`"),
    "default_topic_config": Needless("pass these options to the producer or consumer itself"),
    "dr_cb": _CALLBACKS,
    "dr_msg_cb": _CALLBACKS,
    "delivery_report_only_error": _CALLBACKS,
    "error_cb": Needless("pass a listener to client.events; errors are also logged"),
    "heartbeat_thread_close_timeout_ms": Needless("pass `timeout` to close"),
    "interceptor_classes": Needless("subclass Producer and override `send`"),
    "key_deserializer": _DESERIALIZE,
    "key_serializer": _SERIALIZE,
    "kafka_client": Needless("pass `client`, a pykafka4.Client"),
    "logger": Needless("configure the logger `pykafka4`"),
    "loop": _ASYNCIO,
    "metric_reporters": _STATISTICS,
    "metrics_enabled": _STATISTICS,
    "metrics_num_samples": _STATISTICS,
    "metrics_recording_level": _STATISTICS,
    "metrics_sample_window_ms": _STATISTICS,
    "on_delivery": _CALLBACKS,
    "partitioner": _PARTITIONER,
    "partitioner_class": _PARTITIONER,
    "receive_buffer_bytes": _BUFFERS,
    "reconnect_backoff_jitter": Needless("back-off always has jitter"),
    "retries": _RETRIES,
    "selector": Needless("the client runs its own thread"),
    "send_buffer_bytes": _BUFFERS,
    "sock_chunk_bytes": _BUFFERS,
    "socket_options": _BUFFERS,
    "stats_cb": _STATISTICS,
    "statistics_interval_ms": _STATISTICS,
    "transaction_timeout_ms": _TRANSACTIONS,
    "transactional_id": _TRANSACTIONS,
    "value_deserializer": _DESERIALIZE,
    "value_serializer": _SERIALIZE,
}
PREFIXES: Final = {"sasl_": _TLS, "ssl_": _TLS, "enable_ssl_": _TLS, "oauth_": _TLS, "schema_registry_": _SERIALIZE}

PRODUCER_METHODS: Final[dict[str, str]] = {
    "produce": "send",
    "send_and_wait": "send(…).result()",
    "send_batch": "send",
    "create_batch": "send",
    "poll": Needless("callbacks run on a thread of their own, no polling is needed"),
    "init": Needless("a producer is ready when it is created"),
    "start": Needless("a producer is ready when it is created"),
    "bootstrap_connected": "status",
    "stop": "close",
    "purge": "close(0)",
    "list_topics": "partitions_for",
    "partitionsFor": "partitions_for",
    "metrics": "stats",
    "init_transactions": _TRANSACTIONS,
    "begin_transaction": _TRANSACTIONS,
    "commit_transaction": _TRANSACTIONS,
    "abort_transaction": _TRANSACTIONS,
    "transaction": _TRANSACTIONS,
    "send_offsets_to_transaction": _TRANSACTIONS,
}

CONSUMER_METHODS: Final[dict[str, str]] = {
    "consume": "poll",
    "poll_batch": "poll",
    "fetch": "poll",
    "getmany": "poll",
    "getone": "poll",
    "get_message": "poll",
    "next_v2": "poll",
    "position_of": "position",
    "commit_sync": "commit",
    "commitSync": "commit",
    "commitAsync": "commit_async",
    "commit_cached": "commit",
    "store_offsets": "commit(offsets)",
    "get_watermark_offsets": "lag",
    "end_offsets": "lag",
    "beginning_offsets": Needless("this version cannot look up offsets; use seek_to_beginning"),
    "offsets_for_times": Needless("this version cannot look up offsets by time"),
    "incremental_assign": "assign",
    "incremental_unassign": "assign",
    "highwater": "lag",
    "currentLag": "lag",
    "seekToBeginning": "seek_to_beginning",
    "seekToEnd": "seek_to_end",
    "unassign": "assign([])",
    "start": Needless("a consumer is ready when it is created"),
    "stop": "close",
    "bootstrap_connected": "status",
    "metrics": "stats",
    "list_topics": Needless("Client.partitions_for returns the partitions of one topic"),
    "topics": Needless("Client.partitions_for returns the partitions of one topic"),
    "partitions_for": "Client.partitions_for",
    "partitions_for_topic": "Client.partitions_for",
    "memberid": "status",
}

CLIENT_METHODS: Final[dict[str, str]] = {
    "list_topics": Needless("partitions_for returns the partitions of one topic"),
    "partitions_for_topic": "partitions_for",
    "bootstrap_connected": "status",
    "force_metadata_update": "refresh_metadata",
    "set_topics": "refresh_metadata",
    "cluster": "status",
    "describe_cluster": "status",
    "stop": "close",
    "create_topics": Needless("this version has no admin client"),
    "delete_topics": Needless("this version has no admin client"),
}


def peers_option(name: str, known: Collection[str]) -> str | None:
    """A hint for another client's option, or None. `known` are the options of the class that was called."""
    instead = OPTIONS.get(name) or next((why for prefix, why in PREFIXES.items() if name.startswith(prefix)), None)
    if instead is None or isinstance(instead, Needless):
        return instead
    return f"did you mean {instead!r}?" if instead in known else None
