"""The consumer for asyncio, with model brokers: what it reads, which task and event loop may use it, how it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from inspect import Parameter, getmembers, iscoroutinefunction, signature
from pathlib import Path
from typing import Any

import pytest

from pykafka4 import Client, ClosedError, ConfigError, Consumer, CorruptRecord, GroupError, KafkaError, KafkaTimeoutError
from pykafka4 import aio as package
from pykafka4.aio.session import SLICE_S
from pykafka4.net.handoff.waiting import Promise, Signal
from pykafka4.testing import ModelServer
from tests.aio.tasking import consumer_of, eventually, run
from tests.consumer.consuming import LONG, damage, fill, numbers, topic
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until

T0 = ("t", 0)


async def read(consumer: package.Consumer, count: int, **options: Any) -> list[int]:
    """The offsets of exactly `count` records."""
    offsets: list[int] = []
    async with asyncio.timeout(SECONDS):
        while len(offsets) < count:
            offsets += [record.offset for record in await consumer.poll(0.2, **options)]
    assert len(offsets) == count
    return offsets


async def member(server: ModelServer, listener: object | None = None, **options: Any) -> package.Consumer:
    """One of group `g` that has partitions of `t`, at their beginnings."""
    consumer = consumer_of(server, **{"group_id": "g", **options})
    consumer.subscribe(["t"], listener)
    async with asyncio.timeout(SECONDS):
        while not consumer.assignment():
            await consumer.poll(0.05)
    consumer.seek_to_beginning()
    return consumer


def test_records_are_read_in_a_loop_and_finished_one_by_one(server: ModelServer) -> None:
    topic(server, 10)

    async def main() -> None:
        async with consumer_of(server, group_id="g") as consumer:
            consumer.subscribe(["t"])
            got = []
            async for record in consumer:
                got.append(record.offset)
                if len(got) == 5:
                    break
            assert got == [0, 1, 2, 3, 4]
            assert await consumer.position(T0) == 5
            assert [record.offset async for record in first(consumer, 5)] == [5, 6, 7, 8, 9]

    run(main())
    assert server.committed("g") == {T0: 9}  # the current record of a loop is not finished


async def first(consumer: package.Consumer, count: int) -> Any:
    async for record in consumer:
        yield record
        count -= 1
        if not count:
            return


def test_lists_of_poll_and_batches_are_finished_when_the_block_ends(server: ModelServer) -> None:
    topic(server, 10)

    async def main() -> None:
        async with consumer_of(server, group_id="g") as consumer:
            consumer.assign([T0])
            assert await read(consumer, 3, max_records=3) == [0, 1, 2]
            async for records in consumer.batches(0.2, max_records=4):
                if records:
                    break
            assert [record.offset for record in records] == [3, 4, 5, 6]
            assert await consumer.poll(0, max_records=1) != []
            assert consumer.lag(T0) == 2
            assert consumer.stats()["partitions"] == 1
            assert consumer.status()["consumer"]["partitions"]["t-0"]["state"] == "fetching"

    run(main())
    assert server.committed("g") == {T0: 8}


def test_a_member_whose_poll_was_cancelled_and_that_polls_no_more_leaves_the_group(server: ModelServer) -> None:
    topic(server, 0)

    async def main() -> None:
        async with await member(server, max_poll_interval_ms=200) as consumer:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.poll(None), 0.05)
            await asyncio.to_thread(server.wait_for, lambda cluster: not cluster.group("g").members)
            with pytest.raises(GroupError, match="max_poll_interval_ms"):
                await consumer.commit({T0: 1})

    run(main())


def test_a_block_that_an_exception_leaves_does_not_finish_the_list_in_hand(server: ModelServer) -> None:
    topic(server, 10)

    async def main(leave: type[BaseException]) -> None:
        async with consumer_of(server, group_id=leave.__name__) as consumer:
            consumer.assign([T0])
            await read(consumer, 3, max_records=3)
            await read(consumer, 3, max_records=3)
            raise leave

    for leave in (ZeroDivisionError, asyncio.CancelledError):
        with pytest.raises(leave):
            run(main(leave))
        assert server.committed(leave.__name__) == {T0: 3}


def test_columns_are_read_and_finished_by_the_next_poll(server: ModelServer) -> None:
    topic(server, 2000)

    async def main() -> None:
        async with consumer_of(server, group_id="g") as consumer:
            consumer.assign([T0])
            rows = len(await consumer.poll_arrow(LONG, 5, ["offset"]))
            assert rows == 5
            async with asyncio.timeout(SECONDS):
                while rows < 2000:
                    rows += len(await consumer.poll_arrow(LONG))
            await consumer.commit()
            assert not await consumer.poll_arrow(0)

    run(main())
    assert server.committed("g")[T0] == 2000


def test_columns_of_a_cancelled_poll_are_returned_by_the_next_one(server: ModelServer) -> None:
    topic(server, 0)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0])
            polling = asyncio.ensure_future(consumer.poll_arrow(None))
            await asyncio.sleep(0)
            polling.cancel()
            await asyncio.wait([polling])
            fill(server, "t", 0, numbers(0, 3))
            async with asyncio.timeout(SECONDS):
                assert len(await consumer.poll_arrow(None)) == 3

    run(main())


def test_a_close_by_another_task_does_not_finish_the_list_in_hand(server: ModelServer) -> None:
    topic(server, 4)

    async def main() -> None:
        consumer = consumer_of(server, group_id="g")
        consumer.assign([T0])
        await asyncio.ensure_future(read(consumer, 4))
        await consumer.close()

    run(main())
    assert server.committed("g").get(T0, 0) == 0


def test_seek_pause_and_resume(server: ModelServer) -> None:
    topic(server, 10, 10)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0, ("t", 1)])
            await read(consumer, 20)
            consumer.pause([("t", 1)])
            assert consumer.paused() == {("t", 1)}
            consumer.seek({T0: 7, ("t", 1): 8})
            assert await read(consumer, 3) == [7, 8, 9]
            consumer.resume([("t", 1)])
            assert await read(consumer, 2) == [8, 9]
            consumer.seek_to_beginning([T0])
            assert await consumer.position(T0) == 0
            await consumer.seek_to_end([T0])
            assert await consumer.position(T0) == 10
            with pytest.raises(ConfigError, match="t-7 is not assigned"):
                await consumer.position(("t", 7))

    run(main())


@pytest.mark.parametrize("call", ["seek_to_end", "position"])
def test_a_wait_for_a_position_raises_the_error_by_which_the_poll_of_another_task_lost_the_partition(
    server: ModelServer, call: str
) -> None:
    topic(server, 3)

    async def main() -> None:
        async with await member(server, group_instance_id="i") as consumer:
            await read(consumer, 3)
            server.fail("ListOffsets", "LEADER_NOT_AVAILABLE", times=10_000)
            consumer.seek_to_beginning()
            polling = asyncio.ensure_future(consumer.poll(None))
            await asyncio.sleep(0)
            waiting = asyncio.ensure_future(getattr(consumer, call)(T0, LONG))
            await asyncio.sleep(0)
            server.fail("Heartbeat", "FENCED_INSTANCE_ID")
            for call_that_waits in (polling, waiting):
                with pytest.raises(GroupError, match="FENCED_INSTANCE_ID"):
                    await call_that_waits

    run(main())


def test_a_poll_that_waits_returns_what_another_task_brought_back(server: ModelServer) -> None:
    topic(server, 10)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0])
            assert await read(consumer, 1, max_records=1) == [0]
            consumer.pause([T0])
            waiting = asyncio.ensure_future(consumer.poll(None))
            await asyncio.sleep(0)
            assert not (await asyncio.wait([waiting], timeout=0.05))[0]
            consumer.resume([T0])
            assert [record.offset for record in await asyncio.wait_for(waiting, SECONDS)] == list(range(1, 10))

    run(main())


def test_a_poll_that_waits_returns_what_another_task_has_drained(server: ModelServer) -> None:
    topic(server, 1)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0, ("missing", 0)])
            waiting = asyncio.ensure_future(consumer.poll(None))
            with pytest.raises(KafkaTimeoutError):
                await consumer.position(("missing", 0), 0.5)
            assert [record.offset for record in await asyncio.wait_for(waiting, SECONDS)] == [0]

    run(main())


def test_a_position_of_a_partition_that_goes_meanwhile_is_refused(server: ModelServer) -> None:
    topic(server, 1)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0, ("missing", 0)])
            position = asyncio.ensure_future(consumer.position(("missing", 0), SECONDS))
            await asyncio.sleep(0.05)
            consumer.assign([T0])
            with pytest.raises(ConfigError, match="missing-0"):
                await position

    run(main())


def test_commits_are_awaited_or_called_back_on_the_event_loop(server: ModelServer) -> None:
    topic(server, 10)

    async def main() -> None:
        called: list[Any] = []
        async with consumer_of(server, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([T0])
            await read(consumer, 4, max_records=4)
            await consumer.commit()
            place = await consumer.committed(T0)
            assert place is not None
            assert place.offset == 4
            consumer.commit_async({T0: 6}, lambda offsets, error: called.append((offsets, error, asyncio.get_running_loop())))
            await eventually(lambda: bool(called))
            assert called[0][1:] == (None, asyncio.get_running_loop())
            assert {tp: at and at.offset for tp, at in (await consumer.committed([T0, ("t", 9)])).items()} == {T0: 6, ("t", 9): None}

            async def on_done(offsets: Any, error: Any) -> None:
                pass

            with pytest.raises(TypeError, match="on_done must be a plain function, not the coroutine function"):
                consumer.commit_async(on_done=on_done)

    run(main())


def test_a_commit_that_fails_raises(server: ModelServer) -> None:
    topic(server, 4)

    async def main() -> None:
        consumer = await member(server)
        with pytest.raises(GroupError, match="t-5: not assigned to this consumer"):
            await consumer.commit({("t", 5): 1})
        for node in (1, 2, 3):
            server.do(lambda cluster, node=node: cluster.stop_broker(node))
        with pytest.raises(KafkaError):
            await consumer.commit({T0: 1}, timeout=0.1)
        with pytest.raises(KafkaTimeoutError):
            await consumer.committed(T0, timeout=0.1)
        await consumer.close(0)

    run(main())


def test_a_batch_that_cannot_be_read_is_raised_until_it_is_skipped(server: ModelServer) -> None:
    topic(server, 0)
    fill(server, "t", 0, numbers(0, 3))
    damage(server, 0)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0])
            batches = consumer.batches(0.2)
            with pytest.raises(CorruptRecord) as raised:
                while True:
                    await anext(batches)
            fill(server, "t", 0, numbers(3, 5))
            consumer.seek((raised.value.topic, raised.value.partition), raised.value.next_offset)
            got: list[int] = []
            while not got:
                got += [record.offset for record in await anext(batches)]
            assert got == [3, 4]

    run(main())


def test_topics_are_subscribed_by_pattern(server: ModelServer) -> None:
    topic(server, 2)
    server.create_topic("other", 1)

    async def main() -> None:
        async with consumer_of(server, group_id="g") as consumer:
            consumer.subscribe(re.compile("t|other"), exclude=["other"])
            assert await read(consumer, 2) == [0, 1]
            assert consumer.subscription() == {"t"}

    run(main())


# ---------------------------------------------------------------- who may call


def test_two_tasks_in_poll_get_an_error_that_names_both(server: ModelServer) -> None:
    topic(server, 0)

    async def main() -> None:
        async with consumer_of(server, group_id="g") as consumer:
            consumer.assign([T0])
            polling = asyncio.create_task(consumer.poll(SECONDS), name="first")
            await asyncio.sleep(0.01)
            for call in (consumer.poll, consumer.unsubscribe, lambda: anext(aiter(consumer))):
                task: asyncio.Task[Any] = asyncio.ensure_future(call())
                task.set_name("second")
                with pytest.raises(KafkaError, match=r"task 'second' called (poll|unsubscribe) while task 'first' is in poll"):
                    await task
            consumer.wakeup()
            assert await polling == []
            fill(server, "t", 0, numbers(0, 1))
            assert await read(consumer, 1) == [0]

    run(main())


def test_other_tasks_may_seek_pause_and_commit_while_one_polls(server: ModelServer) -> None:
    topic(server, 10)

    async def main() -> None:
        async with consumer_of(server, group_id="g") as consumer:
            consumer.assign([T0])
            await read(consumer, 10)
            polling = asyncio.ensure_future(consumer.poll(SECONDS))
            await asyncio.sleep(0.01)
            await consumer.commit()
            assert consumer.lag(T0) == 0
            assert await consumer.position(T0) == 10
            place = await consumer.committed(T0)
            assert place is not None
            assert place.offset == 10
            consumer.pause([T0])
            consumer.resume([T0])
            consumer.seek(T0, 8)
            assert [record.offset for record in await polling] == [8, 9]

    run(main())


def test_it_belongs_to_one_event_loop_at_a_time(server: ModelServer) -> None:
    topic(server, 10)
    consumer = consumer_of(server)
    consumer.assign([T0])  # no event loop is needed for that

    async def once() -> None:
        assert len(await read(consumer, 5, max_records=5)) == 5

    async def elsewhere() -> None:
        await once()
        loop = asyncio.new_event_loop()
        foreign = consumer.poll()
        try:
            with pytest.raises(RuntimeError, match=r"aio.Consumer is used on another event loop; .* or use pykafka4.Consumer$"):
                await asyncio.to_thread(loop.run_until_complete, foreign)
        finally:
            loop.close()
        with pytest.raises(RuntimeError, match=r"aio.Consumer is used on another event loop or thread"):
            await asyncio.to_thread(consumer.seek, T0, 0)
        await consumer.close()

    run(once())
    consumer.seek(T0, 0)
    run(elsewhere())


def test_a_poll_that_its_event_loop_never_finished_is_not_in_the_way_of_the_next_one(server: ModelServer) -> None:
    topic(server, 0)
    consumer = consumer_of(server, group_id="g")
    consumer.assign([T0])
    loop = asyncio.new_event_loop()
    abandoned = loop.create_task(consumer.poll(SECONDS))
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()  # with a task that waits
    fill(server, "t", 0, numbers(0, 3))

    async def main() -> None:
        assert await read(consumer, 3) == [0, 1, 2]
        polling = asyncio.ensure_future(consumer.poll(SECONDS))
        await asyncio.sleep(0.01)
        abandoned.get_coro().close()  # type: ignore[union-attr]  # as the garbage collector does, at any time
        with pytest.raises(KafkaError, match="is in poll"):
            await consumer.poll()
        fill(server, "t", 0, numbers(3, 5))
        assert [record.offset for record in await polling] == [3, 4]
        await consumer.close()

    run(main())
    abandoned._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_poll_lets_other_tasks_run_although_records_never_run_out(server: ModelServer) -> None:
    topic(server, 40_000)

    async def main() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with consumer_of(server) as consumer:
            consumer.assign([T0])
            await read(consumer, 1, max_records=1)
            beside = asyncio.ensure_future(others())
            began, count = time.monotonic(), 0
            async for _ in consumer:
                count += 1
                if count == 39_999:
                    break
            seconds = time.monotonic() - began
            beside.cancel()
        assert turns > 1
        assert turns > seconds / SLICE_S / 20

    run(main())


def test_a_poll_decodes_for_about_a_millisecond(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that says how long decoding takes: lists shrink to what takes a millisecond, but not to a few records, and grow."""
    topic(server, 3_000)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0])
            session, seconds = inspect(consumer).session, 2.0**-16
            clock = 0.0
            take = session._take

            def slow(limit: int, how: Any) -> Any:
                nonlocal clock
                records = take(limit, how)
                clock += len(records or ()) * seconds  # type: ignore[arg-type]
                return records

            monkeypatch.setattr(session, "_take", slow)
            monkeypatch.setattr(session, "_now", lambda: clock)
            sizes = [len(await consumer.poll(SECONDS, 3_000)) for _ in range(5)]
            assert sizes[0] <= 256
            assert set(sizes[1:]) == {65}
            seconds = 2.0**-5
            assert [len(await consumer.poll(SECONDS, 3_000)) for _ in range(3)] == [65, 32, 32]
            seconds = 2.0**-20
            sizes = [len(await consumer.poll(SECONDS, 3_000)) for _ in range(6)]
            assert sizes == [32, 64, 128, 256, 512, 1024]

    run(main())


