"""Calls of a client that the whole cluster refuses end soon, with the reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka4 import AdminClient, AuthenticationError, Consumer, Producer, ShareConsumer
from tests.net.net_helpers import serving

SECONDS = 60.0  # the timeout of the calls, for which they must not wait


def administer(options: dict[str, Any], call: Callable[[AdminClient], object]) -> object:
    with AdminClient(**options) as admin:
        return call(admin)


def look_up(options: dict[str, Any]) -> object:
    with Consumer(**options) as consumer:
        return consumer.end_offsets([("t", 0)], timeout=SECONDS)


def initialize(options: dict[str, Any]) -> None:
    with Producer(**options, transactional_id="x") as producer:
        producer.init_transactions(timeout=SECONDS)


def share(options: dict[str, Any]) -> object:
    with ShareConsumer(**options, group_id="g") as consumer:
        consumer.subscribe(["t"])
        return consumer.poll(SECONDS)


CALLS: dict[str, Callable[[dict[str, Any]], object]] = {
    "describe_cluster": lambda options: administer(options, lambda admin: admin.describe_cluster(timeout=SECONDS)),
    "list_groups": lambda options: administer(options, lambda admin: admin.list_groups(timeout=SECONDS)),
    "list_topics": lambda options: administer(options, lambda admin: admin.list_topics(timeout=SECONDS)),
    "describe_group": lambda options: administer(options, lambda admin: admin.describe_group("g", timeout=SECONDS)),
    "delete_topics": lambda options: administer(options, lambda admin: admin.delete_topics(["t"], timeout=SECONDS)),
    "end_offsets": look_up,
    "init_transactions": initialize,
    "poll of a share consumer": share,
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_a_client_that_no_broker_accepts_raises_the_reason_long_before_its_timeout(call: str) -> None:
    def speak_http(connection: Any) -> None:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with serving(speak_http) as port:
        began = time.monotonic()
        with pytest.raises(AuthenticationError, match=r"the peer speaks HTTP, not Kafka; is the port right\?$") as caught:
            CALLS[call]({"bootstrap_servers": f"127.0.0.1:{port}", "security_protocol": "SSL"})
        assert not getattr(caught.value, "__notes__", [])  # no broker has the request
        assert time.monotonic() - began < SECONDS / 3
