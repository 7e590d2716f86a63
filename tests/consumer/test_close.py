"""Ends: close, Ctrl-C, fork, a client that closes, a handle that is forgotten."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings

import pytest
from application import LONG, Maker, fill, numbers, poll_until, read, topic

from pykafka4.client import Client
from pykafka4.consumer import Consumer
from pykafka4.errors import ClosedError, ConfigError, ForkedClientError
from pykafka4.testing import ModelServer


def test_after_close_every_call_says_so_and_close_works_again(server: ModelServer, make: Maker) -> None:
    consumer = make(group_id="g")
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.commit, lambda: consumer.subscribe(["t"]), lambda: consumer.assign([("t", 0)])):
        with pytest.raises(ClosedError):
            call()
    assert consumer.status()["consumer"]["state"] == "closed"


def test_close_leaves_the_group_at_once(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.member()
    poll_until(consumer, consumer.assignment)
    consumer.close()
    server.wait_for(lambda cluster: not cluster.group("g").members, 1.0)


def test_close_is_bounded_when_no_broker_is_in_reach(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make.member()
    read(consumer, 3)
    consumer.poll(0)
    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
    began = time.monotonic()
    consumer.close(1.0)
    assert time.monotonic() - began < 1.6


def test_ctrl_c_leaves_poll_at_once_and_loses_nothing(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.assigned(0)
    consumer.poll(0.1)
    main = threading.get_ident()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(LONG)
        assert time.monotonic() - began < 3
    finally:
        signal.signal(signal.SIGINT, before)
    fill(server, "t", 0, numbers(0, 3))
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]


def test_a_forked_child_is_told_to_make_its_own_and_the_parent_reads_on(server: ModelServer, make: Maker) -> None:
    topic(server, 4)
    consumer = make.member()
    read(consumer, 2, max_records=2)
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (consumer.poll, consumer.commit, lambda: consumer.seek(("t", 0), 0), lambda: next(iter(consumer))):
            try:
                call()
            except ForkedClientError:
                refused += 1
        consumer.close()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert [r.offset for r in read(consumer, 2)] == [2, 3]
    consumer.commit()


def test_a_client_that_closes_closes_its_consumers(server: ModelServer) -> None:
    topic(server, 0)
    client = Client(bootstrap_servers=server.bootstrap_servers)
    consumer = Consumer(client=client, group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    client.close()
    with pytest.raises(ClosedError):
        consumer.poll(0)
    server.wait_for(lambda cluster: not cluster.group("g").members)
    consumer.close()


def test_consumers_share_a_client_and_leave_it_open(server: ModelServer) -> None:
    topic(server, 3)
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        for _ in range(2):
            with Consumer(client=client, auto_offset_reset="earliest") as consumer:
                consumer.assign([("t", 0)])
                read(consumer, 3)
        assert client.partitions_for("t", LONG) == [0]
        with pytest.raises(ConfigError, match="client_id"):
            Consumer(client=client, client_id="x")


def test_a_forgotten_consumer_warns_and_leaves(server: ModelServer) -> None:
    topic(server, 0)
    consumer = Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g")
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert [w.category for w in caught] == [ResourceWarning]
    server.wait_for(lambda cluster: not cluster.group("g").members)
