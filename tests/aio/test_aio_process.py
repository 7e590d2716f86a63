"""`aio.Consumer.process`: handlers in tasks, in order per key, and offsets that never pass a record that is not finished."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

import pytest
from consuming import topic
from tasking import When, consumer_of, eventually, producer_of, run

from pykafka4 import KafkaError, Producer
from pykafka4.aio import Consumer
from pykafka4.errors import ConfigError
from pykafka4.processing.work import Processed
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord
from pykafka4.wire.records.hot import Record


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
            assert caught.value.__notes__ == ["raised by the handler of t-0 at offset 6, attempt 1; that record is not finished"]
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
            assert committed(server) == {}
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


def test_a_slow_record_pauses_its_partition_alone(server: ModelServer) -> None:
    keyed(server, 2, 300, 300)

    async def main() -> None:
        notes, blocked = Notes(600), asyncio.Event()

        async def handle(record: Record) -> None:
            if (record.partition, record.offset) == (0, 0):
                await blocked.wait()
            notes.note(record)
            if sum(each.partition for each in notes.handled) == 300:
                assert sum(not each.partition for each in notes.handled) <= 40 + 10 or blocked.is_set()
                blocked.set()

        async with member(server, max_poll_records=10) as consumer:
            await consumer.process(handle, max_in_hand=40, stop=notes.enough)
            assert consumer.paused() == set()

    run(main())
    assert committed(server, range(2)) == {0: 300, 1: 300}


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
        assert committed(server) == {}

    run(main())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"handler": 7}, TypeError, "the handler must be callable"),
        ({"workers": 0}, ConfigError, "workers must be at least 1"),
        ({"dead_letter": "dead"}, ConfigError, "dead_letter needs producer="),
        ({"stop": 7}, TypeError, "stop must have is_set"),
        ({"dead_letter": "dead", "producer": 7}, TypeError, "producer must be a pykafka4.aio.Producer"),
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
