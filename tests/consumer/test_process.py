"""`Consumer.process`: handlers in parallel, and offsets that never pass a record that is not finished."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from integration.waiting import until
from pykafka4.consumer import Consumer
from pykafka4.consumer.processing.work import HandlerWork, Processed
from pykafka4.errors import ConfigError
from pykafka4.producer import Producer
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord
from pykafka4.wire.records.hot import Record
from tests.consumer.consuming import LONG, Listener, Maker, fill, read, topic
from tests.consumer.unsuited import key_in_a_task, numbers, numbers_in_a_task
from tests.inspection import inspect


def keyed(server: ModelServer, partitions: int, count: int, keys: int) -> None:
    """Topic `t`, with records of so many keys in each partition."""
    server.create_topic("t", partitions)
    for partition in range(partitions):
        records = [WireRecord(timestamp_ms=1, key=b"k%d-%d" % (partition, n % keys), value=b"%d" % n) for n in range(count)]
        server.do(lambda cluster, partition=partition, records=records: cluster.append("t", partition, records))


class Enough(threading.Event):
    """Set after so many records."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left, self._lock = count, threading.Lock()
        self.handled: list[Record] = []

    def note(self, record: Record) -> None:
        with self._lock:
            self.handled.append(record)
            self._left -= 1
            if not self._left:
                self.set()


class Numbers:
    def __call__(self, record: Record) -> Any:
        yield record.offset


class Plain(Numbers):
    def __init__(self, enough: Enough) -> None:
        self._enough = enough

    def __call__(self, record: Record) -> None:
        self._enough.note(record)


class TaskProducer:
    async def send(self, *arguments: Any, **options: Any) -> Any: ...


class ProcessPoolExecutor(Executor):
    """Stands for that of concurrent.futures, which starts processes."""


class Elsewhere(ProcessPoolExecutor): ...


def member(make: Maker, **options: Any) -> Consumer:
    return make.member(enable_auto_commit=False, **options)


def committed(consumer: Consumer, partitions: Iterable[int]) -> dict[int, int]:
    found = consumer.committed([("t", p) for p in partitions])
    return {tp.partition: at.offset for tp, at in found.items() if at is not None}


def test_all_records_are_handled_in_order_per_key_and_committed(server: ModelServer, make: Maker) -> None:
    keyed(server, 3, 400, 7)
    consumer, enough = member(make), Enough(1200)
    assert consumer.process(enough.note, workers=4, stop=enough) == Processed(1200, 0, 0)
    by_key: dict[bytes | None, list[int]] = {}
    for record in enough.handled:
        by_key.setdefault(record.key, []).append(record.offset)
    assert len(by_key) == 21
    assert all(offsets == sorted(offsets) for offsets in by_key.values())
    assert committed(consumer, range(3)) == {0: 400, 1: 400, 2: 400}
    assert {thread.name for thread in threading.enumerate() if thread.name.startswith("pykafka4-process") and not thread.daemon} <= {
        f"pykafka4-process_{n}" for n in range(4)
    }


def test_handlers_of_different_keys_run_at_the_same_time(server: ModelServer, make: Maker) -> None:
    keyed(server, 1, 4, 4)
    together, enough = threading.Barrier(4), Enough(4)

    def handle(record: Record) -> None:
        together.wait(LONG)
        enough.note(record)

    assert member(make).process(handle, workers=4, stop=enough).finished == 4


def test_by_partition_keeps_the_order_of_each_partition(server: ModelServer, make: Maker) -> None:
    keyed(server, 2, 100, 5)
    enough = Enough(200)
    member(make).process(enough.note, "partition", stop=enough)
    for partition in range(2):
        assert [r.offset for r in enough.handled if r.partition == partition] == list(range(100))


def test_an_unfinished_record_holds_back_the_commit_and_the_consumer_goes_on_there(server: ModelServer, make: Maker) -> None:
    keyed(server, 1, 20, 20)
    consumer, stop, blocked, late = member(make), threading.Event(), threading.Event(), Enough(19)

    def handle(record: Record) -> None:
        if record.offset == 3:
            blocked.wait(LONG)
        else:
            late.note(record)
            if late.is_set():
                stop.set()

    consumer.process(handle, stop=stop, drain_timeout=0)
    assert committed(consumer, [0]) == {0: 3}
    blocked.set()
    assert [record.offset for record in read(consumer, 17)] == list(range(3, 20))


