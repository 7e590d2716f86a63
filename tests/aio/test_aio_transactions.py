"""Transactions for asyncio, with both versions of the protocol: what commits, what aborts, and what a cancelled call leaves behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka4 import ConsumerGroupMetadata, KafkaTimeoutError, TransactionError
from pykafka4.aio import Producer
from pykafka4.core.producer.transactions.machine import Done, Transactions
from pykafka4.net.handoff.waiting import Promise
from pykafka4.testing import ModelServer
from tests.aio.tasking import producer_of, run
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import committed

ID = "invoices-1"
GROUP = ConsumerGroupMetadata("g")


@pytest.fixture(params=["4.4", "3.9"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """Three brokers of releases with transaction.version 2 and 1; topic `t` with three partitions."""
    with ModelServer(brokers=3, release=request.param) as server:
        server.create_topic("t", 3)
        yield server


async def begun(server: ModelServer, **options: Any) -> Producer:
    producer = producer_of(server, **{"transactional_id": ID, "linger_ms": 0, "retry_backoff_ms": 10, **options})
    await producer.init_transactions()
    return producer


def test_commits_are_read_and_aborts_are_not(server: ModelServer) -> None:
    async def main() -> None:
        async with await begun(server) as producer:
            for number in range(4):
                try:
                    async with producer.transaction() as same:
                        assert same is producer
                        for n in range(3):
                            await producer.send("t", b"%d.%d" % (number, n), partition=n)
                        if number % 2:
                            await producer.flush()
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    pass
            await producer.begin_transaction()
            await producer.send("t", b"by hand", partition=0)
            await producer.send_offsets_to_transaction({("t", 0): 7}, GROUP)
            await producer.commit_transaction()
            with pytest.raises(TransactionError):
                await producer.send("t", b"outside")

    run(main())
    assert committed(server) == [*(b"%d.%d" % (number, n) for number in (0, 2) for n in range(3)), b"by hand"]


def test_cancelling_inside_aborts_and_the_next_transaction_commits(server: ModelServer) -> None:
    async def main() -> None:
        producer = await begun(server)
        inside, sent = asyncio.Event(), list[Any]()

        async def work() -> None:
            async with producer.transaction():
                sent.append(await producer.send("t", b"cancelled", partition=0))
                await sent[0]
                sent.append(await producer.send("t", b"cancelled", partition=1))
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(work())
        await inside.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)
        await producer.close()

    run(main())
    assert committed(server) == [b"next"]


@pytest.mark.parametrize("call", ["init_transactions", "begin_transaction", "commit_transaction", "abort_transaction"])
def test_a_cancelled_call_is_finished_by_the_next_one(server: ModelServer, call: str) -> None:
    async def main() -> None:
        producer = producer_of(server, transactional_id=ID, linger_ms=0, retry_backoff_ms=10)
        for name in ("init_transactions", "begin_transaction", "commit_transaction"):
            name = call if (name, call) == ("commit_transaction", "abort_transaction") else name
            if name in ("commit_transaction", "abort_transaction"):
                await (await producer.send("t", b"v", partition=0))
            if name == call:
                task = asyncio.ensure_future(getattr(producer, name)())
                await asyncio.sleep(0)  # it has begun
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
            await getattr(producer, name)()
        await producer.close()

    run(main())
    assert committed(server) == ([] if call == "abort_transaction" else [b"v"])


def test_nothing_waits_for_the_client_on_the_thread_of_the_event_loop(server: ModelServer) -> None:
    async def main() -> None:
        producer = await begun(server)
        for name in ("begin_transaction", "commit_transaction", "begin_transaction", "abort_transaction"):
            blocker = Blocker(producer)
            task = asyncio.ensure_future(getattr(producer, name)())
            await asyncio.sleep(0.02)
            assert not task.done()
            blocker.go.set()
            await task
        await producer.close()

    run(main())


def test_a_call_that_is_late_says_its_own_timeout_and_may_be_made_again(server: ModelServer) -> None:
    async def main() -> None:
        producer = await begun(server)
        await producer.begin_transaction()
        await (await producer.send("t", b"v", partition=1))
        server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
        await producer.send("t", b"stuck", partition=0)
        with pytest.raises(KafkaTimeoutError, match=r"commit_transaction: not done within 0.05 s.*call commit_transaction again"):
            await producer.commit_transaction(0.05)
        with pytest.raises(TransactionError, match="the outcome of commit_transaction is not known yet"):
            await producer.abort_transaction()
        with pytest.raises(TransactionError):  # and this does not forget the commit
            await producer.send_offsets_to_transaction({("t", 0): 7}, GROUP)
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        await producer.commit_transaction()
        await producer.close()

    run(main())
    assert committed(server) == [b"stuck", b"v"]


def test_a_call_that_adds_offsets_and_is_cancelled_is_not_in_the_way_of_the_commit(server: ModelServer) -> None:
    async def main() -> None:
        producer = await begun(server)
        await producer.begin_transaction()
        adding = asyncio.ensure_future(producer.send_offsets_to_transaction({("t", 0): 7}, GROUP))
        await asyncio.sleep(0)
        adding.cancel()
        await asyncio.wait([adding])
        assert adding.cancelled()
        await (await producer.send("t", b"v", partition=0))
        await producer.commit_transaction()
        await producer.close()

    run(main())
    assert committed(server) == [b"v"]


def test_two_tasks_at_once_are_refused(server: ModelServer) -> None:
    async def main() -> None:
        producer = await begun(server)
        await producer.begin_transaction()
        await producer.send("t", b"v", partition=0)
        committing = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        for other in (producer.begin_transaction(), producer.send_offsets_to_transaction({("t", 0): 7}, GROUP)):
            with pytest.raises(TransactionError, match="while another task is in commit_transaction"):
                await other
        await committing
        await producer.close()

    run(main())
    assert committed(server) == [b"v"]


@pytest.mark.parametrize("call", ["commit_transaction", "send_offsets_to_transaction"])
def test_an_event_loop_that_is_closed_during_a_call_leaves_the_transactions_to_the_next_one(server: ModelServer, call: str) -> None:
    kept: list[Any] = []  # the task that never goes on

    async def first() -> Producer:
        producer = await begun(server)
        await producer.begin_transaction()
        await (await producer.send("t", b"v", partition=0))
        server.delay("EndTxn" if call == "commit_transaction" else "TxnOffsetCommit", 0.2)
        arguments: Any = ({("t", 0): 1}, GROUP) if call == "send_offsets_to_transaction" else ()
        kept.append(asyncio.ensure_future(getattr(producer, call)(*arguments)))
        await asyncio.sleep(0)
        return producer

    async def second(producer: Producer) -> None:
        await producer.commit_transaction()
        async with producer.transaction():
            await producer.send("t", b"w", partition=0)
            kept[0]._log_destroy_pending = False
            kept.clear()  # what it leaves behind does not end a call of this loop
        await producer.close()

    loop = asyncio.new_event_loop()
    producer = loop.run_until_complete(first())
    loop.close()
    run(second(producer))
    assert committed(server) == [b"v", b"w"]


def test_the_end_of_an_abandoned_task_does_not_end_the_call_of_another_task(server: ModelServer) -> None:
    """Python ends a task of a closed event loop when it collects the task, perhaps during a call on the next event loop."""
    offsets = {("t", 0): 1}

    async def first() -> tuple[Producer, list[Any]]:
        producer = await begun(server)
        await producer.begin_transaction()
        abandoned = asyncio.ensure_future(producer.send_offsets_to_transaction(offsets, GROUP))
        await asyncio.sleep(0)
        return producer, [abandoned]

    async def second(producer: Producer, abandoned: list[Any]) -> None:
        await producer.send_offsets_to_transaction(offsets, GROUP)  # after those of the abandoned task, which the client holds until then
        blocker = Blocker(producer)
        sending = asyncio.ensure_future(producer.send_offsets_to_transaction(offsets, GROUP))
        await asyncio.sleep(0)
        abandoned.pop()._log_destroy_pending = False
        gc.collect()
        with pytest.raises(TransactionError, match="while another task is in send_offsets_to_transaction"):
            await producer.commit_transaction()
        blocker.go.set()
        await sending
        await producer.close()

    loop = asyncio.new_event_loop()
    producer, abandoned = loop.run_until_complete(first())
    loop.close()
    run(second(producer, abandoned))


def test_a_commit_whose_outcome_arrives_between_two_looks_is_no_timeout(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        producer = await begun(server)
        monkeypatch.setattr(inspect(producer).session, "promise", JustLate)
        await producer.begin_transaction()
        await producer.send("t", b"v", partition=0)
        await producer.commit_transaction()
        monkeypatch.undo()
        await producer.close()

    run(main())
    assert committed(server) == [b"v"]


def test_an_outcome_that_is_a_timeout_is_raised(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def time_out(transactions: Transactions, now: float, done: Done) -> None:
        done(KafkaTimeoutError("the coordinator has not responded"))

    async def main() -> None:
        producer = await begun(server)
        await producer.begin_transaction()
        monkeypatch.setattr(inspect(producer).session, "promise", JustLate)
        monkeypatch.setattr(Transactions, "commit", time_out)
        with pytest.raises(KafkaTimeoutError, match="the coordinator has not responded"):
            await producer.commit_transaction()
        monkeypatch.undo()
        await producer.close()

    run(main())


def test_closing_aborts_the_open_transaction(server: ModelServer) -> None:
    async def main() -> None:
        producer = await begun(server)
        await producer.begin_transaction()
        await (await producer.send("t", b"v", partition=0))
        await producer.close()

    run(main())
    assert committed(server) == []


class JustLate(Promise[Any]):
    """A look at it finds nothing, and just then it is done."""

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            until(self.done)
            raise KafkaTimeoutError("no result within 0 s")
        return super().result(timeout)


class Blocker:
    """Keeps the client's thread busy until `go` is set."""

    def __init__(self, producer: Producer) -> None:
        self.go, started = threading.Event(), threading.Event()

        def busy(now: float) -> None:
            started.set()
            self.go.wait(SECONDS)

        inspect(producer).session.post(busy)
        assert started.wait(SECONDS)
