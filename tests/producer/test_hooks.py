"""Hooks: what they are told, on which thread, and that they lose nothing."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import attrs
import pytest

from pykafka4 import (
    BatchOutcome,
    ConfigError,
    OutgoingRecord,
    Producer,
    ProducerHooks,
    ProducerRecord,
    RecordTooLarge,
    RequestSent,
    SealedBatch,
)
from pykafka4.hooks import parse_hooks
from pykafka4.producer import hooks as calls
from pykafka4.producer.hooks import HookCalls
from pykafka4.testing import ModelServer
from pykafka4.wire.records import hot
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import FEW, Maker, balanced, stop_all, values


class Recording(ProducerHooks):
    """Keeps all that it is told, with the thread."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any, str]] = []

    def _note(self, name: str, what: Any = None) -> None:
        self.told.append((name, what, threading.current_thread().name))

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord | None:
        self._note("on_send", record)
        return None

    def on_enqueue(self, delivery: Any) -> None:
        self._note("on_enqueue", delivery)

    def on_refuse(self, error: BaseException) -> None:
        self._note("on_refuse", error)

    def on_batch_sealed(self, batch: SealedBatch) -> None:
        self._note("on_batch_sealed", batch)

    def on_request(self, request: RequestSent) -> None:
        self._note("on_request", request)

    def on_ack(self, outcome: BatchOutcome) -> None:
        self._note("on_ack", outcome)

    def on_close(self) -> None:
        self._note("on_close")

    def of(self, name: str) -> list[Any]:
        return [what for called, what, _ in self.told if called == name]


def test_a_hook_is_told_what_happens_to_a_record(server: ModelServer, make: Maker) -> None:
    hook = Recording()
    producer = make(hooks=hook)
    delivery = producer.send("t", b"v", key=b"k", partition=1, timestamp_ms=5)
    metadata = delivery.result(SECONDS)
    producer.close()
    assert [name for name, _, _ in hook.told] == ["on_send", "on_enqueue", "on_batch_sealed", "on_request", "on_ack", "on_close"]
    assert hook.of("on_send") == [OutgoingRecord("t", b"v", b"k", None, 1, 5)]
    assert hook.of("on_enqueue") == [delivery]
    (sealed,), (request,), (outcome,) = hook.of("on_batch_sealed"), hook.of("on_request"), hook.of("on_ack")
    assert (sealed.topic, sealed.partition, sealed.records) == ("t", 1, 1)
    assert (request.batches, request.records, request.size) == (1, 1, sealed.size)
    assert (outcome.topic, outcome.partition, outcome.records, outcome.error) == ("t", 1, 1, None)
    assert list(outcome.offsets) == [metadata.offset]
    mine = threading.current_thread().name
    assert [thread == mine for _, _, thread in hook.told] == [True, True, False, False, False, True]


def test_on_send_may_change_the_record_before_it_is_serialized(server: ModelServer, make: Maker) -> None:
    class Tagging:
        def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
            return attrs.evolve(record, value={"tagged": record.value}, headers=[("by", b"hook")])

    producer = make(hooks=[Tagging(), Recording()], value_serializer="json")
    producer.send_many("t", [1, 2])
    producer.flush(SECONDS)
    assert values(server) == [b'{"tagged":1}', b'{"tagged":2}']
    assert {record.headers for record in server.records("t")} == {(("by", b"hook"),)}


def test_a_hook_that_raises_is_logged_once_and_loses_nothing(server: ModelServer, make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ProducerHooks):
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("on_"):
                return lambda *_: 1 // 0
            return super().__getattribute__(name)

    class Overriding(Broken):
        on_send = on_enqueue = on_refuse = on_batch_sealed = on_request = on_ack = on_close = lambda self, *_: None  # type: ignore[assignment]

    producer = make(hooks=Overriding())
    for _ in range(3):
        producer.send("t", b"v").result(SECONDS)
    producer.close()
    assert len(values(server)) == 3
    raised = [record.args[1] for record in caplog.records if "of the hook" in record.message]  # type: ignore[index]
    assert sorted(raised) == sorted(["on_send", "on_enqueue", "on_batch_sealed", "on_request", "on_ack", "on_close"])


