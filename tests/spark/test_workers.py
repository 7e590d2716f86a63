"""A producer belongs to one task at a time, and a failed task never gives one back; a client serves all tasks."""

from __future__ import annotations

import os

import pytest

from pykafka4.errors import ClosedError, ConfigError, KafkaTimeoutError
from pykafka4.spark import workers
from pykafka4.spark.workers import LIMIT, Pool

CONFIG = {"bootstrap_servers": "a:1"}


class FakeClient:
    """Counts how often it was closed; `state` is what its status says."""

    def __init__(self, **options):
        self.options, self.closed, self.state = options, 0, "connected"

    def status(self):
        return {"state": self.state}

    def close(self):
        self.closed += 1


class FakeProducer:
    """Counts how often it was closed; `broken` is what it raises when it is looked at, `stuck` what its close raises."""

    def __init__(self, **options):
        self.options, self.closed, self.broken, self.stuck = options, 0, None, None

    def flush(self, timeout):
        if self.broken:
            raise self.broken

    def close(self, timeout):
        assert timeout == 0, "a task that failed must not wait"
        self.closed += 1
        if self.stuck:
            raise self.stuck
        return []


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr("pykafka4.producer.Producer", FakeProducer)
    monkeypatch.setattr("pykafka4.client.client.Client", FakeClient)
    return Pool()


def lease(pool, config=CONFIG):
    """One task that succeeds; returns its producer."""
    with pool.lease(config) as producer:
        return producer


def test_the_next_task_gets_the_same_producer(pool):
    first = lease(pool)
    assert lease(pool) is first
    assert first.closed == 0


def test_the_options_are_compared_by_meaning(pool):
    assert lease(pool, {"bootstrap_servers": "a:1,b:2", "acks": "all"}) is lease(pool, {"acks": -1, "bootstrap_servers": ["a:1", "b:2"]})
    assert lease(pool, {"bootstrap_servers": "a:1"}) is not lease(pool, {"bootstrap_servers": "a:1", "linger_ms": 6})


def test_two_tasks_at_once_get_two_producers_and_one_is_kept(pool):
    with pool.lease(CONFIG) as first:
        second = lease(pool)
        assert second is not first
    assert second.closed == 1
    assert lease(pool) is first


def test_a_producer_with_serializers_for_topics_is_kept_and_one_whose_options_cannot_be_hashed_is_not(pool):
    options = {**CONFIG, "value_serializer": {"*": "json"}}
    assert lease(pool, options) is lease(pool, options)

    class Hook:
        __hash__ = None

        def on_close(self):
            pass

    hooked = lease(pool, {**CONFIG, "hooks": Hook()})
    assert hooked.closed == 1
    assert hooked not in pool.idle.values()


def test_a_failed_task_closes_its_producer_and_the_next_gets_a_new_one(pool):
    with pytest.raises(ZeroDivisionError), pool.lease(CONFIG) as failed:
        raise ZeroDivisionError
    assert failed.closed == 1
    assert lease(pool) is not failed
    assert not pool.leased


def test_a_producer_that_cannot_be_closed_does_not_hide_why_its_task_failed_nor_fail_another(pool):
    stuck = KafkaTimeoutError("close: the client's loop does not respond")
    with pytest.raises(ZeroDivisionError) as caught, pool.lease(CONFIG) as failed:
        failed.stuck = stuck
        raise ZeroDivisionError
    assert caught.value.__context__ is None
    with pool.lease(CONFIG) as first:
        lease(pool).stuck = stuck
    assert lease(pool) is first


def test_a_task_that_is_interrupted_counts_as_failed(pool):
    with pytest.raises(KeyboardInterrupt), pool.lease(CONFIG) as failed:
        raise KeyboardInterrupt
    assert failed.closed == 1
    assert not pool.idle


def test_a_producer_that_broke_while_idle_is_replaced(pool):
    first = lease(pool)
    first.broken = ClosedError("the loop crashed")
    assert lease(pool) is not first
    assert first.closed == 1


def test_no_more_than_the_limit_lie_idle_and_the_oldest_goes(pool):
    producers = [lease(pool, {**CONFIG, "linger_ms": n}) for n in range(LIMIT + 1)]
    assert [producer.closed for producer in producers] == [1] + [0] * LIMIT


def test_a_wrong_option_makes_no_producer(pool):
    with pytest.raises(ConfigError, match="did you mean"), pool.lease({**CONFIG, "linger": 1}):
        pass
    assert not pool.leased


def test_close_closes_what_is_idle(pool):
    producers = [lease(pool, {**CONFIG, "linger_ms": n}) for n in range(3)]
    client = pool.client(CONFIG)
    pool.close()
    assert [producer.closed for producer in producers] == [1, 1, 1]
    assert client.closed == 1


def test_all_tasks_share_the_client_of_a_configuration(pool):
    first = pool.client({"bootstrap_servers": "a:1,b:2"})
    assert pool.client({"bootstrap_servers": ["a:1", "b:2"]}) is first
    assert pool.client({"bootstrap_servers": "a:1"}) is not first


@pytest.mark.parametrize("state", ["closed", "crashed", "unresponsive"])
def test_a_client_that_is_gone_is_replaced(pool, state):
    first = pool.client(CONFIG)
    first.state = state
    assert pool.client(CONFIG) is not first


def test_no_more_clients_than_the_limit_and_the_one_unused_for_longest_goes(pool):
    clients = [pool.client({**CONFIG, "request_timeout_ms": 1000 + n}) for n in range(LIMIT)]
    pool.client({**CONFIG, "request_timeout_ms": 1000})
    pool.client({**CONFIG, "request_timeout_ms": 1})
    assert [client.closed for client in clients] == [0, 1] + [0] * (LIMIT - 2)


def test_a_forked_worker_has_clients_of_its_own(pool, monkeypatch):
    monkeypatch.setattr(workers, "_pools", {})
    inherited = workers.client_for(CONFIG)
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert workers.client_for(CONFIG) is not inherited
    assert inherited.closed == 0


def test_a_forked_worker_starts_with_a_pool_of_its_own(pool, monkeypatch):
    monkeypatch.setattr(workers, "_pools", {})
    inherited = lease(workers.pool())
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert lease(workers.pool()) is not inherited
    workers.close()
    assert inherited.closed == 0


@pytest.mark.parametrize(
    ("options", "linger"),
    [({}, 100), ({"linger_ms": 5}, 5), ({"linger_ms": None}, None), ({"delivery_timeout_ms": 50}, 5)],
)
def test_a_task_fills_its_batches_unless_the_options_say_otherwise(pool, options, linger):
    assert lease(pool, {**CONFIG, **options}).options["linger_ms"] == linger
