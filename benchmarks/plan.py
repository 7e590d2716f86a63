"""Lists the cases of `benchmarks.bench`. Ours is compared with the best peer, separately for CPU and for rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import attrs

THIRD, HALF, FIFTEENTH = 1 / 3, 1 / 2, 1 / 15
T = TypeVar("T")


def in_turns(contenders: Sequence[T], rounds: int) -> Iterator[T]:
    """The order rotates, so that no contender always runs right after the same other one."""
    for number in range(rounds):
        first = number % len(contenders)
        yield from contenders[first:]
        yield from contenders[:first]


@attrs.frozen
class Entry:
    """`headers`: the number of headers of each record that it reads."""

    client: str
    case: str
    options: dict[str, Any] = attrs.field(factory=dict)
    headers: int = 0

    @property
    def label(self) -> str:
        told = "".join(f" {name.replace('_', '.')}={value}" for name, value in self.options.items())
        return f"{self.client} {self.case}{told}" + (f", {self.headers} headers" if self.headers else "")


@attrs.frozen
class Case:
    """`bar`: the maximum CPU per record of ours, as a part of the best peer's; None: reported, not judged. `rate`: the minimum rate, as a
    multiple of the best peer's; a case with this bar is judged on the sink only.
    """

    title: str
    peers: tuple[Entry, ...]
    ours: tuple[Entry, ...]
    bar: float | None = None
    rate: float | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.peers + self.ours


def produce(title: str, case: str, bar: float | None = None, ours: str = "") -> Case:
    """The peers are confluent-kafka with its default batch.size and with 256 KB: the better one depends on the place."""
    peers = (Entry("confluent", case), Entry("confluent", case, {"batch.size": 262_144}))
    return Case(title, peers, (Entry("pykafka4", ours or case),), bar)


PRODUCE = (
    produce("produce, send and forget", "produce", bar=THIRD),
    produce("produce, callback per record", "produce_callback"),
    produce("produce, keyed", "produce_keyed"),
    produce("produce, 8 threads", "produce_threads"),
    produce("produce, columns", "produce", bar=FIFTEENTH, ours="produce_columns"),
    produce("produce, columns, keyed", "produce_keyed", ours="produce_keyed_columns"),
)
CONSUME = (
    Case("consume, 1000 a call", (Entry("confluent", "consume"),), (Entry("pykafka4", "consume"),), bar=THIRD),
    Case("consume, 2 headers a record", (Entry("confluent", "consume", headers=2),), (Entry("pykafka4", "consume", headers=2),)),
    Case("consume, columns", (Entry("confluent", "consume"),), (Entry("pykafka4", "consume_columns"),), bar=FIFTEENTH, rate=8),
    Case("consume, iteration", (Entry("confluent", "consume"),), (Entry("pykafka4", "iterate"),)),
)
