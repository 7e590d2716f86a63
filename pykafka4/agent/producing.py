"""Derives the options of the agent's producer from the settings.

Invariant: [kafka] replaces defaults of the agent; options that the agent itself sets are refused.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from pykafka4.agent.settings.kafka import ELSEWHERE
from pykafka4.agent.settings.values import AgentSettings, Batching, Offline, TopicSettings
from pykafka4.errors import ConfigError
from pykafka4.options.config import ProducerConfig
from pykafka4.options.policies import SETTINGS

__all__ = ["NEVER_MS", "PARTITIONERS", "UNKNOWN_TOPIC_MS", "producer_options"]

NEVER_MS: Final = 2**31 - 1  # the maximum of delivery_timeout_ms, 24 days: a message waits for the cluster while there is memory
# Brokers usually know a new topic within seconds. Until the timeout, messages for a misspelt topic use the pool.
UNKNOWN_TOPIC_MS: Final = 10_000
# One stuck partition, or one topic with AnyPartition, may use half of the pool; the other half is left for other topics.
SHARES: Final = 2
LEAST_SHARE: Final = 4096  # bytes, the minimum of max_partition_bytes
PARTITIONERS: Final = {Offline.WAIT: "late_partition_key_wait", Offline.NEXT: "late_partition_key"}
SCOPES: Final = {Batching.COMBINED: "combined", Batching.PER_TOPIC: "partition", Batching.OFF: "partition"}
NO_BATCHES: Final = {"linger_ms": 0, "batch_bytes": None, "batch_records": None}
DEFAULTS: Final = {name: attrs.fields_dict(ProducerConfig)[name].default for name in SETTINGS}


def producer_options(settings: AgentSettings) -> dict[str, Any]:
    """Return the producer's options. Raises ConfigError for an option that [kafka] must not have."""
    refused = [f"kafka.{name}: {ELSEWHERE[name]}" for name in settings.kafka if name in ELSEWHERE]
    if refused:
        raise ConfigError("; ".join(refused))
    topics = settings.topics
    return {
        "client_id": "pykafka4-agent",
        "delivery_timeout_ms": NEVER_MS,
        "unknown_topic_timeout_ms": UNKNOWN_TOPIC_MS,
        "max_partition_bytes": max(settings.inputs.max_buffer // SHARES, LEAST_SHARE),
        **settings.kafka,
        "buffer_memory": settings.inputs.max_buffer,
        "on_full": "raise",
        "allow_auto_create_topics": topics.autocreate,
        "close_timeout_ms": settings.service.shutdown_ms,
        "partitioner": PARTITIONERS[topics.offline],
        "partitioner_ignore_keys": True,
        **_policy(topics.default, topics.default),
        "topic_policies": {name: _policy(each, topics.default) for name, each in topics.named.items()},
    }


def _policy(own: TopicSettings, default: TopicSettings) -> dict[str, Any]:
    """Return a topic's settings as the producer names them. A topic whose codec is not the default does not inherit the default level."""
    batching = own.batching or default.batching or Batching.COMBINED
    policy: dict[str, Any] = {"batching": SCOPES[batching]}
    inherits_level = own.compression_type in (None, default.compression_type)
    for name in SETTINGS:
        if name == "batching":
            continue
        value = getattr(own, name)
        if value is None and (name != "compression_level" or inherits_level):
            value = getattr(default, name)
        if value is not None or own is not default:
            policy[name] = DEFAULTS[name] if value is None else value
    return {**policy, **NO_BATCHES} if batching is Batching.OFF else policy
