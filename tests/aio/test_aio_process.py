"""`aio.Consumer.process`: handlers in tasks, in order per key, and offsets that never pass a record that is not finished."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import pytest

from pykafka4 import KafkaError, Producer
from pykafka4.aio import Consumer
from pykafka4.consumer.processing.work import Processed
from pykafka4.errors import ConfigError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord
from pykafka4.wire.records.hot import Record
from tests.aio.tasking import When, consumer_of, eventually, producer_of, run
from tests.consumer.consuming import topic
from tests.consumer.unsuited import key_in_a_task, numbers, numbers_in_a_task
from tests.inspection import inspect


def keyed(server: ModelServer, partitions: int, count: int, keys: int) -> None:
    """Topic `t`, with records of so many keys in each partition."""
    server.create_topic("t", partitions)
    for partition in range(partitions):
        records = [WireRecord(timestamp_ms=1, key=b"k%d-%d" % (partition, n % keys), value=b"%d" % n) for n in range(count)]
        server.do(lambda cluster, partition=partition, records=records: cluster.append("t", partition, records))


def member(server: ModelServer, **options: Any) -> Consumer:
    consumer = consumer_of(server, **{"group_id": "g", "enable_auto_commit": False, **options})
    consumer.subscribe(["t"])
    return consumer


def committed(server: ModelServer, partitions: Iterable[int] = (0,)) -> dict[int, int]:
    found = server.committed("g")
    return {p: found[TopicPartition("t", p)] for p in partitions if TopicPartition("t", p) in found}


class Notes:
    """What handlers were given; `enough` is set after so many."""

    def __init__(self, count: int) -> None:
        self.handled: list[Record] = []
        self.enough, self._count = asyncio.Event(), count

    def note(self, record: Record) -> None:
        self.handled.append(record)
        if len(self.handled) == self._count:
            self.enough.set()

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.handled]


async def read(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    while len(records) < count:
        records += await consumer.poll(0.2)
    return records


def test_all_records_are_handled_in_order_per_key_by_a_bounded_number_of_tasks(server: ModelServer) -> None:
    keyed(server, 3, 100, 7)

    async def main() -> None:
        notes, running, most = Notes(300), 0, 0

        async def handle(record: Record) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            notes.note(record)

        async with member(server) as consumer:
            assert await consumer.process(handle, workers=4, stop=notes.enough) == Processed(300, 0, 0)
        assert most == 4
        by_key: dict[bytes | None, list[int]] = {}
        for record in notes.handled:
            by_key.setdefault(record.key, []).append(record.offset)
        assert len(by_key) == 21
        assert all(offsets == sorted(offsets) for offsets in by_key.values())

    run(main())
    assert committed(server, range(3)) == {0: 100, 1: 100, 2: 100}


@pytest.mark.parametrize("kind", ["coroutines", "functions"])
def test_each_attempt_has_the_context_of_the_call_to_itself(server: ModelServer, kind: str) -> None:
    """Wherever it is started: by a poll, behind another handler, behind an acknowledgement, or as a repetition."""
    keyed(server, 1, 9, 2)
    server.create_topic("out", 1)
    tenant, earlier = ContextVar("tenant", default=""), ContextVar("earlier", default=-1)

    async def main() -> None:
        notes, seen = Notes(9), list[tuple[str, int]]()
        tenant.set("acme")

        def look(record: Record) -> None:
            seen.append((tenant.get(), earlier.get()))
            tenant.set("other")
            earlier.set(record.offset)
            if record.offset % 3 == 1 and len(seen) < 12:
                raise ZeroDivisionError
            notes.note(record)

        async with producer_of(server, linger_ms=0) as producer, member(server) as consumer:

            async def handle(record: Record) -> Any:
                look(record)
                await asyncio.sleep(0)
                return await producer.send("out", record.value) if record.offset % 3 == 2 else None

            handler = handle if kind == "coroutines" else look
            await consumer.process(handler, workers=2, retries=9, retry_backoff=0.0, stop=notes.enough)
        assert len(seen) > 9
        assert set(seen) == {("acme", -1)}
        assert (tenant.get(), earlier.get()) == ("acme", -1)

    run(main())


def test_plain_functions_are_handlers_too_and_partitions_keep_their_order(server: ModelServer) -> None:
    keyed(server, 2, 50, 5)

    async def main() -> None:
        notes = Notes(100)
        async with member(server) as consumer:
            await consumer.process(notes.note, "partition", stop=notes.enough)
        for partition in range(2):
            assert [record.offset for record in notes.handled if record.partition == partition] == list(range(50))

    run(main())


def test_an_unfinished_record_holds_back_the_commit_and_the_consumer_goes_on_there(server: ModelServer) -> None:
    keyed(server, 1, 20, 20)

    async def main() -> None:
        notes, cancelled = Notes(19), list[int]()

        async def handle(record: Record) -> None:
            if record.offset == 3:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(record.offset)
                    raise
            notes.note(record)

        async with member(server) as consumer:
            await consumer.process(handle, stop=notes.enough, drain_timeout=0.1)
            assert committed(server) == {0: 3}
            await eventually(lambda: cancelled == [3])
            assert [record.offset for record in await read(consumer, 17)] == list(range(3, 20))

    run(main())


def test_a_handler_that_raises_ends_it_and_loses_nothing(server: ModelServer) -> None:
    keyed(server, 1, 10, 10)

    async def handle(record: Record) -> None:
        if record.offset == 6:
            raise LookupError("no such customer")

    async def main() -> None:
        async with member(server) as consumer:
            with pytest.raises(LookupError, match="no such customer") as caught:
                await consumer.process(handle, "partition")
            assert caught.value.__notes__ == ["raised for t-0 at offset 6, attempt 1; that record is not finished"]
            assert committed(server) == {0: 6}
            assert [record.offset for record in await read(consumer, 4)] == [6, 7, 8, 9]

    run(main())


def test_what_failed_is_tried_again_and_then_becomes_a_dead_letter(server: ModelServer) -> None:
    keyed(server, 1, 10, 2)
    server.create_topic("dead", 1)

    async def main() -> None:
        notes = Notes(9)

        async def handle(record: Record) -> None:
            if record.offset == 4:
                raise LookupError("no such customer")
            notes.note(record)

        async with producer_of(server) as producer, member(server) as consumer:
            done = await consumer.process(handle, retries=2, retry_backoff=0.01, dead_letter="dead", producer=producer, stop=notes.enough)
        assert done == Processed(10, 1, 2)

    run(main())
    assert committed(server) == {0: 10}
    (letter,) = server.records("dead")
    assert (letter.key, letter.value) == (b"k0-0", b"4")
    assert dict(letter.headers)["dead_letter.message"] == b"no such customer"


def test_what_a_handler_sends_is_acknowledged_before_the_commit(server: ModelServer) -> None:
    keyed(server, 2, 50, 3)
    server.create_topic("out", 1)

    async def main() -> None:
        notes = Notes(100)
        async with producer_of(server) as producer, member(server) as consumer:

            async def handle(record: Record) -> object:
                notes.note(record)
                return await producer.send("out", record.value, key=record.key)

            await consumer.process(handle, stop=notes.enough)
            assert producer.stats().acked == 100

    run(main())
    assert committed(server, range(2)) == {0: 50, 1: 50}
    assert len(server.records("out")) == 100


@pytest.mark.parametrize("when", list(When))
def test_a_cancelled_process_commits_what_is_finished_and_goes_back_to_the_rest(server: ModelServer, when: When) -> None:
    keyed(server, 1, 30, 30)

    async def main() -> None:
        ended: list[int] = []
        hold = asyncio.Event()

        async def handle(record: Record) -> None:
            if record.offset >= 10:
                await hold.wait()
            ended.append(record.offset)

        async with member(server) as consumer:
            task = asyncio.ensure_future(consumer.process(handle, workers=5))
            await eventually(lambda: len(ended) == 10)
            if when is When.ENDS:
                hold.set()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not [one for one in asyncio.all_tasks() if "TaskWork" in repr(one)], "no handler is left"
            await eventually(lambda: committed(server).get(0, 0) >= 10)
            safe = committed(server)[0]
            assert set(range(safe)) <= set(ended)
            assert [record.offset for record in await read(consumer, 30 - safe)] == list(range(safe, 30))

    run(main())


def test_a_process_that_is_cancelled_twice_loses_nothing_either(server: ModelServer) -> None:
    keyed(server, 1, 10, 10)

    async def main() -> None:
        started = asyncio.Event()

        async def stubborn(record: Record) -> None:
            started.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.sleep(0.2)
            raise LookupError("late")

        async with member(server) as consumer:
            task = asyncio.ensure_future(consumer.process(stubborn))
            await started.wait()
            task.cancel()
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert committed(server).get(0, 0) == 0
            assert [record.offset for record in await read(consumer, 10)] == list(range(10))

    run(main())


def test_before_a_revocation_what_is_in_hand_is_finished_and_committed(server: ModelServer) -> None:
    keyed(server, 2, 100, 100)

    async def main() -> None:
        handled: list[tuple[int, int]] = []
        stop, slow = asyncio.Event(), True

        async def handle(record: Record) -> None:
            await asyncio.sleep(0.01 if slow else 0)
            handled.append((record.partition, record.offset))
            if len(set(handled)) == 200:
                stop.set()

        async with member(server, max_poll_records=10) as first, member(server, max_poll_records=10) as second:
            one = asyncio.ensure_future(first.process(handle, stop=stop))
            await eventually(lambda: len(handled) >= 10)
            two = asyncio.ensure_future(second.process(handle, stop=stop))
            await eventually(lambda: len(first.assignment()) == len(second.assignment()) == 1)
            slow = False
            await asyncio.gather(one, two)
        assert len(handled) == 200, "nobody died, so nothing is handled twice"

    run(main())
    assert committed(server, range(2)) == {0: 100, 1: 100}


def test_close_by_another_task_ends_it(server: ModelServer) -> None:
    keyed(server, 1, 10, 10)

    async def main() -> None:
        notes = Notes(10)
        consumer = member(server)
        task = asyncio.ensure_future(consumer.process(notes.note))
        await notes.enough.wait()
        await consumer.close()
        with pytest.raises(KafkaError, match="closed"):
            await task

    run(main())
    assert committed(server) == {0: 10}


def test_a_handler_that_is_cancelled_by_the_application_ends_it(server: ModelServer) -> None:
    keyed(server, 1, 3, 3)

    async def handle(record: Record) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        async with member(server) as consumer:
            with pytest.raises(KafkaError, match="a handler was cancelled"):
                await consumer.process(handle)
        assert committed(server) == {0: 0}, "where reading began"

    run(main())


def test_a_generator_that_a_handler_returns_ends_it_and_is_not_finished(server: ModelServer) -> None:
    keyed(server, 1, 3, 3)

    async def handle(record: Record) -> Any:
        return numbers_in_a_task(record)

    async def main() -> None:
        async with member(server) as consumer:
            with pytest.raises(TypeError, match="without yield"):
                await consumer.process(handle, retries=3)
        assert committed(server) == {0: 0}, "where reading began"

    run(main())


def test_what_can_be_awaited_is_awaited(server: ModelServer) -> None:
    """A handler may be a plain function that returns a task, or an object of its own."""
    keyed(server, 1, 20, 20)

    async def main() -> None:
        notes = Notes(20)

        async def work(record: Record) -> None:
            await asyncio.sleep(0.001)
            notes.note(record)

        class Waiting:
            def __init__(self, record: Record) -> None:
                self._record = record

            def __await__(self) -> Any:
                return work(self._record).__await__()

        async with member(server) as consumer:
            done = await consumer.process(
                lambda record: asyncio.ensure_future(work(record)) if record.offset % 2 else Waiting(record), stop=notes.enough
            )
        assert (done.finished, sorted(notes.offsets)) == (20, list(range(20)))

    run(main())


@dataclasses.dataclass(frozen=True)
class Rejected(Exception):
    why: str


def test_an_exception_that_cannot_be_changed_is_raised_as_it_is(server: ModelServer) -> None:
    keyed(server, 1, 10, 10)

    async def handle(record: Record) -> None:
        if record.offset == 6:
            raise Rejected("no such customer")

    async def main() -> None:
        async with member(server) as consumer:
            with pytest.raises(Rejected):
                await consumer.process(handle, "partition")
        assert committed(server) == {0: 6}

    run(main())


@pytest.mark.parametrize(("outcome", "error"), [(None, KafkaError), (SystemExit(3), SystemExit)])
def test_whatever_a_producer_of_dead_letters_does_wrong_ends_it(
    server: ModelServer, outcome: BaseException | None, error: type[BaseException]
) -> None:
    keyed(server, 1, 3, 3)

    class Odd:
        async def send(self, *arguments: Any, **options: Any) -> Any:
            if outcome is not None:
                raise outcome

    async def handle(record: Record) -> None:
        raise LookupError

    async def main() -> None:
        producer: Any = Odd()
        async with member(server) as consumer:
            with pytest.raises(error):
                await consumer.process(handle, dead_letter="dead", producer=producer)
        assert committed(server) == {0: 0}, "where reading began"

    run(main())


def test_what_another_task_commits_meanwhile_passes_no_record_that_is_not_finished(server: ModelServer) -> None:
    keyed(server, 1, 50, 50)

    async def main() -> None:
        notes, hold, stop = Notes(49), asyncio.Event(), asyncio.Event()

        async def handle(record: Record) -> None:
            if record.offset == 7:
                await hold.wait()
            notes.note(record)

        async with member(server) as consumer:
            task = asyncio.ensure_future(consumer.process(handle, stop=stop))
            await notes.enough.wait()
            for topic_name in (None, "t"):
                await consumer.commit(topic=topic_name)
                assert committed(server) == {0: 7}
            hold.set()
            stop.set()
            await task
        assert committed(server) == {0: 50}

    run(main())


def test_another_task_may_subscribe_to_something_else(server: ModelServer) -> None:
    keyed(server, 2, 100, 100)
    server.create_topic("u", 1)

    async def main() -> None:
        handled: dict[str, int] = {"t": 0, "u": 0}
        told, stop = list[list[TopicPartition]](), asyncio.Event()

        class Told:
            async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                assert sum(committed(server, range(2)).values()) == handled["t"], "what is finished is committed first"
                told.append(sorted(partitions))

        async def handle(record: Record) -> None:
            await asyncio.sleep(0.001)
            handled[record.topic] += 1
            if handled["u"] == 30:
                stop.set()

        async with member(server, max_poll_records=10) as consumer:
            task = asyncio.ensure_future(consumer.process(handle, workers=4, stop=stop))
            await eventually(lambda: handled["t"] >= 20)
            consumer.subscribe(["u"], Told())
            await eventually(lambda: told == [[TopicPartition("t", 0), TopicPartition("t", 1)]])
            server.do(lambda cluster: cluster.append("u", 0, [WireRecord(timestamp_ms=1, value=b"%d" % n) for n in range(30)]))
            await task
        assert server.committed("g")[TopicPartition("u", 0)] == 30

    run(main())


def test_partitions_that_another_task_takes_away_leave_the_commits_of_the_others_alone(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed(server, 2, 20, 20)
    monkeypatch.setattr("pykafka4.consumer.processing.run_loop.COMMIT_INTERVAL_S", 0.05)

    async def main() -> None:
        notes, stop, hold = Notes(39), asyncio.Event(), asyncio.Event()

        async def handle(record: Record) -> None:
            if (record.partition, record.offset) == (1, 10):
                await hold.wait()
            notes.note(record)

        consumer = consumer_of(server, group_id="g", enable_auto_commit=False)
        async with consumer:
            consumer.subscribe(["other"])  # so that only partitions that it has may be committed
            consumer.assign([("t", 0), ("t", 1)])
            task = asyncio.ensure_future(consumer.process(handle, stop=stop))
            await notes.enough.wait()
            await eventually(lambda: committed(server, range(2)) == {0: 20, 1: 10})
            server.do(lambda cluster: cluster.append("t", 0, [WireRecord(timestamp_ms=1, value=b"x")]))
            await eventually(lambda: len(notes.handled) == 40)
            consumer.assign([("t", 1)])
            hold.set()
            await eventually(lambda: committed(server, [1]) == {1: 20})
            stop.set()
            await task

    run(main())


def test_a_full_partition_that_another_task_pauses_stays_paused(server: ModelServer) -> None:
    keyed(server, 2, 200, 200)
    tp = TopicPartition("t", 0)

    async def main() -> None:
        notes, hold, stop = Notes(200), asyncio.Event(), asyncio.Event()

        async def handle(record: Record) -> None:
            if not record.partition:
                await hold.wait()
            notes.note(record)
            if sum(each.partition for each in notes.handled) == 200 and sum(not each.partition for each in notes.handled) >= 10:
                stop.set()

        async with member(server) as consumer:
            task = asyncio.ensure_future(consumer.process(handle, workers=300, max_in_hand=20, stop=stop))
            await eventually(lambda: tp in consumer.paused())
            consumer.pause([tp])
            hold.set()
            await task
            assert consumer.paused() == {tp}

    run(main())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"handler": 7}, TypeError, "the handler must be callable"),
        ({"workers": 0}, ConfigError, "workers must be at least 1"),
        ({"dead_letter": "dead"}, ConfigError, "dead_letter needs producer="),
        ({"stop": 7}, TypeError, "stop must have is_set"),
        ({"dead_letter": "dead", "producer": 7}, TypeError, "producer must be a pykafka4.aio.Producer"),
        ({"handler": numbers}, TypeError, "is a generator function, .* use a function without yield"),
        ({"handler": numbers_in_a_task}, TypeError, "is a generator function"),
        ({"by": key_in_a_task}, TypeError, "by must return a key that several records can share"),
    ],
)
def test_a_wrong_argument_is_named(server: ModelServer, arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    topic(server, 1)

    async def main() -> None:
        async with member(server) as consumer:
            with pytest.raises(error, match=text):
                await consumer.process(**{"handler": print, **arguments})
        async with member(server, enable_auto_commit=True) as consumer:
            with pytest.raises(ConfigError, match="enable_auto_commit=False"):
                await consumer.process(print)

    run(main())


def test_a_producer_that_would_block_the_event_loop_is_refused(server: ModelServer) -> None:
    topic(server, 1)

    async def main() -> None:
        with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
            async with member(server) as consumer:
                with pytest.raises(TypeError, match=r"must be a pykafka4\.aio\.Producer"):
                    await consumer.process(print, dead_letter="dead", producer=producer)  # type: ignore[arg-type]

    run(main())


def test_partitions_take_turns_with_handlers_in_tasks(server: ModelServer) -> None:
    keyed(server, 3, 4, 4)

    async def main() -> None:
        go_on, handled = asyncio.Event(), list[int]()

        async def handle(record: Record) -> None:
            handled.append(record.partition)
            await go_on.wait()

        async with member(server) as consumer:
            processing = asyncio.create_task(consumer.process(handle, workers=1))
            await eventually(lambda: [offset for offset, _ in inspect(consumer).session.taken_offsets().values()] == [4, 4, 4])
            go_on.set()
            await eventually(lambda: len(handled) == 12)
            processing.cancel()
        assert [sorted(handled[at : at + 3]) for at in (1, 4, 7)] == [[0, 1, 2]] * 3

    run(main())
