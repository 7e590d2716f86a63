"""Hooks of consumers: they see the records of each poll, on its thread, and lose none."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pykafka4 import ConfigError, Consumer, ConsumerHooks, Polled, ProducerHooks
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS


class Recording(ConsumerHooks):
    """Keeps all that it is told."""

    def __init__(self) -> None:
        self.polls: list[Polled] = []
        self.threads = set[threading.Thread]()

    def on_poll(self, polled: Polled) -> None:
        self.polls.append(polled)
        self.threads.add(threading.current_thread())


@pytest.fixture
def kafka(kafka_server: ModelServer) -> dict[str, Any]:
    kafka_server.create_topic("t", partitions=1)
    kafka_server.produce("t", *"abcdef")
    return {"bootstrap_servers": kafka_server.bootstrap_servers}


def reading(kafka: dict[str, Any], *hooks: object, **options: Any) -> Consumer[Any, Any]:
    consumer: Consumer[Any, Any] = Consumer(**kafka, hooks=hooks, **options)
    consumer.assign([("t", 0)])
    consumer.seek_to_beginning()
    return consumer


def test_a_hook_sees_the_deserialized_records_of_each_poll(kafka: dict[str, Any]) -> None:
    hook = Recording()
    with reading(kafka, hook, value_deserializer="str", client_id="reader") as consumer:
        records = consumer.poll(timeout=SECONDS, max_records=4) + consumer.poll(timeout=SECONDS)
        assert consumer.poll(timeout=0) == []
    assert [[record.value for record in polled.records] for polled in hook.polls] == [list("abcd"), list("ef")]
    assert [record for polled in hook.polls for record in polled.records] == records
    assert {(polled.client_id, polled.group) for polled in hook.polls} == {("reader", None)}
    assert all(0 <= polled.seconds < SECONDS for polled in hook.polls)
    assert hook.threads == {threading.current_thread()}


def test_a_hook_sees_the_lists_of_a_loop(kafka: dict[str, Any]) -> None:
    hook = Recording()
    with reading(kafka, hook) as consumer:
        assert [record.offset for record in consumer.until_end()] == list(range(6))
    assert [record.offset for polled in hook.polls for record in polled.records] == list(range(6))


def test_a_hook_that_raises_is_logged_once_and_loses_nothing(kafka: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def on_poll(self, polled: Polled) -> None:
            raise ZeroDivisionError

    hook = Recording()
    with reading(kafka, Broken(), hook) as consumer:
        assert sum(len(consumer.poll(timeout=SECONDS, max_records=2)) for _ in range(3)) == 6
    assert sum(len(polled.records) for polled in hook.polls) == 6
    assert sum("on_poll of the hook" in record.message for record in caplog.records) == 1


def test_hooks_of_producers_are_refused(kafka: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is not an object with one of the methods on_poll"):
        Consumer(**kafka, hooks=ProducerHooks())
