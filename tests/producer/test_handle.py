"""The producer's handle: subclasses and patches are respected, a `with` block raises unread failures, awaiting works."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Protocol
from unittest import mock

import pytest

from pykafka4 import BufferFull, Client, Consumer, DeliveryFailed, KafkaTimeoutError, Producer
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Gate
from pykafka4.testing import ModelServer
from pykafka4.wire.records import hot
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import FEW, Maker, stop_all, values

GONE = {"delivery_timeout_ms": 300, "linger_ms": 0}


# -- overrides


def is_direct(producer: Producer) -> bool:
    """Whether `send` of this instance is the accumulator's own method (compiled core only), and no replacement of a method of the class."""
    direct = hot.IMPLEMENTATION == "python" or isinstance(producer.send.__self__, hot.Accumulator)  # type: ignore[attr-defined]
    return direct and "send" not in vars(producer)


def test_send_of_an_instance_is_the_method_of_its_accumulator(make: Maker) -> None:
    assert is_direct(make())


@pytest.mark.parametrize("double", [mock.create_autospec(Producer, instance=True), mock.create_autospec(Producer)()])
def test_a_mock_of_a_producer_takes_what_send_takes(double: Any) -> None:
    double.send("t", b"v", key=b"k")
    double.send.assert_called_once_with(topic="t", value=b"v", key=b"k")
    with pytest.raises(TypeError, match="topic"):
        double.send()
    with mock.patch.object(Producer, "send", autospec=True) as patched:
        Producer.send(double, "t")
    patched.assert_called_once_with(double, "t")


def test_a_subclass_may_override_send(server: ModelServer) -> None:
    class Shouting(Producer):
        def send(self, topic: str, value: Any = None, **how: Any) -> Any:
            return super().send(topic, value.upper(), **how)

    with Shouting(bootstrap_servers=server.bootstrap_servers) as producer:
        producer.send("t", b"quiet").result(SECONDS)
    assert values(server) == [b"QUIET"]


def test_a_subclass_that_leaves_send_alone_sends_as_directly(server: ModelServer) -> None:
    class Mine(Producer):
        pass

    with Mine(bootstrap_servers=server.bootstrap_servers) as producer:
        assert is_direct(producer)


@pytest.mark.parametrize("kind", [Producer, Consumer])
def test_a_patch_of_the_class_reaches_instances_made_before_and_ends_with_it(server: ModelServer, kind: type[Any]) -> None:
    name = "send" if kind is Producer else "poll"
    original = getattr(kind, name)
    seen: list[Any] = []

    def traced(self: Any, *args: Any, **how: Any) -> Any:
        seen.append(args)
        return original(self, *args, **how)

    with kind(bootstrap_servers=server.bootstrap_servers) as one:
        with mock.patch.object(kind, name, traced), kind(bootstrap_servers=server.bootstrap_servers) as other:
            for it in (one, other):
                if kind is Producer:
                    it.send("t", b"v").result(SECONDS)
                else:
                    it.assign([("t", 0)])
                    it.poll(0)
            assert len(seen) == 2
        assert name not in vars(one)
        assert getattr(kind, name) is original


class Sends(Protocol):
    def send(self, topic: str, value: Any = None, **how: Any) -> Any: ...


class Abstract(ABC):
    @abstractmethod
    def name(self) -> str: ...


class Optioned:
    option = 0

    def __init_subclass__(cls, option: int = 0) -> None:
        cls.option = option


@pytest.mark.parametrize("kind", [Producer, Consumer])
def test_a_subclass_may_have_other_base_classes_too(server: ModelServer, kind: type[Any]) -> None:
    class Incomplete(kind, Abstract):
        pass

    class Mine(kind, Abstract, Iterable, Sends, Optioned, option=7):  # type: ignore[misc,type-arg]
        def name(self) -> str:
            return "mine"

        def __iter__(self) -> Any:
            return iter(())

        def __eq__(self, other: object) -> bool:  # instances have no hash then
            return self is other

    class Overriding(Sends, kind):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Incomplete(bootstrap_servers=server.bootstrap_servers)
    with Mine(bootstrap_servers=server.bootstrap_servers) as mine:
        assert isinstance(mine, kind)
        assert isinstance(mine, Abstract)
        assert issubclass(Mine, kind)
        assert not isinstance(mine, Overriding)
        assert not isinstance(5, kind)
        assert not issubclass(int, kind)
        assert kind is Consumer or is_direct(mine)
        assert Mine.option == 7
    assert Overriding.send is Sends.send


def test_a_patch_of_a_subclass_ends_with_it(server: ModelServer) -> None:
    class Mine(Producer):
        pass

    with Mine(bootstrap_servers=server.bootstrap_servers) as producer:
        with mock.patch.object(Mine, "send", return_value="patched"):
            assert producer.send("t", b"v") == "patched"
        assert is_direct(producer)


