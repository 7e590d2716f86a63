"""Wrong calls, and the errors that they raise."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from pykafka4.client.client import Client
from pykafka4.consumer import Consumer
from pykafka4.core.consumer import fetch_answers
from pykafka4.errors import ClosedError, ConfigError, KafkaError, KafkaTimeoutError
from pykafka4.net.handoff.waiting import Signal
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Listener, Maker, fill, numbers, poll_until, read, topic
from tests.inspection import inspect


def test_misuse_is_answered_with_the_right_way(server: ModelServer, make: Maker) -> None:
    consumer, alone = make(group_id="g"), make()
    with pytest.raises(ConfigError, match="listed twice"):
        consumer.subscribe(["t", "t"])
    with pytest.raises(ConfigError, match="unsubscribe"):
        consumer.subscribe([])
    with pytest.raises(ConfigError, match="group_id"):
        alone.commit()
    with pytest.raises(ConfigError, match="group_id"):
        alone.committed([("t", 0)])
    with pytest.raises(ConfigError, match="t-0 is not assigned"):
        consumer.seek(("t", 0), 1)
    with pytest.raises(ConfigError, match="t-0 is not assigned"):
        consumer.position(("t", 0))
    with pytest.raises(ConfigError, match="must be from 0 to"):
        consumer.assign([("t", -1)])
    with pytest.raises(ConfigError, match="listed twice"):
        consumer.assign([("t", 1), ("t", 1)])
    with pytest.raises(ConfigError, match="or a list of these"):
        consumer.pause(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="use seek_to_beginning or seek_to_end"):
        consumer.seek(("t", 0), -2)
    with pytest.raises(TypeError, match=r"seek needs the offset of t-0: seek\(\('t', 0\), offset\)"):
        consumer.seek(("t", 0))
    with pytest.raises(ConfigError, match="without another offset, not offset=5"):
        consumer.seek({("t", 0): 5}, 5)
    with pytest.raises(TypeError, match=r"expected a TopicPartition or a .* not 't'"):
        consumer.seek({"t": 5})
    with pytest.raises(TypeError, match=r"offset .* must be an int, not None"):
        consumer.seek({("t", 0): None})
    with pytest.raises(ConfigError, match="on_partitions_assigned"):
        consumer.subscribe(["t"], object())
    with pytest.raises(ConfigError, match="max_records"):
        consumer.poll(0, max_records=0)
    with pytest.raises(ConfigError, match="timeout"):
        consumer.poll(-1)
    with pytest.raises(ConfigError, match="no topics or partitions; call subscribe or assign"):
        consumer.poll()
    with pytest.raises(AttributeError, match="Consumer has no 'consume'; use 'poll'"):
        consumer.consume  # noqa: B018
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(consumer)
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Consumer(group_id="g")
    with pytest.raises(TypeError, match="offset of"):
        consumer.commit({("t", 0): "1"})  # type: ignore[dict-item]


def test_a_closed_consumer_says_that_the_consumer_is_closed(make: Maker) -> None:
    consumer = make.assigned(0)
    consumer.close()
    for call in (lambda: consumer.poll(0), lambda: next(iter(consumer)), lambda: consumer.pause([("t", 0)])):
        with pytest.raises(ClosedError, match="this consumer is closed"):
            call()


def test_a_poll_from_a_second_thread_is_refused_and_both_are_named(server: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0)

    def wait() -> None:
        with pytest.raises(ClosedError):
            consumer.poll(LONG)

    thread = threading.Thread(target=wait, name="first")
    thread.start()
    deadline = time.monotonic() + LONG
    while not inspect(consumer).busy:
        assert time.monotonic() < deadline
    with pytest.raises(KafkaError, match="thread 'MainThread' called poll while thread 'first' is in poll"):
        consumer.poll(0)
    with pytest.raises(KafkaError, match="thread 'MainThread' called seek while thread 'first' is in poll"):
        consumer.seek(("t", 0), 1)
    consumer.close()
    thread.join(LONG)
    assert not thread.is_alive()


def test_poll_inside_a_listener_is_refused(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make(group_id="g")

    class Polling(Listener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            consumer.poll(0)

    consumer.subscribe(["t"], Polling())
    with pytest.raises(KafkaError, match="inside on_partitions_assigned"):
        poll_until(consumer, lambda: False)


def test_wrong_arguments_of_commits_assignments_and_sharing_are_named(server: ModelServer, make: Maker) -> None:
    consumer = make(group_id="g")
    with pytest.raises(TypeError, match="must map partitions to offsets"):
        consumer.commit([("t", 0)])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_done must be callable"):
        consumer.commit_async({}, on_done=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at most 4,096 bytes"):
        consumer.commit({("t", 0): OffsetAndMetadata(1, metadata="x" * 4_097)})
    with pytest.raises(ConfigError, match="must be a TopicPartition or"):
        consumer.assign("t")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"must be a pykafka4\.Client"):
        Consumer({"group_id": "g"})  # type: ignore[arg-type]
    consumer.subscribe(["t"])
    with pytest.raises(ConfigError, match="both subscribed and assigned"):
        consumer.assign([("t", 0)])
    shared = Client(bootstrap_servers=server.bootstrap_servers)
    with shared, pytest.raises(ConfigError, match="request_timeout_ms: set by the shared Client"):
        Consumer(client=shared, request_timeout_ms=5_000)
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.__enter__()


def test_numbers_of_other_libraries_are_numbers(server: ModelServer, make: Maker) -> None:
    """Those of numpy are no ints, and its floats of 32 bits no floats."""

    class Count:
        def __index__(self) -> int:
            return 2

    topic(server, 10)
    consumer = make.assigned(0, group_id="g")
    assert len(consumer.poll(LONG, Count())) == 2  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs subscribe"):
        consumer.extend_lease(Fraction(1, 2))  # type: ignore[arg-type]
    for wrong in (Fraction(1), True, 2.0):
        with pytest.raises(ConfigError, match="must be an int of at least 1"):
            consumer.poll(0, wrong)  # type: ignore[arg-type]


def test_batches_hands_out_at_most_max_records(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([("t", 0)])
    batches = consumer.batches(LONG, max_records=1)
    for _ in range(3):
        assert len(next(batches)) == 1


def test_position_gives_up_at_its_timeout(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    server.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=10_000)
    consumer = make(group_id="g")
    consumer.assign([("t", 0)])
    with pytest.raises(KafkaTimeoutError, match=r"0\.05 s"):
        consumer.position(("t", 0), timeout=0.05)


def test_callbacks_of_commits_run_on_the_executor_given_to_the_consumer(server: ModelServer) -> None:
    topic(server, 0)
    names: list[str] = []
    done = threading.Event()

    def on_done(*_: object) -> None:
        names.append(threading.current_thread().name)
        done.set()

    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        options = {"bootstrap_servers": server.bootstrap_servers, "group_id": "g", "callback_executor": executor}
        with Consumer(**options) as consumer:  # type: ignore[arg-type]
            consumer.commit_async({("t", 0): 1}, on_done)
            assert done.wait(LONG)
    assert names[0].startswith("mine")


@pytest.mark.parametrize("call", ["pause", "seek", "position", "assign", "close"])
def test_a_call_from_a_handler_during_a_poll_is_refused_and_suggests_wakeup(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A signal handler that runs while `poll` decompresses a batch. What it calls would take records from under the poll."""
    server.create_topic("t", 2)
    for partition in (0, 1):
        fill(server, "t", partition, numbers(0, 100), codec=1)
    told: list[str] = []
    place = ("t", 0)
    calls = {
        "pause": lambda: consumer.pause([place]),
        "seek": lambda: consumer.seek(place, 50),
        "position": lambda: consumer.position(place, 0),
        "assign": lambda: consumer.assign([place]),
        "close": lambda: consumer.close(),
    }

    def handler() -> None:
        try:
            calls[call]()
        except KafkaError as error:
            told.append(str(error))
        consumer.wakeup()

    unpack = fetch_answers._decompress
    monkeypatch.setattr(fetch_answers, "_decompress", lambda *args: (handler(), unpack(*args))[1])
    consumer = make.assigned(0, 1)  # from here on the loop fetches, and gives what it has the function that unpacks it
    records = read(consumer, 200)
    assert told
    assert set(told) == {
        f"a signal handler, destructor or callback called {call} during poll: call wakeup() there, and {call} after poll has returned"
    }
    assert sorted((r.partition, r.offset) for r in records) == [(p, n) for p in (0, 1) for n in range(100)]
    monkeypatch.undo()
    calls[call]()


