"""Measures the cost of metrics: CPU of the process per record, with a scrape each second and without, in turns.

`python -m benchmarks.metrics` starts a broker; `--bootstrap` names a cluster instead. A producer and a consumer of the same topic run in
the process, as fast as they can. prometheus_client does the scrape, as text. On a shared machine turns differ by more than scrapes cost. So
the bar is on the CPU of a scrape, of all threads, while nothing else runs in the process: at most BAR of a second of one processor.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import threading
import time
import uuid
from itertools import pairwise

from prometheus_client import CollectorRegistry, generate_latest

from integration.local.cluster import LocalCluster
from pykafka4 import AdminClient, Consumer, Producer
from pykafka4.metrics.prometheus import ClientCollector

BAR = 0.01  # maximum share of a processor, with a scrape each second
TURNS, SECONDS, EVERY_S = 20, 2.0, 1.0
VALUE, BURST = b"x" * 100, 500
ALONE = 200  # number of scrapes that `alone` measures


class Scraper:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry, self.on, self._stop = registry, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Scraper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            if self.on.is_set():
                generate_latest(self._registry)


def turn(producer: Producer, consumer: Consumer[bytes, bytes], topic: str) -> float:
    """Return the CPU of the process per record, in microseconds."""
    cpu, until, count = time.process_time(), time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        for _ in range(BURST):
            producer.send(topic, VALUE)
        count += BURST
        consumer.poll(timeout=0, max_records=10 * BURST)
    return (time.process_time() - cpu) / count * 1e6


def alone(registry: CollectorRegistry) -> float:
    """CPU seconds of the process for one scrape."""
    began = time.process_time()
    for _ in range(ALONE):
        generate_latest(registry)
    return (time.process_time() - began) / ALONE


def measure(bootstrap: str) -> tuple[list[float], list[float], float]:
    """(CPU microseconds per record without and with scrapes, by turns; CPU seconds of a scrape)."""
    topic, registry, shown = f"bench-metrics-{uuid.uuid4().hex[:8]}", CollectorRegistry(), ClientCollector()
    registry.register(shown)
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({topic: 6}, wait=True)
    without, scraped = list[float](), list[float]()
    with Producer(bootstrap_servers=bootstrap) as producer, Consumer(bootstrap_servers=bootstrap) as consumer, Scraper(registry) as scraper:
        shown.add(producer, consumer)
        consumer.assign([(topic, partition) for partition in range(6)])
        turn(producer, consumer, topic)  # warms up
        for _ in range(TURNS):
            scraper.on.clear()
            without.append(turn(producer, consumer, topic))
            scraper.on.set()
            scraped.append(turn(producer, consumer, topic))
        scraper.on.clear()
        producer.flush()
        return without, scraped, alone(registry)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", help="brokers; default: one of its own")
    given = parser.parse_args().bootstrap
    with contextlib.ExitStack() as ends:
        bootstrap = given or ends.enter_context(LocalCluster(1)).bootstrap
        without, scraped, scrape = measure(bootstrap)
    usual, with_them = statistics.median(without), statistics.median(scraped)
    more = statistics.median(b / a for a, b in zip(without, scraped, strict=True)) - 1
    noise = statistics.median(abs(b / a - 1) for a, b in pairwise(without))
    print(f"CPU per record sent and read: {usual:.3f} us, with a scrape each second {with_them:.3f} us")
    print(f"median of pairs: {more:+.2%}; two turns without scrapes differ by {noise:.2%}")
    print(f"a scrape alone: {scrape * 1e3:.1f} ms of CPU, with one each second {scrape / EVERY_S:.2%} of a processor")
    return int(scrape / EVERY_S > BAR)


if __name__ == "__main__":
    sys.exit(main())
