"""Measures `stats` and `status` of a producer with many partitions: the CPU time of a call, and of the longest step that holds the loop.

`python -m benchmarks.scale.states BOOTSTRAP` carries out the methods of `Orders`. The partitions are in one of three states: nothing waits;
each has a record and no leader; each has dropped records because it is full. CPU time counts for the calling thread, and for the loop on
its behalf. The largest of several calls counts, because an application notices that one. On a busy machine the same work takes more CPU
time: `slow` is the factor.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.bars import OURS, Table
from benchmarks.scale.orders import Memory, Process, obey
from benchmarks.scale.server import serve
from benchmarks.scale.shape import Place, Shape

__all__ = ["CALL_MS", "CASES", "HOLD_MS", "figures", "measure"]

CALL_MS, HOLD_MS = 50.0, 5.0  # the bars
CALLS = 5
BUSY = 1.2  # times as slow as a free machine: beyond it the figures are in doubt
LONG_MS = 3_600_000  # no record expires, no topic is forgotten
FULL = 4096  # bytes that a partition takes
VALUE = bytes(3000)
SETTLE_S = 2.0  # seconds until the work of earlier sends has ended
ASKED = ("stats", "status")
ROWS, ROW = 10_000, 0.4e-6  # work that shows how busy the machine is, and the seconds of one row on a free machine
CASES = ("idle", "offline", "dropping")


class Orders(Memory):
    def __init__(self, bootstrap: str) -> None:
        import pykafka4

        settings: Any = {"delivery_timeout_ms": LONG_MS, "metadata_max_idle_ms": LONG_MS, "linger_ms": 0, "batch_size": FULL}
        self._producer = pykafka4.Producer(bootstrap_servers=bootstrap, on_full="drop", max_partition_bytes=FULL, **settings)
        loop = self._producer._session.runtime.loop
        self._held, self._loop, self._known = 0.0, 0.0, 0
        ask = loop.ask

        def timed(fn: Callable[[float], Any], *more: Any, **named: Any) -> Any:
            def run(now: float) -> Any:
                began = time.thread_time()
                try:
                    return fn(now)
                finally:
                    took = time.thread_time() - began
                    self._held, self._loop = max(self._held, took), self._loop + took

            return ask(run, *more, **named)

        loop.ask = timed  # type: ignore[method-assign]

    def send(self, places: list[Place], times: int = 1) -> None:
        for topic, partition in places:
            for _ in range(times):
                self._producer.send(topic, VALUE, partition=partition)

    def flush(self) -> None:
        self._producer.flush()
        self._known = len(self._producer.stats().partitions)

    def states(self) -> dict[str, int]:
        rows = self._producer.status()["partitions"].values()
        offline = sum(row["state"] == "offline" for row in rows)
        return {"online": len(rows) - offline, "offline": offline, "dropped": sum(self._producer.stats().dropped.values())}

    def cost(self, what: str, before: Sequence[Place]) -> dict[str, float]:
        """Return the CPU milliseconds of a call, and of its longest step on the loop, after a record to each of `before`."""
        for topic, partition in before:
            self._producer.send(topic, VALUE, partition=partition)
        gc.collect()  # or the call would pay for the garbage of the setup
        self._held = self._loop = 0.0
        began = time.thread_time()
        found = getattr(self._producer, what)()
        if what == "stats":
            assert found.accepted == sum(counts.accepted for counts in found.topics.values())
            assert len(found.partitions) == self._known
        used = time.thread_time() - began + self._loop
        return {"call": used * 1000, "hold": self._held * 1000, "slow": slowness()}


def slowness() -> float:
    """Return the time that rows with text and numbers take now, as a multiple of their time on a free machine; at least 1."""
    gc.disable()  # the time of a collection depends on the objects that the process holds
    began = time.thread_time()
    rows = {f"topic-{n}": {"a": n, "b": None, "c": 1.5 * n, "d": str(n), "e": 0, "f": None, "g": n + 1} for n in range(ROWS)}
    took = time.thread_time() - began
    gc.enable()
    return max(1.0, took / (len(rows) * ROW))


def figures(case: str, shape: Shape, release: str) -> dict[str, list[dict[str, float]]]:
    with serve(shape, release) as server, Process("benchmarks.scale.states", server.ask("bootstrap")) as process:
        for places in ([(topic, 0) for topic in shape.names], shape.places):  # while a topic is unknown, it has the room of one partition
            process.ask("send", places)
            process.ask("flush")
        if case != "idle":
            server.ask("orphan", shape.places)
            process.ask("send", shape.places, 1 if case == "offline" else 4)
            deadline = time.monotonic() + 60.0
            while process.ask("states")["offline"] < shape.total:
                assert time.monotonic() < deadline, process.ask("states")
                time.sleep(0.2)
        time.sleep(SETTLE_S)
        before = shape.places if case == "dropping" else []
        found = {what: [process.ask("cost", what, before) for _ in range(CALLS)] for what in ASKED}
        states = process.ask("states")
    assert (states["offline"] == shape.total) is (case != "idle"), states
    assert (states["dropped"] >= CALLS * shape.total) is (case == "dropping"), states
    return found


def measure(table: Table, shape: Shape, release: str, rounds: int) -> None:
    """Measure ours alone: the peer has no such call."""
    for _ in range(rounds):
        for case in CASES:
            for what, costs in figures(case, shape, release).items():
                slow = max(cost["slow"] for cost in costs)
                doubt = f"the machine is busy: such work takes {slow:.2g} times as long" if slow > BUSY else None
                table.note(
                    f"{what}(), {case}: CPU ms, the most of {CALLS}", OURS, max(cost["call"] for cost in costs), most=CALL_MS, doubt=doubt
                )
                table.note(
                    f"{what}(), {case}: ms that the loop is held", OURS, max(cost["hold"] for cost in costs), most=HOLD_MS, doubt=doubt
                )


def main() -> None:
    obey(Orders(sys.argv[1]))


if __name__ == "__main__":
    main()