# -- leaving a block


def test_failures_that_the_block_has_looked_at_are_not_raised_again(server: ModelServer) -> None:
    stop_all(server)
    with Producer(bootstrap_servers=server.bootstrap_servers, **GONE) as producer:
        for delivery in [producer.send("t", b"v", partition=0) for _ in range(3)]:
            with pytest.raises(DeliveryFailed):
                delivery.result(SECONDS)
            assert delivery.exception(0) is not None


@pytest.mark.parametrize("looked_at", [0, 1])
def test_an_unread_failure_is_raised_at_the_end_of_the_block(server: ModelServer, looked_at: int) -> None:
    stop_all(server)
    with pytest.raises(DeliveryFailed), Producer(bootstrap_servers=server.bootstrap_servers, **GONE) as producer:
        sent = [producer.send("t", b"v") for _ in range(3)]
        for delivery in sent[:looked_at]:
            assert delivery.exception(SECONDS) is not None
            assert delivery.exception(0) is not None, "twice the same one counts once"


def test_an_exception_in_the_block_gets_out_soon_although_no_broker_is_there(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.producer.session.EXIT_S", 0.2)
    stop_all(server)
    with pytest.raises(ZeroDivisionError) as caught, Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        producer.send("t", b"v")
        began = time.monotonic()
        raise ZeroDivisionError
    assert time.monotonic() - began < inspect(producer).session.config.delivery_timeout_ms / 1000 / 2
    assert "records not delivered when the producer closed: 1" in caught.value.__notes__[0]


def test_a_block_left_by_an_exception_still_delivers_what_can_be(server: ModelServer) -> None:
    with pytest.raises(ZeroDivisionError), Producer(bootstrap_servers=server.bootstrap_servers, linger_ms=60_000) as producer:
        producer.send("t", b"v")
        raise ZeroDivisionError
    assert values(server) == [b"v"]


# -- waits


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("wait", [lambda p: p.flush(SECONDS), lambda p: p.close(SECONDS)])
def test_flush_and_close_on_the_callbacks_executor_do_not_wait_for_themselves(make: Maker, executor: ThreadPoolExecutor, wait: Any) -> None:
    producer, called = make(callback_executor=executor), threading.Event()

    def work() -> float:
        producer.send("t", b"v", on_delivery=lambda _: called.set())
        began = time.monotonic()
        wait(producer)
        return time.monotonic() - began

    assert executor.submit(work).result(SECONDS * 2) < SECONDS / 2
    assert called.wait(SECONDS)


@pytest.mark.parametrize("threads", [1, 3])
def test_sends_on_every_thread_of_the_callbacks_executor_do_not_wait_for_callbacks_that_need_one(make: Maker, threads: int) -> None:
    called: list[int] = []
    with ThreadPoolExecutor(threads) as pool:
        producer = make(**FEW, callback_executor=pool, max_block_ms=SECONDS * 1000)

        def work(thread: int) -> None:
            for n in range(60):
                producer.send("t", b"y" * 5000, on_delivery=lambda _, n=n: called.append(thread * 60 + n))  # type: ignore[misc]

        for task in [pool.submit(work, thread) for thread in range(threads)]:
            task.result(SECONDS / 2)
        producer.close(SECONDS)
    assert sorted(called) == list(range(60 * threads)), "each once"


def test_a_delivery_is_awaited_on_the_only_thread_of_the_callbacks_executor(make: Maker, executor: ThreadPoolExecutor) -> None:
    producer = make(callback_executor=executor)

    async def main() -> int:
        return (await producer.send("t", b"v", partition=0)).offset

    assert executor.submit(lambda: asyncio.run(main())).result(SECONDS) == 0


@pytest.mark.parametrize("where", ["in the callback", "on a loop that the callback waits for"])
def test_a_delivery_is_awaited_while_a_callback_waits_for_that(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    producer, got = make(linger_ms=0), list[Any]()
    if where == "in the callback":
        monkeypatch.setattr("pykafka4.producer.deliveries.AWAIT_CALLBACK_S", 3_600.0)

    async def again() -> int:
        server.delay("Produce", 0.2)  # the outcome is not there yet when the task begins to wait
        return (await producer.send("t", b"2", partition=0)).offset

    async def main() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def on_delivery(_: Any) -> None:
            try:
                if where == "in the callback":
                    got.append(asyncio.run(asyncio.wait_for(again(), SECONDS)))
                else:
                    got.append(asyncio.run_coroutine_threadsafe(again(), loop).result(SECONDS))
            finally:
                loop.call_soon_threadsafe(over.set)

        producer.send("t", b"1", partition=0, on_delivery=on_delivery)
        await asyncio.wait_for(over.wait(), 2 * SECONDS)

    asyncio.run(main())
    assert got == [1]


class Loop(asyncio.SelectorEventLoop):
    """Notes on which threads it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[str] = []

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        self.callers.append(threading.current_thread().name)
        return super().call_soon_threadsafe(callback, *args, context=context)


def test_a_delivery_is_awaited_while_a_callback_hangs(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that sets the outcome wakes the task: neither the executor nor a timer."""
    monkeypatch.setattr("pykafka4.producer.deliveries.AWAIT_CALLBACK_S", 3_600.0)
    producer, hangs, release = make(linger_ms=0), threading.Event(), threading.Event()

    def hang(_: Any) -> None:
        hangs.set()
        release.wait(SECONDS)

    async def main() -> int:
        producer.send("t", b"1", partition=0, on_delivery=hang)
        while not hangs.is_set():
            await asyncio.sleep(0.001)
        server.delay("Produce", 0.05)  # the outcome is not there yet when the task begins to wait
        return (await asyncio.wait_for(producer.send("t", b"2", partition=0), SECONDS / 2)).offset

    assert asyncio.run(main()) == 1
    release.set()


def test_tasks_that_await_records_of_one_batch_are_woken_by_one_call(make: Maker) -> None:
    """The event loop's thread may come between the completions, and go to sleep again; so the best of five batches counts."""
    producer = make(linger_ms=500)  # the batch is whole, however slowly the tasks come

    async def one(n: int) -> int:
        return (await producer.send("t", b"%d" % n, partition=0)).offset

    async def main() -> list[int]:
        return await asyncio.gather(*(one(n) for n in range(200)))

    counts: list[int] = []
    while len(counts) < 5 and min(counts, default=200) > 5:
        loop = asyncio.SelectorEventLoop()
        calls: list[object] = []
        loop._write_to_self = lambda loop=loop, calls=calls: calls.append(loop._csock.send(b"\0"))  # type: ignore[attr-defined]
        try:
            first = 200 * len(counts)
            assert loop.run_until_complete(main()) == list(range(first, first + 200))
        finally:
            loop.close()
        counts.append(len(calls))
    assert 1 <= min(counts) <= 5, counts


def test_a_loop_of_the_applications_own_is_called_on_the_callback_executor(server: ModelServer, make: Maker) -> None:
    producer, loop = make(linger_ms=0), Loop()

    async def main() -> int:
        server.delay("Produce", 0.05)  # the outcome is not there yet when the task begins to wait
        return (await asyncio.wait_for(producer.send("t", b"v", partition=0), SECONDS)).offset

    try:
        assert loop.run_until_complete(main()) == 0
    finally:
        loop.close()
    assert set(loop.callers) <= {"pykafka4-callbacks"}


def test_a_loop_of_the_applications_own_in_a_callback_waits_for_no_other_callback(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka4.producer.deliveries.AWAIT_CALLBACK_S", 3_600.0)
    producer, got, over = make(linger_ms=0), list[Any](), threading.Event()

    async def again() -> int:
        server.delay("Produce", 0.05)  # the outcome is not there yet when the task begins to wait
        return (await asyncio.wait_for(producer.send("t", b"2", partition=0), SECONDS / 2)).offset

    def on_delivery(_: Any) -> None:
        loop = Loop()
        try:
            got.append(loop.run_until_complete(again()))
        finally:
            loop.close()
            over.set()

    producer.send("t", b"1", partition=0, on_delivery=on_delivery)
    assert over.wait(SECONDS)
    assert got == [1]


def test_send_gives_up_after_max_block_ms(server: ModelServer, make: Maker) -> None:
    producer = make(**FEW, max_block_ms=400)
    stop_all(server)
    with pytest.raises(BufferFull, match="max_block_ms=400"):
        while True:
            began = time.monotonic()
            producer.send("t", b"y" * 5000)
    assert 0.3 < time.monotonic() - began < 0.4 + SECONDS / 2


def test_max_block_ms_counts_from_the_first_wait_when_other_threads_take_the_room(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = make(**FEW, max_block_ms=400)
    stop_all(server)
    with pytest.raises(BufferFull):
        while True:
            producer.send("t", b"y" * 5000)
    now, waits = 1000.0, list[float]()

    def wait(_: Gate, try_again: Callable[[], bool], timeout: float, **how: object) -> bool:
        nonlocal now
        waits.append(round(timeout, 6))
        now += 0.15
        return timeout > 0 and len(waits) < 10  # there is room, and when this thread gets there it is taken

    monkeypatch.setattr(system, "monotonic", lambda: now)
    monkeypatch.setattr(Gate, "wait", wait)
    with pytest.raises(BufferFull, match="no room within max_block_ms=400"):
        producer.send("t", b"y" * 5000)
    assert waits == [0.4, 0.25, 0.1, 0.0]


def test_a_delivery_is_awaited_by_everything_that_takes_awaitables(make: Maker) -> None:
    producer = make()

    async def main() -> list[Any]:
        several = await asyncio.gather(producer.send("t", b"a"), producer.send("t", b"b"))
        one = await asyncio.wait_for(producer.send("t", b"c"), SECONDS)
        task = asyncio.ensure_future(producer.send("t", b"d"))
        return [*several, one, await task]

    assert [meta.topic for meta in asyncio.run(main())] == ["t"] * 4


def test_an_outcome_that_comes_after_the_asyncio_loop_is_closed_is_no_error(
    server: ModelServer, make: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    producer = make(delivery_timeout_ms=2_000)
    producer.send("t", b"known").result(SECONDS)
    stop_all(server)
    delivery = producer.send("t", b"v")

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(delivery, 0.01)

    asyncio.run(main())
    assert isinstance(delivery.exception(SECONDS), DeliveryFailed)
    producer.flush(SECONDS)
    assert "raised" not in caplog.text


def test_an_asyncio_loop_that_was_closed_before_the_outcome_does_not_stay_in_memory(server: ModelServer, make: Maker) -> None:
    producer = make()
    producer.send("t", b"known").result(SECONDS)
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        waiting = [asyncio.ensure_future(producer.send("t", b"v", partition=n)) for n in range(3)]  # more than one batch
        await asyncio.wait(waiting, timeout=0.01)
        for task in waiting:
            task.cancel()

    server.delay("Produce", 0.3)
    asyncio.run(main())
    producer.flush(SECONDS)
    until(lambda: _is_collected(loops[0]), "the loop's end")  # the thread of the producer may just be looking at it


def test_an_asyncio_loop_that_is_closed_before_it_runs_what_an_outcome_queued_does_not_stay_in_memory(
    server: ModelServer, make: Maker
) -> None:
    producer = make()
    producer.send("t", b"known").result(SECONDS)
    loop = asyncio.new_event_loop()
    weak = weakref.ref(loop)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(producer.send("t", b"v"), 0.01)

    server.delay("Produce", 0.3)
    loop.run_until_complete(main())
    producer.flush(SECONDS)  # the producer's thread has queued a call in the loop, which does not run
    loop.close()
    del loop
    until(lambda: _is_collected(weak), "the loop's end")


def _is_collected(weak: weakref.ref[Any]) -> bool:
    gc.collect()
    return weak() is None


class OtherExecutor(Executor):
    """An executor of the application, with an attribute that only has the name of one of the library's pool."""

    def __init__(self) -> None:
        self._threads = 1
        self._pool = ThreadPoolExecutor(self._threads)

    def submit(self, fn: Any, /, *args: Any, **how: Any) -> Any:
        return self._pool.submit(fn, *args, **how)


def test_flush_waits_for_callbacks_on_any_executor(make: Maker) -> None:
    producer, may_go, called = make(callback_executor=OtherExecutor()), threading.Event(), threading.Event()

    def on_delivery(_: Any) -> None:
        may_go.wait(SECONDS)
        called.set()

    delivery = producer.send("t", b"v", on_delivery=on_delivery)
    delivery.result(SECONDS)
    threading.Timer(0.1, may_go.set).start()
    producer.flush(SECONDS)
    assert called.is_set()


def test_flush_tells_late_callbacks_from_records_that_are_not_delivered(make: Maker) -> None:
    producer, may_return = make(), threading.Event()
    producer.send("t", b"v", on_delivery=lambda _: may_return.wait(SECONDS)).result(SECONDS)
    try:
        with pytest.raises(
            KafkaTimeoutError, match=r"flush: all records have their outcome, but delivery callbacks have not returned within"
        ):
            producer.flush(0.05)
    finally:
        may_return.set()
    producer.flush(SECONDS)


# -- listeners, partitions_for


def test_a_listener_can_be_removed(server: ModelServer) -> None:
    heard: list[object] = []
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        stop, other = client.events(heard.append), threading.Event()
        stop()
        stop()
        client.events(lambda _: other.set())
        client.refresh_metadata(["t"], SECONDS)
        assert other.wait(SECONDS)
        assert heard == []
        with pytest.raises(TypeError, match="must be callable"):
            client.events(5)  # type: ignore[arg-type]


def test_partitions_for_has_a_topic_created_as_send_does(server: ModelServer, make: Maker) -> None:
    server.do(lambda cluster: setattr(cluster, "auto_create", True) if hasattr(cluster, "auto_create") else None)
    assert make().partitions_for("fresh", SECONDS)


def test_partitions_for_says_why_at_its_first_timeout(make: Maker) -> None:
    with pytest.raises(KafkaTimeoutError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        make(allow_auto_create_topics=False).partitions_for("nowhere", 0.5)
