"""Makes a client from the properties of another Kafka client. Invariant: options given as arguments replace options from properties."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pykafka4.errors import ConfigError
from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.other_clients import properties
from pykafka4.other_clients.source import Properties
from pykafka4.other_clients.translation import Translation

__all__ = ["Properties", "create", "translate"]

T = TypeVar("T")

KINDS: Final = {"client": ClientConfig, "producer": ProducerConfig, "consumer": ConsumerConfig, "share consumer": ShareConsumerConfig}


def translate(kind: type[ClientConfig], source: Properties, more: Mapping[str, Any]) -> Translation:
    """Translate `source`, except for options in `more`, and log ignored properties. Raises ConfigError, TypeError, OSError."""
    return properties.translate(KINDS, next(name for name, each in KINDS.items() if each is kind), source, more)


def create(make: Callable[..., T], kind: type[ClientConfig], source: Properties, options: Mapping[str, Any], **others: object) -> T:
    """Call `make` with the options of `source`, overridden by `options`, and with the `others` that are not None.

    A None is not passed, because a subclass may lack the argument. If `make` raises a ConfigError that names an option from `source`, a
    note adds the property and its place.
    """
    more = {**options, **{name: value for name, value in others.items() if value is not None}}
    found = translate(kind, source, more)
    try:
        return make(**found.options, **more)
    except ConfigError as error:
        text = str(error)  # the note has the origins only of options that the error names
        named = [f"{option} is {item.name} of {item.where}" for option, item in found.origins.items() if re.search(rf"\b{option}\b", text)]
        if named:
            error.add_note("; ".join(named))
        raise
