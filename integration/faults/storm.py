"""Makes a storm on connections through proxies: each lives for about a second, half of them lose responses, and links are slow or stuck in
between.

Invariant: the faults follow from the seed, and every proxy is healed when the storm has ended. `cuts`, `lost_acks` and `done` count faults
with an effect: a test that relies on a storm has to check them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType, TracebackType
from typing import Final, Self

import attrs

from integration.faults.proxy import Proxy

__all__ = ["FAULTS", "Storm"]

PAUSE_S, LASTS_S = (0.2, 1.0), (0.2, 0.8)  # seconds between two faults; duration of a fault
END_S: Final = 10.0


def _nothing(_: Proxy) -> None:
    """Do nothing: the fault ends by itself."""


@attrs.frozen
class Fault:
    """`came` is the check after the end whether the fault had an effect."""

    begin: Callable[[Proxy, Random], object]
    end: Callable[[Proxy], object] = _nothing
    came: Callable[[Proxy], bool] = lambda _: True


FAULTS: Final[Mapping[str, Fault]] = MappingProxyType(
    {
        "delay": Fault(lambda proxy, r: proxy.delay(r.uniform(0.02, 0.3), jitter=0.1), lambda proxy: proxy.delay(0)),
        "bandwidth": Fault(lambda proxy, r: proxy.bandwidth(r.uniform(50_000, 500_000)), lambda proxy: proxy.bandwidth(None)),
        "requests held": Fault(lambda proxy, _: proxy.hold_requests(), Proxy.release),
        "responses held": Fault(lambda proxy, _: proxy.hold_responses(), Proxy.release),
        "cut in a request": Fault(
            lambda proxy, r: proxy.cut_requests_after(r.randrange(1, 30_000)), came=lambda proxy: proxy.requests.cut_after is None
        ),
        "cut in a response": Fault(
            lambda proxy, r: proxy.cut_responses_after(r.randrange(1, 1_000)), came=lambda proxy: proxy.responses.cut_after is None
        ),
        "all reset": Fault(lambda proxy, _: proxy.drop_connections()),
    }
)


class Storm:
    """The storm during a `with` block. Each connection lives 0.5 to 1.5 s, and about half of the cuts lose responses."""

    def __init__(self, proxies: Mapping[int, Proxy], seed: int) -> None:
        self.proxies, self.random = list(proxies.values()), Random(seed)
        self.done: Counter[str] = Counter()
        self.error: BaseException | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, name="storm", daemon=True)
        self.before = self.counted()
        self.after: tuple[int, int, int] | None = None  # the counts at the end; None: the storm continues

    def counted(self) -> tuple[int, int, int]:
        counters = [proxy.counters for proxy in self.proxies]
        return sum(c.resets for c in counters), sum(c.lossy_resets for c in counters), sum(c.lost_acks for c in counters)

    def since(self) -> tuple[int, int, int]:
        """The counts of the storm, or of its time so far, without the connections that it found or left open."""
        resets, lossy, lost = (now - before for now, before in zip(self.after or self.counted(), self.before, strict=True))
        return resets, lossy, lost

    @property
    def cuts(self) -> int:
        return self.since()[0]

    @property
    def lossy_cuts(self) -> int:
        """Cut connections that had lost responses; also over TLS."""
        return self.since()[1]

    @property
    def lost_acks(self) -> int:
        """The least number of Produce requests whose response was lost; 0 over TLS."""
        return self.since()[2]

    @property
    def rounds(self) -> int:
        """How often every fault has had an effect, at least."""
        return min(self.done[name] for name in FAULTS)

    def __enter__(self) -> Self:
        for proxy in self.proxies:
            proxy.chaos()
        self.before = self.counted()
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.over.set()
        self.thread.join(END_S)
        self.after = self.counted()
        for proxy in self.proxies:
            proxy.heal()
        if kind is None and self.error is not None:
            raise self.error

    def run(self) -> None:
        left: list[str] = []
        try:
            while not self.over.wait(self.random.uniform(*PAUSE_S)):
                left = left or self.random.sample(list(FAULTS), len(FAULTS))
                name, proxy = left.pop(), self.random.choice(self.proxies)
                fault = FAULTS[name]
                found = fault.begin(proxy, self.random)
                self.over.wait(self.random.uniform(*LASTS_S))
                fault.end(proxy)
                self.done[name] += fault.came(proxy) and found != 0
        except BaseException as error:  # kept for the test, which raises it
            self.error = error

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.done.items()))
        cuts, lossy, lost = self.since()
        return f"{cuts} connections cut, {lossy} after lost responses, {lost} acknowledgements lost; {faults}"
