"""Plan. Rule: a case names its peers and ours; the peers' best is what ours is measured against, for CPU and for rate apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import attrs

THIRD, HALF, FIFTEENTH = 1 / 3, 1 / 2, 1 / 15
T = TypeVar("T")


def in_turns(contenders: Sequence[T], rounds: int) -> Iterator[T]:
    """Each once a round; the order turns, so that no one always runs in another's wake."""
    for number in range(rounds):
        first = number % len(contenders)
        yield from contenders[first:]
        yield from contenders[:first]


@attrs.frozen
class Entry:
    """One contender in a case. `headers`: how many headers each record has that it reads."""

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
    """`bar`: the most CPU per record that ours may use, as a part of the best peer's; None: reported, not judged.

    `rate`: the least rate, as a multiple of the best peer's. A case with such a bar is judged on the sink only.
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
    """confluent-kafka with its default batch.size and with 256 KB: which one is better depends on the place."""
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
