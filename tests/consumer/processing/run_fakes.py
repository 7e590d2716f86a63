"""A consumer, its session and records in hand for tests of a run: they write a journal of the calls."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pykafka4.consumer.processing.limits import Limits
from pykafka4.consumer.processing.run_loop import RunLoop
from pykafka4.consumer.selection import Selection
from pykafka4.consumer.waits import ThreadWaits
from pykafka4.net.handoff.waiting import Signal
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LIMITS = Limits("test: group g", most_in_hand=100, most_polled=50, drain=30.0, max_poll=40.0, commits=True)


class Fakes:
    """The consumer, its session, the records in hand and the application's listener, which write a journal."""

    held, partitions, abandoned = 0, (T0, T1), False
    guard: Any = None

    def __init__(self, limits: Limits = LIMITS, rounds: int = 0, **fails: BaseException) -> None:
        """`fails`: what a call raises."""
        self.journal: list[str] = []
        self.limits, self.rounds, self.fails = limits, rounds, fails
        self.selection, self.waits = Selection(listener=self.Listener(self)), ThreadWaits(Signal(), lambda fn: fn())
        self.seconds_left, self.first, self.commit_seconds = 60.0, {T0: (5, 1)}, 7.0
        self.assigned, self.polled, self.in_hand = {T0, T1}, list[Record](), 0
        self.run = RunLoop(self, self, self)

    class Listener:
        def __init__(self, fakes: Fakes) -> None:
            self.fakes = fakes

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            self.fakes.write("tell", f"tell {partitions[0].partition}")

    def write(self, call: str, line: str) -> None:
        self.journal.append(line)
        if call in self.fails:
            raise self.fails[call]

    # the consumer

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Any]:
        self.rounds -= 1
        self.write("poll", f"poll {max_records}")
        return self.polled

    def wakeup(self) -> None:
        self.write("wakeup", "wakeup")

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout: float | None = None) -> None:
        self.write("commit", f"commit {places(offsets)} within {timeout:g}")

    def commit_async(self, offsets: dict[TopicPartition, OffsetAndMetadata], on_done: Callable[..., object]) -> None:
        self.write("commit_async", f"commit_async {places(offsets)}")

    def assignment(self) -> set[TopicPartition]:
        return self.assigned

    def paused(self) -> set[TopicPartition]:
        return set()

    def stats(self) -> dict[str, int]:
        return {"partitions": 2}

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.write("pause", f"pause {set(partitions)}")

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.write("resume", f"resume {[tp.partition for tp in partitions]}")

    # its session

    def close_time_left(self) -> float:
        return self.seconds_left

    def taken_offsets(self) -> dict[TopicPartition, Any]:
        return {T0: (9, 1), T1: (3, 1)}

    def stored(self) -> dict[TopicPartition, int]:
        return {T1: 3}

    def taken(self) -> None:
        self.write("taken", "taken")

    def go_back(self, at: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.write("go_back", f"go back {places(at)}")

    def end_run(self, run: RunLoop) -> None:
        self.write("end_run", "end_run")

    begin_run = end_run

    def take_over(self) -> None:
        self.write("take_over", "take over")

    def closer(self) -> None:
        """Nobody closes it."""

    # the records in hand

    def goes_on(self) -> bool:
        return self.rounds > 0

    def start_due(self, now: float) -> None:
        self.write("start_due", "start_due")

    def assign(self, tps: Collection[TopicPartition]) -> Collection[TopicPartition]:
        return [tp for tp in tps if tp == T1]

    def add(self, records: Collection[Record], taken: Callable[[], object]) -> None:
        if records:
            taken()

    def size(self, tp: TopicPartition) -> int:
        return self.in_hand

    def watch(self, sizes: dict[TopicPartition, int]) -> None:
        self.write("watch", f"watch {sizes}")

    def unfinished(self) -> dict[TopicPartition, Any]:
        return self.first

    def end(self, tps: Collection[TopicPartition], timeout: float) -> None:
        self.write("end", f"wait {timeout:g}")
        self.first = {T0: (7, 1)}

    def drop(self, tps: Collection[TopicPartition]) -> None:
        self.write("drop", "drop")
        self.first = {}

    def drain(self, error: BaseException | None) -> float:
        self.write("drain", f"drain after {type(error).__name__}")
        return self.commit_seconds

    def cancel_handlers(self) -> None:
        self.write("cancel_handlers", "cancel handlers")


def places(offsets: dict[TopicPartition, OffsetAndMetadata]) -> dict[int, int]:
    return {tp.partition: at.offset for tp, at in offsets.items()}
