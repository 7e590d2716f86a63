"""Measures the cost of `send_many`, of an ignored Delivery and of a full buffer, for the caller. Cases take turns; medians are compared.

`python -m benchmarks.sending` runs the accumulator alone, without loop and broker, so that only the caller's part is measured. It fails if
a Delivery costs more than MOST_NS.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from pykafka4.errors import BufferFull
from pykafka4.wire.records.hot import Accumulator, Batch

RECORDS: Final = 20_000
ROUNDS: Final = 31
MOST_NS: Final = 10.0  # maximum cost of a Delivery that is made and dropped
SMALL, LARGE = b"v" * 100, b"v" * 1_000


def _full(*_: object) -> float:
    raise BufferFull("full")


def accumulator(memory: int, **more: Any) -> Accumulator:
    """An accumulator that knows the topic `t`, of one partition."""
    made = Accumulator(
        batch_size=min(memory // 4, 256 * 1024),
        buffer_memory=memory,
        max_partition_bytes=memory,
        max_request_size=min(memory // 4, 1024 * 1024),
        clock=time.monotonic,
        wake=lambda: None,
        new_topic=lambda _: None,
        make_room=_full,
        wait=lambda predicate, _: predicate(),
        submit=lambda _: None,
        **more,
    )
    made.set_partitions("t", 1, [0])
    return made


def full(**more: Any) -> Accumulator:
    made = accumulator(64 * 1024, **more)
    for _ in range(1_000):
        try:
            made.send("t", LARGE)
        except BufferFull:
            break
    return made


def ignored() -> None:
    send = accumulator(1 << 30).send
    for _ in range(RECORDS):
        send("t", SMALL)


def kept() -> None:
    send = accumulator(1 << 30).send
    [send("t", SMALL) for _ in range(RECORDS)]


def many(values: list[bytes] = [SMALL] * RECORDS) -> None:  # never changed
    accumulator(1 << 30).send_many("t", values)


def dropped(to: Accumulator = full(drop_error=BufferFull("full"))) -> None:  # noqa: B008  # one for all rounds
    for _ in range(RECORDS):
        to.send("t", LARGE)


def refused(to: Accumulator = full()) -> None:  # noqa: B008
    for _ in range(RECORDS):
        try:
            to.send("t", LARGE)
        except BufferFull:
            pass


def sealed() -> Batch:
    acc = accumulator(1 << 20)
    acc.send("t", SMALL)
    acc.expedite()
    (batch,) = acc.take(time.monotonic())[1]
    acc.seal(batch)
    return batch


def handle(batch: Batch = sealed()) -> None:  # noqa: B008
    make = batch.handle
    for _ in range(RECORDS):
        make()


def call(batch: Batch = sealed()) -> None:  # noqa: B008
    nothing = batch.compress  # the batch is ready, so the call returns at once
    for _ in range(RECORDS):
        nothing()


CASES: Final[tuple[Callable[[], None], ...]] = (ignored, kept, many, dropped, refused, handle, call)


def main() -> int:
    found: dict[str, list[float]] = {case.__name__: [] for case in CASES}
    for _ in range(ROUNDS):
        for case in CASES:
            start = time.process_time()
            case()
            found[case.__name__].append((time.process_time() - start) / RECORDS * 1e9)
    median = {name: statistics.median(times) for name, times in found.items()}
    print("; ".join(f"{name} {ns:.0f} ns" for name, ns in median.items()))
    with_handles, without = median["many"] / median["kept"], median["many"] / median["ignored"]
    print(
        f"send_many: {with_handles:.2f} x the CPU of send whose Deliveries are kept, {without:.2f} x of send whose Deliveries are ignored"
    )
    print(f"on_full=drop: {median['dropped'] / median['refused']:.2f} x the CPU of raise")
    delivery = min(found["handle"]) - min(found["call"])
    print(f"a Delivery that is made and dropped: {delivery:.1f} ns (of the fastest rounds; at most {MOST_NS:.0f})")
    if delivery > MOST_NS:
        print("MISSED: a Delivery costs too much")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
