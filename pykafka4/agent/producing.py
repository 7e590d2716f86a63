"""Options of the agent's producer, from the settings."""

from __future__ import annotations

from typing import Any

from pykafka4.agent.settings.values import AgentSettings

__all__ = ["producer_options"]

NEVER_MS = 2**31 - 1  # a message waits for its cluster as long as there is memory for it


def producer_options(settings: AgentSettings) -> dict[str, Any]:
    """The options; those of [kafka] win."""
    return {
        "client_id": "pykafka4-agent",
        "buffer_memory": settings.inputs.max_buffer,
        "delivery_timeout_ms": NEVER_MS,
        "on_full": "raise",
        "allow_auto_create_topics": settings.topics.autocreate,
        "close_timeout_ms": settings.service.shutdown_ms,
        "partitioner": "late",
        "partitioner_ignore_keys": True,
        **settings.kafka,
    }
