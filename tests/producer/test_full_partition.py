"""A thread that waits for room in a full partition: everything that can end its wait does so."""

from __future__ import annotations

import pytest

from pykafka4 import BufferFull, ClosedError, Producer
from pykafka4.net.handoff.waiting import Gate
from pykafka4.testing import ModelServer
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, in_thread, until
from tests.producer.producing import Maker, Sending, knowing

ROOM = {"batch_size": 2_048, "buffer_memory": 1 << 20, "max_partition_bytes": 16_384, "linger_ms": 0}


def blocked(server: ModelServer, producer: Producer) -> Sending:
    """A thread that has stepped aside: partition 0 has no leader and is full."""
    knowing(producer)
    server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
    sending = Sending(producer, partition=0)
    until(lambda: inspect(producer).tickets[0].steps_aside)
    return sending


def test_a_send_to_another_partition_need_not_queue_up(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    sending = blocked(server, producer := make(**ROOM))
    until(lambda: inspect(producer).session.acc.full_partitions == {("t", 0)})
    monkeypatch.setattr(Gate, "wait", lambda *_, **how: pytest.fail("it queues up"))
    for _ in range(10):
        producer.send("t", b"v", partition=1).result(SECONDS)  # each in a batch of its own
    with pytest.raises(pytest.fail.Exception):
        producer.send("t", b"", partition=0)
    monkeypatch.undo()
    producer.close(0)
    sending.refused()


def test_a_leader_of_the_full_partition_ends_the_wait(server: ModelServer, make: Maker) -> None:
    sending = blocked(server, producer := make(**ROOM))
    before = len(sending.sent)
    server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
    until(lambda: len(sending.sent) > before + 20)
    producer.close(0)
    sending.refused()


def test_a_wait_behind_parked_records_ends_their_linger(server: ModelServer, make: Maker) -> None:
    server.delay("Metadata", 0.3)
    producer = make(**{**ROOM, "batch_size": 16_384, "linger_ms": 60_000}, max_block_ms=60_000)
    sending = [in_thread(lambda: producer.send("t", b"x" * 9_000, partition=0)) for _ in range(2)]
    until(lambda: not any(thread.is_alive() for thread in sending))


def test_the_delivery_timeout_of_its_batches_ends_the_wait(server: ModelServer, make: Maker) -> None:
    sending = blocked(server, producer := make(**ROOM, delivery_timeout_ms=300, request_timeout_ms=200))
    before = len(sending.sent)
    until(lambda: len(sending.sent) > before)
    producer.close(0)
    sending.refused()


def test_close_ends_the_wait_before_it_gives_up_the_records(server: ModelServer, make: Maker) -> None:
    sending = blocked(server, producer := make(**ROOM))
    closing = in_thread(lambda: producer.close(SECONDS * 1_000))
    assert isinstance(sending.refused(), ClosedError)
    assert closing.is_alive()
    server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
    closing.join(SECONDS)
    assert not closing.is_alive()


def test_max_block_ms_ends_the_wait(server: ModelServer, make: Maker) -> None:
    sending = blocked(server, make(**ROOM, max_block_ms=300))
    assert isinstance(sending.refused(), BufferFull)