def test_each_on_send_is_followed_by_on_enqueue_or_on_refuse(server: ModelServer, make: Maker) -> None:
    hook = Recording()
    producer = make(hooks=hook, max_request_size=2_048, value_serializer="json")
    with pytest.raises(RecordTooLarge):  # refused behind the serializer
        producer.send("t", "v" * 5_000)
    with pytest.raises(TypeError):
        producer.send("t", object())
    producer.send("t", "v").result(SECONDS)
    assert [name for name, _, _ in hook.told][:6] == ["on_send", "on_refuse", "on_send", "on_refuse", "on_send", "on_enqueue"]
    assert [type(error) for error in hook.of("on_refuse")] == [RecordTooLarge, TypeError]


def test_on_send_that_returns_something_else_changes_nothing(server: ModelServer, make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    class Wrong:
        def on_send(self, record: OutgoingRecord) -> Any:
            return b"other"

    producer = make(hooks=Wrong())
    producer.send("t", b"v").result(SECONDS)
    assert values(server) == [b"v"]
    assert "on_send must return an OutgoingRecord or None, not bytes" in caplog.text


def test_on_ack_is_told_of_failures_and_has_the_records(server: ModelServer, make: Maker) -> None:
    hook = Recording()
    producer = make(hooks=hook, delivery_timeout_ms=300, request_timeout_ms=200, linger_ms=0, unknown_topic_timeout_ms=100)
    producer.send("t", b"first").result(SECONDS)
    stop_all(server)
    producer.send("t", b"lost", partition=2).exception(SECONDS)
    producer.send("absent", b"parked").exception(SECONDS)
    until(lambda: len(hook.of("on_ack")) == 3)
    first, lost, parked = hook.of("on_ack")
    assert first.error is None
    assert [record.value for record in lost.lost()] == [b"lost"]
    assert (lost.error.topic, lost.error.partition, lost.error.code, list(lost.offsets)) == ("t", 2, "TIMED_OUT", [])
    assert (parked.topic, parked.partition, parked.records) == ("absent", None, 1)
    assert [record.value for record in parked.lost()] == [b"parked"]


def test_flush_waits_for_on_ack_and_slow_hooks_hold_the_memory(server: ModelServer, make: Maker) -> None:
    go = threading.Event()

    class Slow:
        done = 0

        def on_ack(self, outcome: BatchOutcome) -> None:
            go.wait(SECONDS)
            self.done += 1

    hook = Slow()
    producer = make(hooks=hook, **FEW, on_full="raise")
    delivery = producer.send("t", b"v")
    delivery.result(SECONDS)
    until(lambda: producer.stats().acked == 1)
    assert producer.stats().buffered_bytes > 0
    go.set()
    producer.flush(SECONDS)
    assert hook.done == 1
    until(lambda: producer.stats().buffered_bytes == 0)
    assert balanced(producer)


def test_events_for_slow_hooks_are_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(calls, "MOST_WAITING", 2)
    jobs: list[Any] = []
    hook = Recording()
    told = HookCalls((hook,), jobs.append, "me")

    class Batch:
        topic, partition, count, size = "t", 0, 1, 70

    batch: Any = Batch()
    for _ in range(5):
        told.sealed(batch)
    assert len(jobs) == 1
    jobs.pop()()
    assert len(hook.of("on_batch_sealed")) == 2
    assert "me: events of batches and requests left out: 3; make the hooks faster" in caplog.text


def test_a_hook_without_on_send_costs_send_nothing(make: Maker) -> None:
    class Quiet(ProducerHooks):
        def on_ack(self, outcome: BatchOutcome) -> None:
            pass

    producer = make(hooks=Quiet())
    assert hot.IMPLEMENTATION == "python" or producer.send == inspect(producer).session.acc.send


@pytest.mark.parametrize("wrong", [object(), "on_send", 5, Recording, [Recording(), None]])
def test_what_is_no_hook_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"hooks: .* is not an object with one of the methods on_send, on_enqueue"):
        Producer(bootstrap_servers="localhost:1", hooks=wrong)


