"""The first use of a client that is not let in, in every way, and the error that it has to get."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka4 import AdminClient, AuthenticationError, Client, Consumer, DeliveryFailed, KafkaError, Producer

SOON_S = 10.0  # seconds in which a client has to say that it is refused


def by_record(options: dict[str, Any], topic: str) -> KafkaError:
    with Producer(**options) as producer:
        error = producer.send(topic, b"x").exception(SOON_S)
    assert isinstance(error, DeliveryFailed)
    assert isinstance(error.cause, KafkaError)
    return error.cause


def by_poll(options: dict[str, Any], topic: str) -> KafkaError:
    with Consumer(**options, group_id=topic) as consumer:
        consumer.subscribe([topic])
        return raised(lambda: consumer.poll(SOON_S))


def by_lookup(options: dict[str, Any], topic: str) -> KafkaError:
    with Client(**options) as client:
        return raised(lambda: client.partitions_for(topic, timeout=SOON_S))


def by_refresh(options: dict[str, Any], topic: str) -> KafkaError:
    with Client(**options) as client:
        return raised(lambda: client.refresh_metadata([topic], timeout=SOON_S))


def by_admin(options: dict[str, Any], topic: str) -> KafkaError:
    with AdminClient(**options) as admin:
        return raised(lambda: admin.delete_topics([topic], timeout=SOON_S))


def by_ends(options: dict[str, Any], topic: str) -> KafkaError:
    with Consumer(**options) as consumer:
        return raised(lambda: consumer.end_offsets([(topic, 0)], timeout=SOON_S))


def raised(call: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value


def refusal(options: dict[str, Any], topic: str, *words: str, use: Any = by_lookup) -> AuthenticationError:
    """The error of the first use, which came soon, and names the broker and what `words` say."""
    began = time.monotonic()
    error = use(options, topic)
    assert time.monotonic() - began < SOON_S
    assert isinstance(error, AuthenticationError), error
    for word in (options["bootstrap_servers"], *words):
        assert word in str(error)
    return error


def works(client: Client) -> bool:
    """Whether a broker answers `client` within a second."""
    try:
        client.refresh_metadata([], timeout=1)
    except KafkaError:
        return False
    return True
