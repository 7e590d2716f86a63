"""Peers. Rule: maps option and method names of other Kafka clients to those of this one, for hints in error messages and `from_properties`.

The other clients are Java's, kafka-python, confluent-kafka (librdkafka) and aiokafka. Option names are compared with dots as underscores.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = [
    "AS_HERE",
    "CLASSES",
    "CLIENT_METHODS",
    "CONSUMER_METHODS",
    "DELIVERY_METHODS",
    "KEYWORDS",
    "OPTIONS",
    "PREFIXES",
    "PRODUCER_METHODS",
    "RECORD_FIELDS",
    "SHARE_CONSUMER_METHODS",
    "UNITS",
    "Harmless",
    "Needless",
    "Similar",
    "peers_option",
]


class Needless(str):
    """The reason why there is no counterpart."""

    __slots__ = ()


class Harmless(Needless):
    """As Needless, of an option without which the client does what the application expects: `from_properties` ignores it."""

    __slots__ = ()


class Similar(str):
    """An option with the same purpose whose values mean something else (seconds, a number of records): for hints only."""

    __slots__ = ()


_REGISTRY: Final = Harmless("there is no client of a schema registry: pass value_serializer a callable that returns bytes")
_DESERIALIZE: Final = Harmless("there are no deserializers: keys and values of records are bytes")
_STORES: Final = Needless("convert the store to PEM (docs/guide/security.md), then set ssl_cafile, or ssl_certfile and ssl_keyfile")
_CONTEXT: Final = Needless("make an ssl.SSLContext with it, and pass that as ssl_context")
_TOKEN: Final = Needless("pass a callable that returns a token as sasl_oauth_token")
_KERBEROS: Final = Harmless("with sasl_kerberos_keytab the client gets tickets itself, otherwise it uses those of the default cache")
_TWO_PHASE: Final = Needless("a transaction ends with its own coordinator only (KIP-939 is not supported)")
_VERSION: Final = Harmless("versions are negotiated with each broker")
_CALLBACKS: Final = Needless("pass `on_delivery` to `send`, or use the Delivery that it returns")
_ASYNCIO: Final = Needless("a Delivery is awaitable in any running asyncio loop")
_BUFFERS: Final = Harmless("the operating system sizes the socket buffers")
_PARTITIONER: Final = Needless("pass partitioner a callable with the arguments topic, key, partitions and available partitions")
_STATISTICS: Final = Harmless("call `stats()` or `status()` at any time")
_LOGGING: Final = Harmless("configure the logger `pykafka4`")
_EVENTS: Final = Needless("pass a listener to client.events; errors are also logged")
_REBALANCE: Final = Needless("pass a listener to `subscribe`")
_COMMITTED: Final = Needless("pass `on_done` to commit_async")
_LEVEL: Final = Similar("compression_level")
_SOCKETS: Final = Harmless("the client sets the options of its sockets itself")
_KEYLESS: Final = Harmless("a record without a key goes to the partition whose batch is being filled; slow partitions get less")
_BACKOFF: Final = Harmless("retry_backoff_ms is the back-off of all requests")
_BOOTSTRAP: Final = Harmless("the bootstrap servers are tried again whenever no broker is connected")
_PLUGINS: Final = Needless("this client loads no code that an option names")
_LATER: Final = Harmless("nothing here corresponds to it")

OPTIONS: Final[dict[str, str]] = {
    # options that have another name here
    "acknowledgements": "acks",
    "api_version_auto_timeout_ms": "socket_connection_setup_timeout_ms",
    "batch_num_messages": Harmless("batch_size, in bytes, limits a batch"),
    "broker_address_ttl": Harmless("the address of a broker is looked up for each connection; metadata_max_age_ms is for metadata"),
    "block_on_buffer_full": Similar("on_full"),
    "brokers": "bootstrap_servers",
    "check_crcs": Harmless("checksums are always verified"),
    "compression": "compression_type",
    "compression_codec": "compression_type",
    "connection_setup_timeout_ms": "socket_connection_setup_timeout_ms",
    "default_offset_commit_callback": _COMMITTED,
    "enable_auto_offset_store": Needless("commit() commits what poll returned, commit(offsets) any other offsets"),
    "enable_partition_eof": Needless("lag() returns the distance to the end"),
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "group": "group_id",
    "hosts": "bootstrap_servers",
    "http_proxy": "proxy_url",
    "https_proxy": "proxy_url",
    "linger": Similar("linger_ms"),
    "max_in_flight": "max_in_flight_requests_per_connection",
    "max_in_flight_requests": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap_servers",
    "metadata_max_age": Similar("metadata_max_age_ms"),
    "offset_reset": "auto_offset_reset",
    "partitioner_class": "partitioner",
    "proxy": "proxy_url",
    "queue_buffering_max_kbytes": "buffer_memory",
    "queue_buffering_max_messages": Harmless("buffer_memory, in bytes, limits the records that wait"),
    "queue_buffering_max_ms": "linger_ms",
    "queued_max_messages_kbytes": "prefetch_bytes",
    "queued_min_messages": Harmless("prefetch_bytes limits the records that are fetched ahead"),
    "reconnect_backoff": Similar("reconnect_backoff_ms"),
    "request_required_acks": "acks",
    "request_timeout": Similar("request_timeout_ms"),
    "retry_backoff": Similar("retry_backoff_ms"),
    "socket_timeout_ms": "request_timeout_ms",
    "topic_metadata_propagation_max_ms": "unknown_topic_timeout_ms",
    "socks5_proxy": "proxy_url",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    # security
    "enable_ssl_certificate_verification": Needless("certificates are always verified: set ssl_cafile to the authority to trust"),
    "sasl_jaas_config": Needless("set sasl_username and sasl_password; `from_properties` reads it"),
    "sasl_kerberos_domain_name": Needless("the host in a broker's principal is that of bootstrap_servers or advertised.listeners"),
    "sasl_kerberos_name": Similar("sasl_kerberos_principal"),
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_oauth_token_provider": _TOKEN,
    "sasl_plain_password": "sasl_password",
    "sasl_plain_username": "sasl_username",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_certificate_pem": "ssl_cert_pem",
    "ssl_cipher_suites": "ssl_ciphers",
    "ssl_endpoint_identification_algorithm": Similar("ssl_check_hostname"),
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "ssl_keystore_certificate_chain": "ssl_cert_pem",
    "ssl_keystore_key": "ssl_key_pem",
    "ssl_truststore_certificates": "ssl_ca_pem",
    # options that are not needed or not supported
    "api_version": _VERSION,
    "api_version_fallback_ms": _VERSION,
    "api_version_request": _VERSION,
    "api_version_request_timeout_ms": _VERSION,
    "auto_commit_enable": Similar("enable_auto_commit"),
    "auto_include_jmx_reporter": _STATISTICS,
    "auto_register_schemas": _REGISTRY,
    "basic_auth_credentials_source": _REGISTRY,
    "basic_auth_user_info": _REGISTRY,
    "bootstrap_resolve_timeout_ms": _BOOTSTRAP,
    "broker_address_family": Harmless("all addresses of a broker are tried, IPv4 and IPv6"),
    "broker_version_fallback": _VERSION,
    "buffer_memory_allocation_strategy": Harmless("buffers of batches start small and grow"),
    "builtin_features": _LATER,
    "client_dns_lookup": Harmless("all addresses of a name are tried"),
    "compression_gzip_level": _LEVEL,
    "compression_lz4_level": _LEVEL,
    "compression_zstd_level": _LEVEL,
    "config_providers": Needless("placeholders such as ${file:…} are not resolved: replace them before, and pass the result as a mapping"),
    "consume_cb": Needless("`poll` returns the records"),
    "consumer_timeout_ms": Needless("pass `timeout` (seconds) to `poll`"),
    "coordinator_query_interval_ms": Harmless("the coordinator is looked up when it does not respond"),
    "debug": _LOGGING,
    "default_api_timeout_ms": Harmless("pass `timeout` (seconds) to a call; the default is 60"),
    "default_topic_config": Needless("pass these options to the producer or consumer itself"),
    "delivery_report_only_error": Harmless("each Delivery reports its outcome"),
    "dr_cb": _CALLBACKS,
    "dr_msg_cb": _CALLBACKS,
    "enable_gapless_guarantee": Needless("a record that fails does not stop the records behind it"),
    "enable_metrics_push": Harmless("this version sends no metrics to brokers"),
    "enable_random_seed": _LATER,
    "enabled_events": _LATER,
    "error_cb": _EVENTS,
    "fetch_error_backoff_ms": _BACKOFF,
    "fetch_queue_backoff_ms": Harmless("fetching goes on as soon as there is room in prefetch_bytes"),
    "group_protocol_type": Needless("members of a group are consumers"),
    "heartbeat_thread_close_timeout_ms": Harmless("pass `timeout` to close"),
    "interceptor_classes": Needless("pass hooks an object with on_send and on_ack"),
    "interceptors": _PLUGINS,
    "internal_termination_signal": _LATER,
    "internal_throw_on_fetch_stable_offset_unsupported": _LATER,
    "kafka_client": Needless("pass `client`, a pykafka4.Client"),
    "key_deserializer": _DESERIALIZE,
    "log_cb": _LOGGING,
    "log_connection_close": _LOGGING,
    "log_level": _LOGGING,
    "log_queue": _LOGGING,
    "log_thread_name": _LOGGING,
    "logger": _LOGGING,
    "loop": _ASYNCIO,
    "message_copy_max_bytes": _LATER,
    "metadata_cluster_check_enable": Harmless("a changed cluster id is always logged"),
    "metadata_recovery_rebootstrap_trigger_ms": _BOOTSTRAP,
    "metadata_recovery_strategy": _BOOTSTRAP,
    "metadata_request_timeout_ms": Similar("request_timeout_ms"),
    "metric_reporters": _STATISTICS,
    "metrics_enabled": _STATISTICS,
    "metrics_num_samples": _STATISTICS,
    "metrics_recording_level": _STATISTICS,
    "metrics_sample_window_ms": _STATISTICS,
    "offset_commit_cb": _COMMITTED,
    "offset_store_method": Needless("offsets are stored by the group's coordinator"),
    "on_commit": _COMMITTED,
    "on_delivery": _CALLBACKS,
    "partitioner_availability_timeout_ms": _KEYLESS,
    "partitioner_cb": _PARTITIONER,
    "partitioner_rack_aware": _KEYLESS,
    "plugin_library_paths": _PLUGINS,
    "produce_offset_report": Harmless("the result of each Delivery has the offset"),
    "queue_buffering_backpressure_threshold": Harmless("a batch waits while its connection is full"),
    "queuing_strategy": Needless("records are sent in the order of `send`"),
    "rebalance_cb": _REBALANCE,
    "receive_buffer_bytes": _BUFFERS,
    "reconnect_backoff_jitter": Harmless("back-off always has jitter"),
    "reconnect_backoff_jitter_ms": Harmless("back-off always has jitter"),
    "selector": Needless("the client runs its own thread"),
    "send_buffer_bytes": _BUFFERS,
    "sock_chunk_bytes": _BUFFERS,
    "socket_blocking_max_ms": _SOCKETS,
    "socket_keepalive_enable": _SOCKETS,
    "socket_max_fails": _SOCKETS,
    "socket_nagle_disable": _SOCKETS,
    "socket_options": _BUFFERS,
    "socket_receive_buffer_bytes": _BUFFERS,
    "socket_send_buffer_bytes": _BUFFERS,
    "specific_avro_reader": _REGISTRY,
    "statistics_interval_ms": _STATISTICS,
    "stats_cb": _STATISTICS,
    "sticky_partitioning_linger_ms": _KEYLESS,
    "throttle_cb": _EVENTS,
    "topic_blacklist": Needless("pass `exclude` to `subscribe`"),
    "topic_metadata_refresh_fast_cnt": _BACKOFF,
    "topic_metadata_refresh_fast_interval_ms": _BACKOFF,
    "topic_metadata_refresh_sparse": Harmless("metadata is requested of the topics in use only"),
    "transaction_two_phase_commit_enable": _TWO_PHASE,
    "use_latest_version": _REGISTRY,
    "value_deserializer": _DESERIALIZE,
}
UNITS: Final = {"queue_buffering_max_kbytes": 1024, "queued_max_messages_kbytes": 1024}  # what one of theirs is in the unit of ours
# Values of options that are otherwise refused, with which other clients do what this one does: patterns, without regard to case.
AS_HERE: Final = {
    "enable_auto_offset_store": "true|t|1",
    "enable_gapless_guarantee": "false|f|0",
    "enable_partition_eof": "false|f|0",
    "group_protocol_type": "consumer",
    "offset_store_method": "broker",
    "queuing_strategy": "fifo",
    "transaction_two_phase_commit_enable": "false|f|0",
}
PREFIXES: Final = {
    "sasl_kerberos_": _KERBEROS,
    "sasl_oauthbearer_": _TOKEN,
    "sasl_login_": _TOKEN,
    "ssl_keystore_": _STORES,
    "ssl_truststore_": _STORES,
    "ssl_crl": _CONTEXT,
    "ssl_engine_": _CONTEXT,
    "oauth_": _TOKEN,
    "schema_registry_": _REGISTRY,
}

PRODUCER_METHODS: Final[dict[str, str]] = {
    "initTransactions": "init_transactions",
    "beginTransaction": "begin_transaction",
    "commitTransaction": "commit_transaction",
    "abortTransaction": "abort_transaction",
    "sendOffsetsToTransaction": "send_offsets_to_transaction",
    "produce": "send",
    "send_and_wait": "send(…).result()",
    "send_batch": "send_many",
    "create_batch": "send_many",
    "produce_batch": "send_many",
    "poll": Needless("callbacks run on a thread of their own, no polling is needed"),
    "init": Needless("a producer is ready when it is created"),
    "start": Needless("a producer is ready when it is created"),
    "bootstrap_connected": "status",
    "stop": "close",
    "list_topics": "partitions_for",
    "partitionsFor": "partitions_for",
    "metrics": "stats",
}

NO_POSITIONS: Final = Needless("share groups have no positions: the broker keeps the state of each record")

SHARE_CONSUMER_METHODS: Final[dict[str, str]] = {
    "consume": "poll",
    "commitSync": "commit",
    "commit_sync": "commit",
    "commitAsync": "commit_async",
    "ack": "accept",
    "nack": "release",
    "setAcknowledgementCommitCallback": "set_acknowledgement_callback",
    "acquisitionLockTimeoutMs": "acquisition_lock_timeout_ms",
    "assign": Needless("the coordinator of a share group assigns partitions; use subscribe"),
    "assignment": "status",
    "seek": NO_POSITIONS,
    "position": NO_POSITIONS,
    "committed": NO_POSITIONS,
}

_ENDS: Final = Needless("position + lag is the end of an assigned partition; lag is None until records of it were fetched")
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
    "get_watermark_offsets": _ENDS,
    "end_offsets": _ENDS,
    "beginning_offsets": Needless("seek_to_beginning, then position, is the first offset of an assigned partition"),
    "offsets_for_times": Needless("seek_to_time moves to the offset of a time, and position returns it"),
    "incremental_assign": "assign",
    "incremental_unassign": "assign",
    "highwater": _ENDS,
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

DELIVERY_METHODS: Final[dict[str, str]] = {
    "get": "result",
    "wait": "result",
    "add_callback": "add_done_callback",
    "add_errback": "add_done_callback",
    "add_both": "add_done_callback",
    "is_done": "done",
    "succeeded": Needless("exception() is None once the record is acknowledged"),
    "failed": Needless("exception() is a DeliveryFailed once the record has failed"),
    "value": Needless("result() says where the record was written"),
    "error": "exception",
    "offset": "result().offset",
    "cancel": Needless("a record that was sent cannot be taken back; Producer.purge() fails the records that wait"),
}

_IN_LOG: Final = Needless("poll raises errors; every Record is one of the log")
_SIZES: Final = Needless("len(record.key) and len(record.value) are the sizes")
RECORD_FIELDS: Final[dict[str, str]] = {
    "timestamp": "timestamp_ms",
    "error": _IN_LOG,
    "checksum": Needless("the client has checked the checksum of the whole batch"),
    "serialized_key_size": _SIZES,
    "serialized_value_size": _SIZES,
    "serialized_header_size": _SIZES,
    "latency": Needless("hooks see when a record was sent and acknowledged"),
}

KEYWORDS: Final[dict[str, str]] = {  # arguments of methods
    "timeout_ms": "timeout, in seconds",
    "num_messages": "max_records",
    "max_messages": "max_records",
    "update_offsets": "nothing: commits cover the records that earlier polls have returned",
    "pattern": "topics: a text or an re.Pattern is a pattern",
    "on_assign": "listener, an object with on_partitions_assigned",
    "on_revoke": "listener, an object with on_partitions_revoked",
    "on_lost": "listener, an object with on_partitions_lost",
    "message": "offsets={(record.topic, record.partition): record.offset + 1}",
    "asynchronous": "commit, which waits, or commit_async, which does not",
    "callback": "on_delivery",
    "on_error": "on_delivery",
    "timestamp": "timestamp_ms",
    "metadata": "OffsetAndMetadata(offset, metadata=…) as the offset",
}

CLASSES: Final[dict[str, str]] = {
    "KafkaProducer": "Producer",
    "KafkaConsumer": "Consumer",
    "KafkaAdminClient": "AdminClient",
    "AIOKafkaProducer": "aio.Producer",
    "AIOKafkaConsumer": "aio.Consumer",
    "AIOProducer": "aio.Producer",
    "AIOConsumer": "aio.Consumer",
    "SerializingProducer": "Producer",
    "DeserializingConsumer": "Consumer",
    "KafkaClient": "Client",
    "SimpleProducer": "Producer",
    "SimpleConsumer": "Consumer",
    "ConsumerRecord": "Record",
    "Message": "Record",
    "KafkaException": "KafkaError",
    "KafkaTimeoutException": "KafkaTimeoutError",
    "ConsumerRebalanceListener": "any object with on_partitions_assigned and on_partitions_revoked",
}

_TOPICS: Final = Needless("this version administers groups only; Kafka's own tools create and change topics")
CLIENT_METHODS: Final[dict[str, str]] = {
    "list_topics": Needless("partitions_for returns the partitions of one topic"),
    "partitions_for_topic": "partitions_for",
    "bootstrap_connected": "status",
    "force_metadata_update": "refresh_metadata",
    "set_topics": "refresh_metadata",
    "cluster": "status",
    "describe_cluster": "status",
    "stop": "close",
    "create_topics": _TOPICS,
    "delete_topics": _TOPICS,
}

ADMIN_METHODS: Final[dict[str, str]] = {
    "list_consumer_groups": "list_groups",
    "listConsumerGroups": "list_groups",
    "listGroups": "list_groups",
    "describe_consumer_groups": "describe_groups",
    "describeConsumerGroups": "describe_groups",
    "list_consumer_group_offsets": "group_offsets",
    "listConsumerGroupOffsets": "group_offsets",
    "list_group_offsets": "group_offsets",
    "alter_consumer_group_offsets": "set_offsets",
    "alterConsumerGroupOffsets": "set_offsets",
    "alter_group_offsets": "set_offsets",
    "reset_group_offsets": "plan_offsets",
    "delete_consumer_groups": "delete_groups",
    "deleteConsumerGroups": "delete_groups",
    "delete_consumer_group_offsets": "delete_offsets",
    "deleteConsumerGroupOffsets": "delete_offsets",
    "delete_group_offsets": "delete_offsets",
    "describe_cluster": "status",
    "start": Needless("an admin client is ready when it is created"),
    "stop": "close",
    "create_topics": _TOPICS,
    "delete_topics": _TOPICS,
    "list_topics": _TOPICS,
    "describe_topics": _TOPICS,
    "create_partitions": _TOPICS,
    "describe_configs": _TOPICS,
    "alter_configs": _TOPICS,
}


def peers_option(name: str, known: Collection[str]) -> str | None:
    """A hint for another client's option, or None. `known` are the options of the class that was called."""
    instead = OPTIONS.get(name) or next((why for prefix, why in PREFIXES.items() if name.startswith(prefix)), None)
    if instead is None or isinstance(instead, Needless):
        return instead
    return f"did you mean {instead!r}?" if instead in known else None
