"""The benchmark of isolation: nothing but the threads of the case sends, and the queue of the sick partition is full because of them."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time

import pytest

from benchmarks import isolation
from benchmarks.bars import OURS, Table
from benchmarks.isolation import CALM, CASES, LATE, OFFLINE, SICK, TOPIC, Case, Run, Took
from benchmarks.sink import PARTITIONS, Sink, leader
from pykafka4 import Producer
from pykafka4.errors import KafkaError

NAMED = [case for case in CASES if case.named]


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.title)
def test_the_sick_partition_has_its_turns_as_every_other_one(case: Case) -> None:
    threads = case.threads
    assert sorted(partition for thread in threads for partition in thread if partition is not None) == list(range(PARTITIONS))
    assert len(threads) == (PARTITIONS if case.policy == "block" else 1)


def test_what_counts_are_the_partitions_that_are_not_sick_and_all_records_that_name_none() -> None:
    assert Case("raise").counted(OFFLINE) == [p for p in range(PARTITIONS) if p != SICK]
    healthy = Case("raise").counted(LATE)
    assert healthy
    assert {leader(TOPIC, p) for p in healthy} == {1, 2, 3} - {leader(TOPIC, SICK)}
    assert Case("raise", named=False).counted(LATE) == list(range(PARTITIONS))


def test_half_of_full_speed_is_judged_and_full_speed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(case: Case, trouble: str, seconds: float, rate: float) -> Took:
        return Took(dict.fromkeys(range(PARTITIONS), 50.0 if trouble != CALM and case.policy == "raise" else 100.0), cpu=1.0)

    monkeypatch.setattr(isolation, "measure", measured)
    table = Table()
    for policy in ("raise", "drop"):
        assert isolation.compare(table, Case(policy), 1.0) == 100.0 * PARTITIONS
        isolation.compare(table, Case(policy), 1.0, 300.0)
    assert table.missed == [f"raise, {trouble}, half speed: lost" for trouble in (OFFLINE, LATE)]
    assert table.rows[f"raise, {OFFLINE}, full speed: lost"].figures[OURS] == [0.5]


@pytest.mark.skipif(not shutil.which("gcc") and not shutil.which("cc"), reason="the sink is compiled")
@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.title)
def test_the_queue_is_full_and_only_the_threads_of_the_case_run(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that fills the queue and goes on beside the measured one would take its time."""
    ended, original = threading.Event(), isolation.send_to

    def until_ended(producer: Producer, partitions: list[int], rate: float) -> None:
        with contextlib.suppress(InterruptedError, KafkaError):
            original(Ending(producer, ended), partitions, rate)  # type: ignore[arg-type]

    monkeypatch.setattr(isolation, "send_to", until_ended)
    monkeypatch.setattr(isolation, "SETTLE", 0.1)
    before = set(threading.enumerate())
    with Sink(offline=SICK) as sink:
        run = Run(case, OFFLINE, sink.bootstrap, 60_000.0)
        producer = Producer(**{**run.options(), "buffer_memory": 8 << 20})
        try:
            isolation.begin(producer, run)
            running = senders(before)
            full, first = isolation.queued(producer), sink.ends(TOPIC)
            time.sleep(0.5)
            still, then = isolation.queued(producer), sink.ends(TOPIC)
        finally:
            ended.set()
            producer.close(0)
    for thread in running:
        thread.join(10)
        assert not thread.is_alive()
    assert len(running) == len(case.threads)
    assert still == full > 0
    assert [p for p in range(PARTITIONS) if then[p] > first[p]] == case.counted(OFFLINE)


def senders(before: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that are not the client's own."""
    return [thread for thread in threading.enumerate() if thread not in before and not thread.name.startswith("pykafka4")]


class Ending:
    """A producer whose `send` ends its thread when the test does."""

    def __init__(self, producer: Producer, ended: threading.Event) -> None:
        self.producer, self.ended = producer, ended

    def send(self, topic: str, value: bytes, *, partition: int) -> None:
        """As `Producer.send`."""
        if self.ended.is_set():
            raise InterruptedError
        self.producer.send(topic, value, partition=partition)