def test_a_handler_that_raises_ends_it_with_that_exception_and_loses_nothing(server: ModelServer, make: Maker) -> None:
    keyed(server, 1, 10, 10)
    consumer = member(make)

    def handle(record: Record) -> None:
        if record.offset == 6:
            raise LookupError("no such customer")

    with pytest.raises(LookupError, match="no such customer") as caught:
        consumer.process(handle, "partition")
    assert caught.value.__notes__ == ["raised for t-0 at offset 6, attempt 1; that record is not finished"]
    assert committed(consumer, [0]) == {0: 6}
    assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]


def test_dead_letters_arrive_with_their_cause_and_the_rest_is_handled(server: ModelServer, make: Maker) -> None:
    keyed(server, 1, 10, 2)
    server.create_topic("dead", 1)
    consumer, enough = member(make), Enough(9)

    def handle(record: Record) -> None:
        if record.offset == 4:
            raise LookupError("no such customer")
        enough.note(record)

    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        done = consumer.process(handle, retries=2, retry_backoff=0.01, dead_letter="dead", producer=producer, stop=enough)
    assert done.dead_letters == 1
    assert done.retries == 2
    assert committed(consumer, [0]) == {0: 10}
    reader = make(group_id=None)
    reader.assign([("dead", 0)])
    (letter,) = read(reader, 1)
    assert (letter.key, letter.value) == (b"k0-0", b"4")
    assert dict(letter.headers)["dead_letter.message"] == b"no such customer"
    assert dict(letter.headers)["dead_letter.offset"] == b"4"


def test_what_a_handler_sends_is_acknowledged_before_the_commit(server: ModelServer, make: Maker) -> None:
    keyed(server, 2, 50, 3)
    server.create_topic("out", 1)
    consumer, enough = member(make), Enough(100)
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:

        def handle(record: Record) -> object:
            enough.note(record)
            return producer.send("out", record.value, key=record.key)

        consumer.process(handle, stop=enough)
        assert producer.stats().acked == 100
    assert committed(consumer, range(2)) == {0: 50, 1: 50}