@pytest.mark.parametrize("name", ["on_batch_sealed", "on_request", "on_ack"])
def test_sys_exit_in_a_hook_on_the_executor_is_logged_once_by_its_name(make: Maker, caplog: pytest.LogCaptureFixture, name: str) -> None:
    def leave(_: Any) -> None:
        raise SystemExit(2)

    told = Recording()
    producer = make(hooks=[SimpleNamespace(**{name: leave}), told])
    for _ in range(3):
        producer.send("t", b"v", partition=0).result(SECONDS)
    producer.close(SECONDS)
    assert len(told.of(name)) == 3
    assert [record.args[1] for record in caplog.records if record.levelname == "ERROR"] == [name]  # type: ignore[index]


def test_threads_that_close_at_once_tell_on_close_once() -> None:
    told: list[str] = []
    inside = HookCalls([SimpleNamespace(on_close=lambda: (told.append("first"), inside.on_close()))], lambda _: None, "c")
    inside.on_close()
    assert told == ["first"]


@pytest.mark.parametrize("records", [False, True])
def test_an_accepted_record_whose_on_enqueue_is_interrupted_counts_as_accepted(make: Maker, records: bool) -> None:
    calls_left = [None, KeyboardInterrupt()]

    def interrupted(_: Any) -> None:
        if (error := calls_left.pop(0)) is not None:
            raise error

    producer = make(hooks=SimpleNamespace(on_enqueue=interrupted))
    with pytest.raises(KeyboardInterrupt) as caught:
        if records:
            producer.send_many([ProducerRecord("t", b"v", None)] * 3)
        else:
            producer.send_many("t", [b"v"] * 3)
    assert len(caught.value.accepted) == producer.stats().accepted == 2  # type: ignore[attr-defined]


def test_a_method_that_only_the_instance_has_is_called(server: ModelServer, make: Maker) -> None:
    hook, heard = ProducerHooks(), list[BatchOutcome]()
    hook.on_ack = heard.append  # type: ignore[method-assign]
    producer = make(hooks=hook)
    producer.send("t", b"v").result(SECONDS)
    producer.flush(SECONDS)
    assert [outcome.records for outcome in heard] == [1]


def test_a_hook_that_is_iterable_is_one_hook() -> None:
    mock = MagicMock()
    assert parse_hooks(mock) == (mock,)
    assert parse_hooks([mock, mock]) == (mock, mock)
    assert parse_hooks(iter([mock])) == (mock,)
    assert parse_hooks([]) == ()


async def awaited(_: Any) -> None:
    """A hook that nobody would await."""


class Awaited:
    async def on_ack(self, outcome: BatchOutcome) -> None: ...


@pytest.mark.parametrize("hook", [Awaited(), SimpleNamespace(on_ack=awaited), SimpleNamespace(on_ack=AsyncMock()), partial(awaited)])
def test_a_coroutine_function_is_refused_as_a_hook(hook: Any) -> None:
    if isinstance(hook, partial):
        hook = SimpleNamespace(on_ack=hook)
    for given in (hook, [ProducerHooks(), hook]):
        with pytest.raises(TypeError, match=r"hooks: on_ack of .* is a coroutine function: hooks are called, but not awaited"):
            Producer(bootstrap_servers="localhost:1", hooks=given)


def test_what_cannot_be_called_is_refused_as_a_hooks_method() -> None:
    with pytest.raises(ConfigError, match=r"hooks: on_ack of .* is not a method, but of type int"):
        Producer(bootstrap_servers="localhost:1", hooks=SimpleNamespace(on_send=print, on_ack=5))