def test_a_handler_may_call_the_consumer_while_a_poll_waits(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 10, 10)
    consumer, called = make.assigned(0, 1), []
    assert len(read(consumer, 20)) == 20
    wait = Signal.wait

    def interrupted(self: Signal, predicate: object, timeout: float | None = None) -> bool:
        if not called:
            called.append("seek")
            consumer.seek(("t", 0), 5)
        return wait(self, predicate, timeout)  # type: ignore[arg-type]

    monkeypatch.setattr(Signal, "wait", interrupted)
    assert [r.offset for r in read(consumer, 5)] == [5, 6, 7, 8, 9]
    assert called


def test_a_poll_from_a_handler_during_a_poll_is_refused_and_says_what_to_do(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 10, 10)
    consumer, said = make.assigned(0, 1), list[str]()
    wait = Signal.wait

    def interrupted(self: Signal, predicate: object, timeout: float | None = None) -> bool:
        if not said:
            with pytest.raises(KafkaError) as caught:
                consumer.poll(0)
            said.append(str(caught.value))
        return wait(self, predicate, timeout)  # type: ignore[arg-type]

    monkeypatch.setattr(Signal, "wait", interrupted)
    assert len(read(consumer, 20)) == 20
    assert said == [
        "a signal handler, destructor or callback called poll during poll: call wakeup() there, and poll after poll has returned"
    ]