def test_nothing_waits_for_the_client_on_the_thread_of_the_event_loop(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first poll to the end of close."""
    topic(server, 10)
    waited: list[str] = []
    here = threading.get_ident()

    def watch(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def watched(self: Any, *args: Any, **how: Any) -> Any:
            on_event_loop = threading.get_ident() == here and asyncio._get_running_loop() is not None
            if on_event_loop and not (self.done() if kind is Promise else args[0]()):
                waited.append(name)
            return original(self, *args, **how)

        monkeypatch.setattr(kind, name, watched)

    async def main() -> None:
        consumer = consumer_of(server, group_id="g")
        watch(Signal, "wait")
        watch(Promise, "exception")
        consumer.subscribe(["t"])
        await read(consumer, 10)
        await consumer.commit()
        await consumer.committed(T0)
        await consumer.position(T0)
        await consumer.unsubscribe()
        await consumer.close()

    run(main())
    assert waited == []


# ---------------------------------------------------------------- the end


def test_after_close_every_call_says_so_and_close_works_again(server: ModelServer) -> None:
    topic(server, 1)

    async def main() -> None:
        consumer = await member(server)
        await consumer.close()
        await consumer.close()
        for call in (consumer.poll, consumer.commit, consumer.unsubscribe, lambda: consumer.position(T0), lambda: consumer.committed(T0)):
            with pytest.raises(ClosedError):
                await call()
        for plain in (lambda: consumer.seek(T0, 0), lambda: consumer.subscribe(["t"]), consumer.commit_async):
            with pytest.raises(ClosedError):
                plain()
        with pytest.raises(ClosedError):
            async with consumer:
                pass

    run(main())
    for thread in threading.enumerate():
        if thread.name.startswith("pykafka4-close"):  # it may be about to end
            thread.join(LONG)
            assert not thread.is_alive()


def test_close_ends_the_poll_of_another_task_and_leaves_the_group(server: ModelServer) -> None:
    topic(server, 4)

    async def main() -> None:
        consumer = await member(server, session_timeout_ms=60_000)
        await read(consumer, 4)
        polling = asyncio.ensure_future(consumer.poll(None))
        await asyncio.sleep(0.01)
        both = [asyncio.ensure_future(consumer.close()) for _ in range(2)]
        with pytest.raises(ClosedError):
            await polling
        await asyncio.gather(*both)

    run(main())
    server.wait_for(lambda cluster: not cluster.group("g").members)
    assert server.committed("g") == {T0: 4}  # the next poll had begun


def test_each_of_two_closes_at_once_waits_for_the_end(server: ModelServer) -> None:
    topic(server, 4)

    async def main() -> None:
        consumer = await member(server, session_timeout_ms=60_000)

        async def close() -> bool:
            await consumer.close()
            return bool(inspect(consumer).session.closed)

        assert await asyncio.gather(close(), close()) == [True, True]

    run(main())


def test_a_cancelled_close_goes_on_and_the_next_waits_for_its_end(server: ModelServer) -> None:
    topic(server, 4)

    async def main() -> None:
        consumer = await member(server, session_timeout_ms=60_000)
        await read(consumer, 4)
        closing = asyncio.ensure_future(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert not inspect(consumer).session.closed
        await consumer.close()
        assert inspect(consumer).session.closed

    run(main())
    server.wait_for(lambda cluster: not cluster.group("g").members)


def test_a_forgotten_consumer_warns_and_leaves(server: ModelServer) -> None:
    topic(server, 4)

    async def main() -> None:
        consumer = await member(server, session_timeout_ms=60_000)
        await read(consumer, 2, max_records=2)
        await read(consumer, 2, max_records=2)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(main())
        gc.collect()
        server.wait_for(lambda cluster: not cluster.group("g").members)
        until(lambda: any(issubclass(w.category, ResourceWarning) and "aio.Consumer was not closed" in str(w.message) for w in caught))
    assert server.committed("g") == {T0: 2}


def test_closing_the_client_closes_the_consumer_and_its_poll(server: ModelServer) -> None:
    topic(server, 4)

    async def main() -> None:
        client = Client(bootstrap_servers=server.bootstrap_servers)
        consumer = package.Consumer(client, group_id="g", auto_offset_reset="earliest")
        consumer.subscribe(["t"])
        await read(consumer, 4)
        polling = asyncio.ensure_future(consumer.poll(None))
        await asyncio.sleep(0.01)
        client.close()
        with pytest.raises(ClosedError):
            await polling
        await consumer.close()

    run(main())
    assert server.committed("g") == {T0: 4}


SCRIPT = """
    import asyncio, os, sys
    from pykafka4 import aio, ForkedClientError

    async def main():
        consumer = aio.Consumer(bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest", session_timeout_ms=60_000)
        consumer.subscribe(["t"])
        {body}

    asyncio.run(main())
"""


def script(server: ModelServer, body: str) -> subprocess.Popen[str]:
    code = textwrap.dedent(SCRIPT).replace("{body}", textwrap.indent(textwrap.dedent(body), " " * 4).strip())
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-c", code, server.bootstrap_servers],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_ctrl_c_through_asyncio_run_commits_what_is_finished_and_leaves(server: ModelServer) -> None:
    topic(server, 4)
    process = script(
        server,
        """
        async with consumer:
            async for record in consumer:
                print(record.offset)
        """,
    )
    assert process.stdout is not None
    assert [process.stdout.readline().strip() for _ in range(4)] == ["0", "1", "2", "3"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "Exception ignored" not in errors
    assert "never retrieved" not in errors
    server.wait_for(lambda cluster: not cluster.group("g").members)
    assert server.committed("g")[T0] in (3, 4)  # the loop may not have asked for the next record yet


def test_leaving_the_interpreter_without_close_leaves_the_group(server: ModelServer) -> None:
    topic(server, 4)
    process = script(
        server,
        """
        import builtins
        builtins.kept = consumer
        count = 0
        while count < 4:
            count += len(await consumer.poll(1.0, 1))
        """,
    )
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    server.wait_for(lambda cluster: not cluster.group("g").members)
    assert server.committed("g") == {T0: 3}


def test_a_forked_child_gets_the_fork_error(server: ModelServer) -> None:
    topic(server, 4)
    process = script(
        server,
        """
        while not await consumer.poll(1.0):
            pass
        child = os.fork()
        if child == 0:
            async def inside():
                for call in (consumer.poll, consumer.commit):
                    try:
                        await call()
                    except ForkedClientError:
                        print("refused")
                await consumer.close()
            import threading
            thread = threading.Thread(target=lambda: asyncio.run(inside()))
            thread.start()
            thread.join()
            os._exit(0)
        os.waitpid(child, 0)
        await consumer.close()
        """,
    )
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    assert output.split() == ["refused", "refused"]


# ---------------------------------------------------------------- like pykafka4.Consumer


def test_peers_names_get_a_hint_and_it_cannot_be_pickled(server: ModelServer) -> None:
    consumer = consumer_of(server)
    with pytest.raises(AttributeError, match=r"aio\.Consumer has no 'getmany'"):
        consumer.getmany  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(TypeError, match=r"aio\.Consumer cannot be pickled"):
        pickle.dumps(consumer)
    assert "aio.Consumer of group None" in repr(consumer)
    run(consumer.close())


def test_misuse_is_named(server: ModelServer) -> None:
    async def main() -> None:
        async with consumer_of(server) as consumer:
            with pytest.raises(ConfigError, match="poll: no topics or partitions; call subscribe or assign first"):
                await consumer.poll()
            with pytest.raises(ConfigError, match="max_records=0"):
                await consumer.poll(max_records=0)
            with pytest.raises(ConfigError, match="commit needs a group_id"):
                await consumer.commit()
            with pytest.raises(ConfigError, match="timeout=-1"):
                await consumer.close(-1)

    run(main())


def test_without_a_group_all_partitions_of_a_subscription_are_read(server: ModelServer) -> None:
    async def main() -> None:
        server.create_topic("t", 2)
        for partition in range(2):
            server.produce("t", b"x", partition=partition)
        async with consumer_of(server) as consumer:
            consumer.subscribe(["t"])
            records = [*await consumer.poll(LONG)]
            while len(records) < 2:
                records += await consumer.poll(LONG)
            assert consumer.assignment() == {("t", 0), ("t", 1)}

    run(main())


PLAIN = {  # methods of aio.Consumer that are not awaited
    *("subscribe", "assign", "assignment", "subscription", "wakeup", "batches", "until_end", "seek", "seek_to_beginning"),
    *("seek_to_time", "lag", "pause", "resume", "paused", "commit_async", "group_metadata", "status", "serve_status", "stats", "metrics"),
}


def test_it_has_the_methods_of_the_threaded_consumer_with_the_same_arguments() -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: method for name, method in getmembers(kind, callable) if not name.startswith("_")}

    def arguments(method: Any) -> list[Parameter]:
        return [parameter for parameter in signature(method).parameters.values() if parameter.name != "callback_executor"]

    ours, threaded = public(package.Consumer), public(Consumer)
    assert ours.keys() == threaded.keys() - {"streams"}  # they are for threads
    for name, method in {**ours, "__init__": package.Consumer.__init__}.items():
        theirs = arguments(getattr(Consumer, name))
        if name == "process":  # handlers run on no executor, and the producer is one of asyncio
            assert [each.name for each in arguments(method)] == [each.name for each in theirs if each.name != "executor"]
        else:
            assert arguments(method) == theirs, name
    awaited = {name for name, method in ours.items() if iscoroutinefunction(method)}
    assert ours.keys() - awaited - {"from_properties"} == PLAIN
    returns = {name: signature(method).return_annotation for name, method in ours.items()}
    assert returns["rewind_group"] == "dict[TopicPartition, int]"  # a thread gets a future of it: it has to poll meanwhile
    for name in ours.keys() - {"batches", "until_end", "from_properties", "rewind_group"}:
        assert returns[name] == signature(getattr(Consumer, name)).return_annotation, name


def test_a_lease_is_extended_and_the_records_of_one_topic_are_committed(server: ModelServer) -> None:
    topic(server, 3)

    async def main() -> None:
        async with consumer_of(server) as alone:
            with pytest.raises(ConfigError, match="needs subscribe"):
                await alone.extend_lease(1)
        async with await member(server, enable_auto_commit=False) as consumer:
            assert await read(consumer, 3) == [0, 1, 2]
            await consumer.extend_lease(600)
            await consumer.commit(topic="t")
            place = await consumer.committed(T0)
            assert place is not None
            assert place.offset == 3
            consumer.seek_to_time(1_001)
            assert await consumer.position(T0) == 1

    run(main())