def test_before_a_revocation_what_is_in_hand_is_finished_and_committed(server: ModelServer, make: Maker) -> None:
    keyed(server, 2, 200, 200)
    stop, handled, lock = threading.Event(), list[tuple[int, int, str]](), threading.Lock()
    revoked = threading.Event()

    class Telling(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            revoked.set()

    told = Telling()

    def handler(name: str) -> Callable[[Record], None]:
        def handle(record: Record) -> None:
            revoked.wait(0.02)  # long enough for the second member to come before the end
            with lock:
                handled.append((record.partition, record.offset, name))
                if len({(p, o) for p, o, _ in handled}) == 400:
                    stop.set()

        return handle

    first, second = member(make, max_poll_records=20), member(make, max_poll_records=20)
    first.subscribe(["t"], told)
    threads = [
        threading.Thread(target=consumer.process, args=(handler(name),), kwargs={"stop": stop})
        for name, consumer in (("first", first), ("second", second))
    ]
    threads[0].start()
    until(lambda: len(handled) >= 20, LONG, "records handled by the first member")
    threads[1].start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    assert len(handled) == 400, "nobody died, so nothing is handled twice"
    assert "revoked" in told.kinds
    for consumer in (first, second):
        consumer.close()
    assert committed(make(group_id="g"), range(2)) == {0: 200, 1: 200}


def test_a_slow_record_pauses_its_partition_alone(server: ModelServer, make: Maker) -> None:
    keyed(server, 2, 500, 500)
    consumer, blocked, stop = member(make, max_poll_records=10), threading.Event(), threading.Event()
    handled: dict[int, list[int]] = {0: [], 1: []}

    def handle(record: Record) -> None:
        if (record.partition, record.offset) == (0, 0):
            assert blocked.wait(LONG)
        handled[record.partition].append(record.offset)
        if len(handled[0]) + len(handled[1]) == 1000:
            stop.set()

    most = 0
    original = consumer.poll

    def poll(*arguments: Any) -> list[Record]:
        nonlocal most
        if not blocked.is_set():
            most = max(most, len(handled[0]))
        if len(handled[1]) == 500 and TopicPartition("t", 0) in consumer.paused():
            blocked.set()
        return original(*arguments)

    consumer.poll = poll  # type: ignore[method-assign]
    consumer.process(handle, workers=4, max_in_hand=40, stop=stop)
    assert most <= 40 + 10
    assert committed(consumer, range(2)) == {0: 500, 1: 500}
    assert consumer.paused() == set()


def test_a_partition_that_the_application_has_paused_stays_paused(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 10)
    consumer, enough = make(group_id="g", enable_auto_commit=False), Enough(10)
    consumer.assign([("t", 0), ("t", 1)])
    consumer.pause([("t", 1)])
    consumer.process(enough.note, max_in_hand=1, stop=enough)
    assert {record.partition for record in enough.handled} == {0}
    assert consumer.paused() == {TopicPartition("t", 1)}


def test_a_full_partition_that_the_application_pauses_stays_paused(server: ModelServer, make: Maker) -> None:
    topic(server, 30, 0)
    consumer, enough, tp = make(group_id="g", enable_auto_commit=False), Enough(10), TopicPartition("t", 0)
    consumer.assign([("t", 0), ("t", 1)])
    original = consumer.poll

    def poll(*arguments: Any) -> list[Record]:
        records = original(*arguments)
        if any(record.partition == 0 for record in records):
            consumer.pause([tp])  # as a signal handler may
            fill(server, "t", 1, [b"%d" % number for number in range(10)])  # what ends the run comes after that
        return records

    consumer.poll = poll  # type: ignore[method-assign]
    consumer.process(lambda record: enough.note(record) if record.partition else enough.wait(LONG), max_in_hand=2, stop=enough)
    assert consumer.paused() == {tp}


def test_without_a_group_nothing_is_committed(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer, enough = make.assigned(0), Enough(10)
    assert consumer.process(enough.note, stop=enough).finished == 10


def test_an_executor_of_the_application_is_used_and_left_open(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    enough, names = Enough(10), set[str]()

    def handle(record: Record) -> None:
        names.add(threading.current_thread().name)
        enough.note(record)

    with ThreadPoolExecutor(2, "mine") as executor:
        member(make).process(handle, executor=executor, stop=enough)
        assert all(name.startswith("mine") for name in names)
        assert executor.submit(int, "7").result(LONG) == 7


def test_close_in_another_thread_ends_it(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer, enough = member(make), Enough(10)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            consumer.process(enough.note)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert enough.wait(LONG)
    consumer.close()
    thread.join(LONG)
    assert not thread.is_alive()
    assert "closed" in str(failures[0])
    assert committed(make(group_id="g"), [0]) == {0: 10}


def test_ctrl_c_loses_nothing(server: ModelServer, make: Maker) -> None:
    keyed(server, 1, 50, 50)
    consumer, first = member(make, max_poll_records=10), True
    original = consumer.poll

    def poll(*arguments: Any) -> list[Record]:
        nonlocal first
        if first:
            first = not (records := original(*arguments))
            return records
        raise KeyboardInterrupt

    consumer.poll = poll  # type: ignore[method-assign]
    handled: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        consumer.process(lambda record: handled.append(record.offset), "partition")
    consumer.poll = original  # type: ignore[method-assign]
    safe = committed(consumer, [0]).get(0, 0)
    assert set(range(safe)) <= set(handled)
    assert [record.offset for record in read(consumer, 50 - safe)] == list(range(safe, 50))


def test_an_order_that_raises_loses_nothing(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = member(make)
    with pytest.raises(ZeroDivisionError):
        consumer.process(print, lambda record: 1 // (record.offset - 5))
    assert [record.offset for record in read(consumer, 10)] == list(range(10))


def test_an_order_that_is_no_key_is_named(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = member(make)
    with pytest.raises(TypeError, match=r"by must return a possible key of a dict, such as a str or tuple, not \['t'\]"):
        consumer.process(print, lambda record: [record.topic])  # type: ignore[arg-type,return-value]
    assert [record.offset for record in read(consumer, 10)] == list(range(10))


def test_an_exception_that_cannot_be_changed_is_raised_as_it_is(server: ModelServer, make: Maker) -> None:
    @dataclasses.dataclass(frozen=True)
    class Rejected(Exception):
        why: str

    keyed(server, 1, 10, 10)
    consumer = member(make)

    def handle(record: Record) -> None:
        if record.offset == 6:
            raise Rejected("no such customer")

    with pytest.raises(Rejected):
        consumer.process(handle, "partition")
    assert committed(consumer, [0]) == {0: 6}


def test_a_second_ctrl_c_while_it_waits_for_handlers_loses_nothing_either(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed(server, 1, 50, 50)
    consumer, release, handled = member(make), threading.Event(), set[int]()
    original = consumer.poll

    def handle(record: Record) -> None:
        if record.offset == 3:
            assert release.wait(LONG)
        handled.add(record.offset)

    def poll(*arguments: Any) -> list[Record]:
        if len(handled) >= 10 and TopicPartition("t", 0) in consumer.paused():
            raise KeyboardInterrupt
        return original(*arguments)

    def interrupted(self: HandlerWork, timeout: float) -> bool:
        self.refuse()
        raise KeyboardInterrupt("again")

    monkeypatch.setattr(HandlerWork, "stop", interrupted)
    consumer.poll = poll  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt, match="again"):
        consumer.process(handle, max_in_hand=20)
    assert consumer.paused() == set()
    until(lambda: committed(consumer, [0]) == {0: 3}, LONG, "what is finished is committed in the background")
    release.set()
    consumer.poll = original  # type: ignore[method-assign]
    assert [record.offset for record in read(consumer, 47)] == list(range(3, 50))


def test_ctrl_c_while_it_goes_back_loses_nothing_either(server: ModelServer, make: Maker) -> None:
    keyed(server, 1, 20, 20)
    consumer, hits = member(make), 0
    original = inspect(consumer).session.go_back

    def go_back(*arguments: Any) -> None:
        nonlocal hits
        hits += 1
        if hits == 1:
            raise KeyboardInterrupt
        original(*arguments)

    def handle(record: Record) -> None:
        if record.offset == 7:
            raise LookupError

    inspect(consumer).session.go_back = go_back  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        consumer.process(handle, "partition")
    assert inspect(consumer).session.selection.run is None
    assert [record.offset for record in read(consumer, 13)] == list(range(7, 20))


def test_whatever_the_application_commits_meanwhile_passes_no_record_that_is_not_finished(server: ModelServer, make: Maker) -> None:
    keyed(server, 2, 100, 100)
    consumer, stop, blocked, tried = make(group_id="g", enable_auto_commit=False), threading.Event(), threading.Event(), list[Any]()

    class Committing(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            if stop.is_set():
                return
            for commit in (consumer.commit, consumer.commit_async, lambda: consumer.commit(topic="t")):
                commit()
                tried.append(committed(consumer, range(2)))
            with pytest.raises(ConfigError, match="process or streams run and commit"), producer.transaction(consumer):
                tried.append("a transaction")
            stop.set()

    def handle(record: Record) -> None:
        if record.offset == 7:
            assert blocked.wait(LONG)

    consumer.subscribe(["t"], Committing())
    second = member(make)
    original = consumer.poll

    def poll(*arguments: Any) -> list[Record]:
        if consumer.paused() == {TopicPartition("t", 0), TopicPartition("t", 1)}:
            second.poll(0)  # a rebalance
        return original(*arguments)

    consumer.poll = poll  # type: ignore[method-assign]
    with Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="x") as producer:
        consumer.process(handle, max_in_hand=40, stop=stop, drain_timeout=0.1)
    blocked.set()
    assert tried == [{0: 7, 1: 7}] * 3
    assert committed(consumer, range(2)) == {0: 7, 1: 7}


def test_records_in_hand_are_bounded_however_many_partitions_there_are(server: ModelServer, make: Maker) -> None:
    topic(server, *[100] * 40)
    consumer, go, stop, polled = member(make), threading.Event(), threading.Event(), 0
    original = consumer.poll

    def poll(*arguments: Any) -> list[Record]:
        nonlocal polled
        records = original(*arguments)
        polled += len(records)
        if len(consumer.paused()) == 40:
            stop.set()
        return records

    consumer.poll = poll  # type: ignore[method-assign]
    consumer.process(lambda record: go.wait(LONG), workers=1, max_in_hand=200, stop=stop, drain_timeout=0)
    go.set()
    assert 200 <= polled <= 3 * 200


def test_the_threads_of_a_run_end_with_it(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    enough, consumer, threads = Enough(10), member(make), set[threading.Thread]()

    def handle(record: Record) -> None:
        threads.add(threading.current_thread())
        enough.note(record)

    consumer.process(handle, stop=enough)
    for thread in threads:
        thread.join(LONG / 4)  # they would be idle for 10 s
        assert not thread.is_alive()


def test_a_handler_that_hangs_does_not_keep_the_interpreter_from_exiting(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    threads, stop, release = set[threading.Thread](), threading.Event(), threading.Event()

    def handle(record: Record) -> None:
        threads.add(threading.current_thread())
        stop.set()
        release.wait(LONG)

    member(make).process(handle, stop=stop, drain_timeout=0)
    release.set()
    assert threads
    assert all(thread.daemon for thread in threads)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"handler": 7}, TypeError, "handler"),
        ({"by": "value"}, ConfigError, "by must be 'key', 'partition' or a callable"),
        ({"workers": 0}, ConfigError, "workers must be at least 1"),
        ({"workers": True}, TypeError, "workers must be an int"),
        ({"retries": -1}, ConfigError, "retries must be from 0"),
        ({"retry_backoff": "1"}, TypeError, "retry_backoff must be a number of seconds"),
        ({"retry_backoff": float("nan")}, ConfigError, "retry_backoff must be from 0"),
        ({"drain_timeout": -1}, ConfigError, "drain_timeout must be from 0"),
        ({"max_in_hand": 0}, ConfigError, "max_in_hand must be at least 1"),
        ({"dead_letter": "dead"}, ConfigError, "dead_letter needs producer="),
        ({"dead_letter": "no topic", "producer": None}, ConfigError, "dead_letter needs producer="),
        ({"producer": object()}, ConfigError, "producer is for dead letters"),
        ({"dead_letter": "dead", "producer": 7}, TypeError, "producer must be a Producer, not int"),
        ({"stop": 7}, TypeError, "stop must have is_set"),
        ({"executor": 7}, TypeError, "executor must be a concurrent.futures.Executor"),
        ({"executor": Elsewhere()}, TypeError, "executor must use threads of this interpreter, .* not Elsewhere"),
        ({"handler": numbers}, TypeError, "is a generator function, .* use a function without yield"),
        ({"handler": functools.partial(numbers)}, TypeError, "is a generator function"),
        ({"handler": Numbers()}, TypeError, "is a generator function"),
        ({"handler": numbers_in_a_task}, TypeError, "function"),
        ({"by": key_in_a_task}, TypeError, "by must return a key that several records can share"),
        ({"by": Numbers()}, TypeError, "by must return a key that several records can share"),
        ({"dead_letter": "dead", "producer": TaskProducer()}, TypeError, "whose send must be awaited"),
    ],
)
def test_a_wrong_argument_is_named(server: ModelServer, make: Maker, arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    topic(server, 1)
    consumer = member(make)
    with pytest.raises(error, match=text):
        consumer.process(**{"handler": print, **arguments})
    assert read(consumer, 1)


def test_what_a_class_inherits_does_not_make_it_a_generator(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    enough = Enough(3)
    assert member(make).process(Plain(enough), stop=enough).finished == 3


def test_an_order_of_coroutines_ends_it_because_it_is_none(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = member(make)
    with pytest.raises(TypeError, match="by must return a key that several records can share, not a coroutine"):
        consumer.process(print, lambda record: key_in_a_task(record))
    assert committed(consumer, [0]) == {0: 0}, "where reading began"


def test_a_generator_that_a_handler_returns_ends_it_and_is_not_finished(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = member(make)
    with pytest.raises(TypeError, match="without yield"):
        consumer.process(lambda record: numbers(record), retries=3)
    assert committed(consumer, [0]) == {0: 0}, "where reading began"


def test_a_coroutine_function_is_refused(server: ModelServer, make: Maker) -> None:
    async def handle(record: Record) -> None: ...

    topic(server, 1)
    with pytest.raises(TypeError, match="coroutine function"):
        member(make).process(handle)


def test_auto_commit_is_refused_because_it_would_commit_records_that_are_not_finished(server: ModelServer, make: Maker) -> None:
    topic(server, 1)
    with pytest.raises(ConfigError, match="enable_auto_commit=False"):
        make.member().process(print)
