"""Declares the options as types, for type checkers and editors; rendered by `make options` from `pykafka4.options.config`.

`KAFKA: ClientOptions = {"bootstrap_servers": "host:9092"}` is a plain dict; `Producer(**KAFKA)` is checked by name and type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias, TypedDict

from pykafka4.assignors.interface import Assignor
from pykafka4.partitioners import PartitionFunction
from pykafka4.serializers import Deserializers, Serializers

__all__ = [
    "BytesConsumerOptions",
    "ClientOptions",
    "ConsumerOptions",
    "ProducerOptions",
    "Secret",
    "SecurityOptions",
    "Servers",
    "ShareConsumerOptions",
]

Servers: TypeAlias = str | Iterable[str | tuple[str, int]]
Secret: TypeAlias = str | Callable[[], str] | None


class SecurityOptions(TypedDict, total=False):
    """Options of encryption and authentication."""

    security_protocol: str
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: Secret
    ssl_ca_pem: str | None
    ssl_cert_pem: str | None
    ssl_key_pem: Secret
    ssl_check_hostname: bool
    ssl_ciphers: str | None
    ssl_context: object
    sasl_mechanism: str | None
    sasl_username: str | Callable[[], str] | None
    sasl_password: Secret
    sasl_delegation_token: bool
    sasl_oauth_token: Callable[[], object] | None
    sasl_kerberos_service_name: str
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None


class ClientOptions(SecurityOptions, total=False):
    """Options of every client, producer and consumer."""

    bootstrap_servers: Servers
    proxy_url: str | None
    allowed_hosts: str | Iterable[str] | None
    client_id: str
    enable_metrics_push: bool
    request_timeout_ms: float
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    reconnect_backoff_ms: float
    reconnect_backoff_max_ms: float
    socket_connection_setup_timeout_ms: float
    socket_connection_setup_timeout_max_ms: float
    connections_max_idle_ms: float
    metadata_max_age_ms: float
    allow_auto_create_topics: bool
    unknown_topic_timeout_ms: float
    receive_message_max_bytes: int


class ProducerOptions(ClientOptions, total=False):
    """Options of producers."""

    acks: str | int
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: float
    batch_size: int
    linger_ms: float | None
    batching: str
    batch_bytes: int | None
    batch_records: int | None
    buffer_memory: int
    max_partition_bytes: int | None
    on_full: str
    key_serializer: Serializers | None
    value_serializer: Serializers | None
    hooks: Any
    max_block_ms: float
    delivery_timeout_ms: float
    close_timeout_ms: float | None
    retries: int | None
    max_failed_attempts: int | None
    metadata_max_idle_ms: float
    max_request_size: int
    max_in_flight_requests_per_connection: int
    max_message_bytes: int | None
    compression_type: str
    partitioner: str | PartitionFunction
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    compression_level: int | None
    compression_min_bytes: int
    compression_max_ratio: float
    topic_policies: Mapping[str, Mapping[str, Any]]
    rate_limits: Mapping[str, tuple[int, float] | None]
    on_rate_limit: str


class BytesConsumerOptions(ClientOptions, total=False):
    """Options of consumers, without deserializers: keys and values are bytes."""

    group_id: str | None
    group_instance_id: str | None
    client_rack: str | None
    group_protocol: str
    group_remote_assignor: str | None
    session_timeout_ms: float
    heartbeat_interval_ms: float
    close_timeout_ms: float
    max_poll_interval_ms: float
    partition_assignment_strategy: str | Assignor | Iterable[str | Assignor]
    auto_offset_reset: str | timedelta
    exclude_internal_topics: bool
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: float
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_bytes: int
    max_poll_records: int
    max_decompressed_bytes: int
    on_poison: str
    hooks: Any


class ConsumerOptions(BytesConsumerOptions, total=False):
    """Options of consumers."""

    key_deserializer: Deserializers | None
    value_deserializer: Deserializers | None


class ShareConsumerOptions(ClientOptions, total=False):
    """Options of share consumers."""

    group_id: str | None
    client_rack: str | None
    share_acknowledgement_mode: str
    share_acquire_mode: str
    max_poll_interval_ms: float
    close_timeout_ms: float
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: float
    fetch_max_bytes: int
    max_decompressed_bytes: int
    hooks: Any
