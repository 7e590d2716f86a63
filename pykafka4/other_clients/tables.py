"""Lists options, methods, arguments and classes of other Kafka clients, each with its counterpart here or the reason why it has none.
Invariant: each counterpart exists.

The other clients are Java's, kafka-python, confluent-kafka (librdkafka) and aiokafka. A key is one name or several. Names of options have
underscores instead of dots; a final `*` means any further characters.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

__all__ = ["AS_HERE", "CLASSES", "JAVA_CLASSES", "KEYWORDS", "METHODS", "OPTIONS", "PROPERTIES", "UNITS", "Ignorable", "NoCounterpart"]
__all__ += ["by_prefix", "method_hint", "option_hint"]


class NoCounterpart(str):
    """The reason why a name has no counterpart; `from_properties` refuses the property, unless its value is empty or as in `AS_HERE`."""

    __slots__ = ()


class Ignorable(NoCounterpart):
    """The reason why the client works as expected without the option; `from_properties` ignores the property."""

    __slots__ = ()


def _each(table: Mapping[str, str], kind: type[str] | None = None) -> dict[str, str]:
    """A row for each name in a key; `kind`, if given, is the type of the rows."""
    return {name: kind(instead) if kind else instead for names, instead in table.items() for name in names.split()}


# fmt: off
_REGISTRY: Final = Ignorable("there is no client of a schema registry: pass as value_serializer a callable that returns bytes")

OPTIONS: Final[dict[str, str]] = {
    # under another name
    **_each({
        "acknowledgements request_required_acks": "acks",
        "api_version_auto_timeout_ms connection_setup_timeout_ms": "socket_connection_setup_timeout_ms",
        "batch_num_messages": "batch_records",
        "brokers hosts metadata_broker_list": "bootstrap_servers",
        "compression compression_codec": "compression_type",
        "fetch_message_max_bytes": "max_partition_fetch_bytes",
        "fetch_wait_max_ms": "fetch_max_wait_ms",
        "group": "group_id",
        "http_proxy https_proxy proxy socks5_proxy": "proxy_url",
        "max_in_flight max_in_flight_requests": "max_in_flight_requests_per_connection",
        "message_max_bytes": "max_request_size",
        "message_send_max_retries": "retries",
        "message_timeout_ms": "delivery_timeout_ms",
        "offset_reset": "auto_offset_reset",
        "partitioner_class": "partitioner",
        "queue_buffering_max_kbytes": "buffer_memory",
        "queue_buffering_max_ms": "linger_ms",
        "queued_max_messages_kbytes": "prefetch_bytes",
        "sasl_mechanisms": "sasl_mechanism",
        "sasl_plain_password": "sasl_password",
        "sasl_plain_username": "sasl_username",
        "socket_timeout_ms": "request_timeout_ms",
        "ssl_ca_location": "ssl_cafile",
        "ssl_certificate_location": "ssl_certfile",
        "ssl_certificate_pem ssl_keystore_certificate_chain": "ssl_cert_pem",
        "ssl_cipher_suites": "ssl_ciphers",
        "ssl_key_location": "ssl_keyfile",
        "ssl_key_password": "ssl_password",
        "ssl_keystore_key": "ssl_key_pem",
        "ssl_truststore_certificates": "ssl_ca_pem",
        "topic_metadata_propagation_max_ms": "unknown_topic_timeout_ms",
        "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    }),
    # without effect here
    **_each({
        "api_version api_version_fallback_ms api_version_request api_version_request_timeout_ms broker_version_fallback":
            "versions are negotiated with each broker",
        "auto_include_jmx_reporter metric_reporters metrics_enabled metrics_num_samples metrics_recording_level metrics_sample_window_ms "
        "statistics_interval_ms stats_cb": "call `stats()` or `status()` at any time",
        "auto_register_schemas basic_auth_credentials_source basic_auth_user_info specific_avro_reader use_latest_version": _REGISTRY,
        "schema_registry_*": _REGISTRY,
        "bootstrap_resolve_timeout_ms metadata_recovery_rebootstrap_trigger_ms metadata_recovery_strategy":
            "the bootstrap servers are tried again whenever no broker is connected",
        "broker_address_family": "all addresses of a broker are tried, IPv4 and IPv6",
        "broker_address_ttl": "the address of a broker is looked up for each connection; metadata_max_age_ms is for metadata",
        "buffer_memory_allocation_strategy": "buffers of batches start small and grow",
        "builtin_features enable_random_seed enabled_events internal_termination_signal internal_throw_on_fetch_stable_offset_unsupported "
        "message_copy_max_bytes": "nothing here corresponds to it",
        "check_crcs": "checksums are always verified",
        "client_dns_lookup": "all addresses of a name are tried",
        "coordinator_query_interval_ms": "the coordinator is looked up when it does not respond",
        "debug log_cb log_connection_close log_level log_queue log_thread_name logger": "configure the logger `pykafka4`",
        "default_api_timeout_ms": "pass `timeout` (seconds) to a call; the default is 60",
        "delivery_report_only_error": "each Delivery reports its outcome",
        "fetch_error_backoff_ms topic_metadata_refresh_fast_cnt topic_metadata_refresh_fast_interval_ms":
            "retry_backoff_ms is the backoff of all requests",
        "fetch_queue_backoff_ms": "fetching continues as soon as there is room in prefetch_bytes",
        "heartbeat_thread_close_timeout_ms": "pass `timeout` to close",
        "metadata_cluster_check_enable": "a changed cluster id is always logged",
        "partitioner_availability_timeout_ms partitioner_rack_aware sticky_partitioning_linger_ms":
            "a record without a key goes to the partition whose batch is being filled; slow partitions get fewer records",
        "produce_offset_report": "the result of each Delivery has the offset",
        "queue_buffering_backpressure_threshold": "a batch waits while its connection is full",
        "queue_buffering_max_messages": "buffer_memory, in bytes, limits the records that wait",
        "queued_min_messages": "prefetch_bytes limits the records that are fetched ahead",
        "receive_buffer_bytes send_buffer_bytes sock_chunk_bytes socket_options socket_receive_buffer_bytes socket_send_buffer_bytes":
            "the operating system sizes the socket buffers",
        "reconnect_backoff_jitter reconnect_backoff_jitter_ms": "backoff always has jitter",
        "sasl_kerberos_*": "with sasl_kerberos_keytab the client gets tickets itself, otherwise it uses the tickets of the default cache",
        "socket_blocking_max_ms socket_keepalive_enable socket_max_fails socket_nagle_disable":
            "the client sets the options of its sockets itself",
        "topic_metadata_refresh_sparse": "metadata is requested only for the topics in use",
    }, Ignorable),
    # not supported
    **_each({
        "auto_commit_enable": "enable_auto_commit says whether offsets are committed",
        "block_on_buffer_full": "on_full says what `send` does while the buffer is full",
        "config_providers": "placeholders such as ${file:…} are not resolved: replace them first, and pass the result as a mapping",
        "consume_cb": "`poll` returns the records",
        "consumer_timeout_ms": "pass `timeout` (seconds) to `poll`",
        "default_offset_commit_callback offset_commit_cb on_commit": "pass `on_done` to commit_async",
        "default_topic_config": "pass these options to the producer or consumer itself",
        "dr_cb dr_msg_cb on_delivery": "pass `on_delivery` to `send`, or use the Delivery that it returns",
        "enable_auto_offset_store": "commit() commits the records that `poll` returned, commit(offsets) any other offsets",
        "enable_gapless_guarantee": "a record that fails does not stop the records after it",
        "enable_partition_eof": "lag() returns the distance to the end",
        "enable_ssl_certificate_verification":
            "certificates of brokers are always verified; put the authority that signed them into ssl.ca.location, or pass ssl_cafile",
        "error_cb throttle_cb": "pass a listener to client.events; errors are also logged",
        "group_protocol_type": "members of a group are consumers",
        "interceptor_classes": "pass as hooks an object with on_send and on_ack (producer) or on_poll (consumer)",
        "interceptors plugin_library_paths": "this client loads no code that an option names",
        "kafka_client": "pass `client`, a pykafka4.Client",
        "loop": "a Delivery is awaitable in any running asyncio loop",
        "offset_store_method": "offsets are stored by the group's coordinator",
        "partitioner_cb": "pass as partitioner a callable with the arguments topic, key, partitions and available partitions",
        "queuing_strategy": "records are sent in the order of `send`",
        "rebalance_cb": "pass a listener to `subscribe`",
        "sasl_jaas_config": "set sasl_username and sasl_password; `from_properties` reads sasl.jaas.config",
        "sasl_kerberos_domain_name": "the host in a broker's principal is the host in bootstrap_servers or advertised.listeners",
        "sasl_kerberos_name": "sasl_kerberos_principal is the client's principal",
        "sasl_oauth_token_provider sasl_oauthbearer_* sasl_login_* oauth_*": "pass a callable that returns a token as sasl_oauth_token",
        "selector": "the client runs its own thread",
        "ssl_crl* ssl_engine_*": "make an ssl.SSLContext with this setting, and pass the context as ssl_context",
        "ssl_endpoint_identification_algorithm": "ssl_check_hostname says whether a certificate has to name the host",
        "ssl_keystore_* ssl_truststore_*":
            "convert the store to PEM (docs/guide/security.md), then set ssl_cafile, or ssl_certfile and ssl_keyfile",
        "topic_blacklist": "pass `exclude` to `subscribe`",
        "transaction_two_phase_commit_enable": "only its own coordinator ends a transaction (KIP-939 is not supported)",
    }, NoCounterpart),
}
# Rows for `from_properties`, which take precedence over rows of OPTIONS; a key such as `client/client_rack` is for one kind of client.
PROPERTIES: Final = _each({
    "client/client_rack producer/client_rack": Ignorable("producers choose partitions without regard to racks"),
    "compression_gzip_level compression_lz4_level compression_zstd_level": "compression_level",
    "enable_sasl_oauthbearer_unsecure_jwt oauth_cb oauthbearer_token_refresh_cb sasl_client_callback_handler_class "
    "sasl_login_callback_handler_class sasl_login_class sasl_oauthbearer_*": "sasl_oauth_token",
    "https_ca_*": Ignorable("it concerns the requests for tokens, which sasl_oauth_token makes"),
    "sasl_jaas_config": "sasl_password",
    "sasl_kerberos_*": Ignorable("the Kerberos library gets and renews tickets itself"),
    "sasl_login_*": Ignorable("sasl_oauth_token is called when a token is needed"),
    "schema_registry_*": _REGISTRY,
    "security_providers ssl_keymanager_algorithm ssl_provider ssl_secure_random_implementation ssl_trustmanager_algorithm":
        Ignorable("it concerns Java's own TLS"),
    "consumer/share_acknowledgement_mode consumer/share_acquire_mode":
        Ignorable("share groups have a consumer of their own, ShareConsumer"),
    "ssl_ca_certificate_stores ssl_engine_factory_class ssl_engine_id ssl_engine_location":
        NoCounterpart("certificates and keys are read from PEM files or text only (docs/guide/properties.md)"),
    "ssl_crl_location ssl_curves_list ssl_providers ssl_sigalgs_list":
        NoCounterpart("Python's ssl module cannot set it; OpenSSL's own configuration can"),
    "ssl_enabled_protocols": "ssl_context",
    "ssl_endpoint_identification_algorithm": "ssl_check_hostname",
    "ssl_keystore_location ssl_keystore_type": "ssl_certfile",
    "ssl_keystore_password ssl_truststore_password":
        Ignorable("PEM files have no password of their own; ssl.key.password is the password of the key"),
    "ssl_protocol": Ignorable("client and broker agree on the newest version of TLS that both have"),
    "ssl_truststore_location ssl_truststore_type": "ssl_cafile",
})

UNITS: Final = {"queue_buffering_max_kbytes": 1024, "queued_max_messages_kbytes": 1024}  # factors from the property's unit to the option's
# For properties without a counterpart: regular expressions of the values that ask only for this client's own behaviour. Case is ignored.
AS_HERE: Final = _each({
    "enable_auto_offset_store enable_ssl_certificate_verification": "true|t|1",
    "enable_gapless_guarantee enable_partition_eof transaction_two_phase_commit_enable": "false|f|0",
    "group_protocol_type": "consumer",
    "offset_store_method": "broker",
    "queuing_strategy": "fifo",
})
JAVA_CLASSES: Final = _each({
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
    "DefaultPartitioner": "murmur2",
    "UniformStickyPartitioner": "random",
    "RoundRobinPartitioner": "round_robin",
    "ByteArraySerializer ByteBufferSerializer BytesSerializer": "bytes",
    "ByteArrayDeserializer ByteBufferDeserializer BytesDeserializer": "bytes",
    "JsonSerializer KafkaJsonSerializer JsonDeserializer KafkaJsonDeserializer": "json",
    "StringSerializer StringDeserializer": "str",
})

# Methods and fields by class, in snake case, to which `method_hint` converts Java's names. The first row is for all classes.
_TOPICS: Final = NoCounterpart("AdminClient creates and deletes topics: AdminClient(client=client)")
METHODS: Final = {
    "": _each({"bootstrap_connected cluster describe_cluster memberid": "status", "stop": "close"}),
    "Producer": _each({
        "produce": "send",
        "send_and_wait": "send(…).result()",
        "send_batch create_batch produce_batch": "send_many",
        "poll": NoCounterpart("callbacks run on a thread of their own; no polling is needed"),
        "init start": NoCounterpart("a producer is ready when it is created"),
        "list_topics": "partitions_for",
    }),
    "Consumer": _each({
        "consume poll_batch fetch getmany getone get_message next_v2": "poll",
        "commit_sync commit_cached": "commit",
        "store_offsets": "commit(offsets)",
        "get_watermark_offsets": "beginning_offsets and end_offsets",
        "highwater": "end_offsets",
        "incremental_assign incremental_unassign": "assign",
        "current_lag": "lag",
        "unassign": "assign([])",
        "start": NoCounterpart("a consumer is ready when it is created"),
        "list_topics topics": NoCounterpart("AdminClient.list_topics lists topics, Client.partitions_for the partitions of one topic"),
        "partitions_for partitions_for_topic": "Client.partitions_for",
    }),
    "ShareConsumer": _each({
        "consume": "poll",
        "commit_sync": "commit",
        "ack": "accept",
        "nack": "release",
        "set_acknowledgement_commit_callback": "set_acknowledgement_callback",
        "assign": NoCounterpart("the coordinator of a share group assigns partitions; use subscribe"),
        "assignment": "status",
        "seek position committed": NoCounterpart("share groups have no positions: the broker keeps the state of each record"),
    }),
    "Client": _each({
        "list_topics": NoCounterpart("AdminClient.list_topics lists topics, partitions_for the partitions of one topic"),
        "partitions_for_topic": "partitions_for",
        "force_metadata_update set_topics": "refresh_metadata",
        "get_offsets offsets_for_times beginning_offsets end_offsets send_offset_request send_list_offset_request": "list_offsets",
        "send_fetch_request fetch_records multifetch multi_fetch fetch_messages": "fetch",
        "get_coordinator coordinator_for_group": "find_coordinator",
        "fetch_offsets fetch_consumer_group_offsets send_offset_fetch_request committed": "committed_offsets",
        "send_offset_commit_request commit": "commit_offsets",
        "send send_request make_request broker_aware_request invoke": "request",
        "create_topics delete_topics": _TOPICS,
    }),
    "AdminClient": _each({
        "list_consumer_groups": "list_groups",
        "describe_consumer_groups": "describe_groups",
        "delete_consumer_groups": "delete_groups",
        "delete_consumer_group_offsets delete_group_offsets": "delete_offsets",
        "list_consumer_group_offsets list_group_offsets": "group_offsets",
        "alter_consumer_group_offsets alter_group_offsets": "set_offsets",
        "reset_group_offsets": "plan_offsets",
        "start": NoCounterpart("an admin client is ready when it is created"),
        "incremental_alter_configs": "alter_configs",
    }),
    "Delivery": _each({
        "get wait": "result",
        "add_callback add_errback add_both": "add_done_callback",
        "is_done": "done",
        "succeeded": NoCounterpart("exception() is None once the record is acknowledged"),
        "failed": NoCounterpart("exception() is a DeliveryFailed once the record has failed"),
        "value": NoCounterpart("result() says where the record was written"),
        "error": "exception",
        "offset": "result().offset",
        "cancel": NoCounterpart("a record that was sent cannot be taken back; Producer.purge() fails the records that wait"),
    }),
    "Record": _each({
        "timestamp": "timestamp_ms",
        "error": NoCounterpart("poll raises errors; every Record comes from the log"),
        "checksum": NoCounterpart("the client has checked the checksum of the whole batch"),
        "serialized_key_size serialized_value_size serialized_header_size":
            NoCounterpart("len(record.key) and len(record.value) are the sizes"),
        "latency": NoCounterpart("hooks see when a record was sent and acknowledged"),
    }),
}
KEYWORDS: Final = _each({  # arguments of methods
    "timeout_ms": "timeout, in seconds",
    "num_messages max_messages max_rows": "max_records",
    "max_records": "max_rows",
    "update_offsets": "nothing: commits cover the records that earlier polls have returned",
    "pattern": "topics: a text or an re.Pattern is a pattern",
    "on_assign": "listener, an object with on_partitions_assigned",
    "on_revoke": "listener, an object with on_partitions_revoked",
    "on_lost": "listener, an object with on_partitions_lost",
    "message": "offsets={(record.topic, record.partition): record.offset + 1}",
    "asynchronous": "commit, which waits, or commit_async, which does not",
    "callback on_error": "on_delivery",
    "timestamp": "timestamp_ms",
    "metadata": "OffsetAndMetadata(offset, metadata=…) as the offset",
})
CLASSES: Final = _each({
    "KafkaProducer SerializingProducer SimpleProducer": "Producer",
    "KafkaConsumer DeserializingConsumer SimpleConsumer": "Consumer",
    "KafkaAdminClient": "AdminClient",
    "AIOKafkaProducer AIOProducer": "aio.Producer",
    "AIOKafkaConsumer AIOConsumer": "aio.Consumer",
    "KafkaClient": "Client",
    "ConsumerRecord Message": "Record",
    "KafkaException": "KafkaError",
    "KafkaTimeoutException": "KafkaTimeoutError",
    "ConsumerRebalanceListener": "any object with on_partitions_assigned and on_partitions_revoked",
})
# fmt: on


def by_prefix(table: Mapping[str, str], name: str) -> str | None:
    """The first row whose key, without its final `*`, is a prefix of `name`."""
    return next((row for start, row in table.items() if start[-1] == "*" and name.startswith(start[:-1])), None)


def option_hint(name: str, known: Collection[str]) -> str | None:
    """A hint for another client's option; None for an unknown name, or if the counterpart is not in `known`.

    `known` are the options of the called class.
    """
    instead = OPTIONS.get(name) or by_prefix(OPTIONS, name)
    if instead is None or isinstance(instead, NoCounterpart):
        return instead
    return f"did you mean {instead!r}?" if instead in known else None


def method_hint(owner: str, name: str, real_names: Iterable[str]) -> str:
    """A message such as `Producer has no 'produce'; use 'send'`, for users of other clients and for misspelt names."""
    real = [each for each in real_names if not each.startswith("_")]
    plain = re.sub("([A-Z])", r"_\1", name).lower()  # from Java's camelCase
    rows = METHODS[owner.removeprefix("aio.")]
    instead = rows.get(plain) or next((each for each in (METHODS[""].get(plain), plain) if each in real), None)
    if isinstance(instead, NoCounterpart):
        return f"{owner} has no {name!r}: {instead}"
    if instead is not None:
        return f"{owner} has no {name!r}; use {instead!r}"
    near = difflib.get_close_matches(plain, real, n=1)
    return f"{owner} has no {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
