"""A storm: connections through proxies live a second or so, half of them lose acknowledgements, and links are slow or stuck in between.

Invariant: what happens follows from the seed; when the storm is over, every proxy is healed. `cuts` and `lost_acks` say what became of the
connections: a test that promises something of a storm has to look at them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType, TracebackType
from typing import Final, Self, TypeAlias

from integration.faults.proxy import Proxy

__all__ = ["FAULTS", "Storm"]

Fault: TypeAlias = tuple[Callable[[Proxy, Random], object], Callable[[Proxy], object]]
PAUSE, LASTS = (0.2, 1.0), (0.2, 0.8)  # seconds between two faults, and of a fault
END: Final = 10.0


def _nothing(_: Proxy) -> None:
    """The fault is over by itself."""


FAULTS: Final[Mapping[str, Fault]] = MappingProxyType(
    {
        "delay": (lambda proxy, r: proxy.delay(r.uniform(0.02, 0.3), jitter=0.1), lambda proxy: proxy.delay(0)),
        "bandwidth": (lambda proxy, r: proxy.bandwidth(r.uniform(50_000, 500_000)), lambda proxy: proxy.bandwidth(None)),
        "requests held": (lambda proxy, _: proxy.hold_requests(), Proxy.release),
        "responses held": (lambda proxy, _: proxy.hold_responses(), Proxy.release),
        "cut in a request": (lambda proxy, r: proxy.cut_requests_after(r.randrange(1, 30_000)), _nothing),
        "cut in a response": (lambda proxy, r: proxy.cut_responses_after(r.randrange(1, 1_000)), _nothing),
        "all reset": (lambda proxy, _: proxy.drop_connections(), _nothing),
    }
)


class Storm:
    """What happens to the connections while the `with` block runs. Each lives 0.5 to 1.5 s, and half of the cuts lose responses."""

    def __init__(self, proxies: Mapping[int, Proxy], seed: int) -> None:
        self.proxies, self.random = list(proxies.values()), Random(seed)
        self.done: Counter[str] = Counter()
        self.error: BaseException | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, name="storm", daemon=True)
        self.before = self.counted()

    def counted(self) -> tuple[int, int, int]:
        counters = [proxy.counters for proxy in self.proxies]
        return sum(c.resets for c in counters), sum(c.lossy_resets for c in counters), sum(c.lost_acks for c in counters)

    @property
    def cuts(self) -> int:
        """Connections that were cut."""
        return self.counted()[0] - self.before[0]

    @property
    def lossy_cuts(self) -> int:
        """Of these, connections that had lost responses: also over TLS."""
        return self.counted()[1] - self.before[1]

    @property
    def lost_acks(self) -> int:
        """Produce requests that a broker answered and whose answer was lost, at least; not counted over TLS."""
        return self.counted()[2] - self.before[2]

    def __enter__(self) -> Self:
        for proxy in self.proxies:
            proxy.chaos()
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.over.set()
        self.thread.join(END)
        for proxy in self.proxies:
            proxy.heal()
        if kind is None and self.error is not None:
            raise self.error

    def run(self) -> None:
        """One fault after the other."""
        try:
            while not self.over.wait(self.random.uniform(*PAUSE)):
                name = self.random.choice(list(FAULTS))
                begin, end = FAULTS[name]
                proxy = self.random.choice(self.proxies)
                begin(proxy, self.random)
                self.over.wait(self.random.uniform(*LASTS))
                end(proxy)
                self.done[name] += 1
        except BaseException as error:  # the test raises it
            self.error = error

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.done.items()))
        return f"{self.cuts} connections cut, {self.lossy_cuts} after lost responses, {self.lost_acks} acknowledgements lost; {faults}"
