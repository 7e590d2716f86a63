"""Turns options into policies of topics. Invariant: topics of one pattern share a `Policy`; a topic with a rate limit has its own copy."""

from __future__ import annotations

from typing import Any

import attrs

from pykafka4.options.config import ProducerConfig
from pykafka4.options.policies import Matcher
from pykafka4.producer.rates import RateLimits
from pykafka4.wire.records.compression import CODECS
from pykafka4.wire.records.policy import Policy

__all__ = ["TopicPolicies", "codecs_of"]


def codecs_of(config: ProducerConfig) -> set[str]:
    named = (dict(policy.settings).get("compression_type") for policy in config.topic_policies)
    return {config.compression_type, *(name for name in named if name is not None)}


class TopicPolicies:
    def __init__(self, config: ProducerConfig, limits: RateLimits) -> None:
        self._limits, self._drop = limits, config.on_rate_limit == "drop"
        self._find = Matcher({policy.pattern: _policy(config, dict(policy.settings)) for policy in config.topic_policies})
        self._default = _policy(config, {})

    def __call__(self, topic: str) -> Policy:
        policy = self._find(topic) or self._default
        admit = self._limits.admission(topic, drop=self._drop)
        return policy if admit is None else attrs.evolve(policy, admit=admit)


def _policy(config: ProducerConfig, own: dict[str, Any]) -> Policy:
    """The producer's compression level is inherited only for the same codec."""
    codec = own.get("compression_type", config.compression_type)
    level = own.get("compression_level", config.compression_level if codec == config.compression_type else None)

    def setting(name: str) -> Any:
        return own[name] if name in own else getattr(config, name)

    linger = setting("linger_ms")
    return Policy(
        linger=(config.delivery_timeout_ms / 2 if linger is None else linger) / 1000,
        codec=CODECS[codec],
        level=level,
        batch_bytes=setting("batch_bytes") or 0,
        batch_records=setting("batch_records") or 0,
        combined=setting("batching") == "combined",
        compression_min_bytes=setting("compression_min_bytes"),
        compression_max_ratio=setting("compression_max_ratio"),
        max_message_bytes=setting("max_message_bytes") or 0,
    )
