"""Makes consumers and producers with the options of a command. The command's own options replace all others; its defaults replace none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykafka4.options.config import ConsumerConfig, ProducerConfig
from pykafka4.options.from_properties import Properties, create

if TYPE_CHECKING:  # most commands need only one of these classes, and each takes time to import
    from pykafka4.cli.invocation import Invocation
    from pykafka4.consumer.session import ConsumerSession
    from pykafka4.producer import Producer

__all__ = ["consumer_session", "producer"]


def consumer_session(invocation: Invocation, defaults: Mapping[str, Any], **decided: Any) -> ConsumerSession:
    """Make a consumer without a handle, because the command polls lists in its own forms. Raises the errors of `Invocation.consumer`."""
    from pykafka4.consumer.session import ConsumerSession

    def with_options(**options: Any) -> ConsumerSession:
        return ConsumerSession(None, None, {**defaults, **options})

    def make(properties: Properties, **options: Any) -> ConsumerSession:
        return create(with_options, ConsumerConfig, properties, options)

    return invocation.make(make, ConsumerConfig, decided)


def producer(invocation: Invocation, defaults: Mapping[str, Any], **decided: Any) -> Producer:
    from pykafka4.producer import Producer

    def with_options(**options: Any) -> Producer:
        return Producer(**{**defaults, **options})

    def make(properties: Properties, **options: Any) -> Producer:
        return create(with_options, ProducerConfig, properties, options)

    return invocation.make(make, ProducerConfig, decided)
