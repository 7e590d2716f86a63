"""Fork: the child gets an error at once, and touches nothing of its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import warnings
from collections.abc import Callable

import pytest

from pykafka4 import ForkedClientError, Producer
from pykafka4.net.handoff import workers
from pykafka4.producer.forgotten import deliver_forgotten
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import Delivery
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, in_child
from tests.producer.producing import Maker, knowing, stop_all, values


async def awaited(delivery: Delivery) -> object:
    return await delivery


USES: dict[str, Callable[[Producer, Delivery], object]] = {
    "send": lambda producer, delivery: producer.send("t", b"v"),
    "send to a new topic": lambda producer, delivery: producer.send("new", b"v"),
    "flush": lambda producer, delivery: producer.flush(),
    "result": lambda producer, delivery: delivery.result(),
    "exception": lambda producer, delivery: delivery.exception(SECONDS),
    "callback": lambda producer, delivery: delivery.add_done_callback(print),
    "await": lambda producer, delivery: asyncio.run(awaited(delivery)),  # type: ignore[arg-type]
    "partitions_for": lambda producer, delivery: producer.partitions_for("t"),
    "delivery_scope": lambda producer, delivery: producer.delivery_scope().__enter__().flush(),
    "with": lambda producer, delivery: producer.__enter__(),
    "stats": lambda producer, delivery: producer.stats(),
}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("use", USES)
def test_a_forked_child_gets_an_error_at_once(server: ModelServer, make: Maker, use: str) -> None:
    producer = knowing(make())
    stop_all(server)
    delivery = producer.send("t", b"v", partition=0)
    assert in_child(lambda: str(USES[use](producer, delivery))).startswith("ForkedClientError: this ")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_status_in_a_forked_child_says_so(make: Maker) -> None:
    producer = knowing(make())

    def look() -> str:
        status = producer.status()
        return f"{status['state']}: {status['partitions']} {status['producer']}"

    assert in_child(look) == "forked: {} {}"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("leave", [lambda: None, lambda: sys.exit(3)], ids=["by returning", "by sys.exit"])
def test_where_a_callback_forks_the_child_ends_with_it_and_the_others_run_in_the_parent_alone(
    make: Maker, leave: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "IDLE_S", 10 * SECONDS)  # what the thread of callbacks waits for more of them
    reader, writer = os.pipe()
    children: list[int] = []

    def fork(_: Delivery) -> None:
        child = os.fork()
        if child:
            children.append(child)
        else:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(SECONDS))
            os.write(writer, b"child ")
            leave()

    producer = make(linger_ms=60_000)
    producer.send("t", b"1", partition=0, on_delivery=fork)
    second = producer.send("t", b"2", partition=0, on_delivery=lambda _: os.write(writer, b"second "))
    second.add_done_callback(lambda _: os.write(writer, b"third "))
    producer.send("t", b"3", partition=1, on_delivery=lambda _: os.write(writer, b"fourth "))
    producer.flush(SECONDS)
    os.close(writer)
    _, status = os.waitpid(children[0], 0)
    said = os.read(reader, 1000)
    os.close(reader)
    assert sorted(said.split()) == [b"child", b"fourth", b"second", b"third"]
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_closes_without_a_warning_and_the_parent_goes_on(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(linger_ms=60_000))
    there = producer.send("t", b"there", partition=0)
    producer.flush(SECONDS)
    delivery = producer.send("t", b"v", partition=0)

    def leave() -> str:
        nonlocal producer
        outcome = producer.close(), there.result().offset, delivery.done()
        with pytest.raises(ForkedClientError):
            there.add_done_callback(print)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            deliver_forgotten(inspect(producer).session)
        return str(outcome)

    with inspect(producer).session.gate.lock:  # as another thread may have them
        assert in_child(leave) == "([], 1, False)"
    producer.flush(SECONDS)
    assert delivery.result(0).offset == 2
    assert values(server) == [b"first", b"there", b"v"]
