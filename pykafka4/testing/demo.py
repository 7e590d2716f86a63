"""Shows the client at work without a Kafka installation: a producer, a group of three consumers, and a broker that is killed midway.

`python -m pykafka4 demo` runs the demo against three model brokers in the same process. Invariant: the checks at the end use
the brokers' log, the committed offsets and the consumers' records, not the client's reports.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TextIO

import attrs

from pykafka4.consumer import Consumer
from pykafka4.producer import Producer
from pykafka4.testing.server.model_server import ModelServer

__all__ = ["Demo", "main"]

TOPIC, GROUP, PARTITIONS, MEMBERS, CUSTOMERS = "orders", "billing", 6, 3, 500
RECORDS = 60_000
SENDING_S = 6.0  # seconds over which the producer spreads its records, so that there is something to see
ELECTION_S = 0.5  # seconds from the kill of a broker to the election of other leaders
WAIT_S = 60.0  # seconds after which each wait fails
FRAME_S = 0.1  # seconds between two updates of the line on a terminal
LINE_S = 1.0  # seconds between two lines, if the output is not a terminal
BAR = 30  # characters


@attrs.frozen
class Check:
    promise: str
    kept: bool
    found: str


@attrs.define(eq=False)
class Demo:
    """One run. The threads of the producer and consumers write `sent`, `read` and `owned`; the thread of `run` draws, stops the broker and
    checks."""

    server: ModelServer
    producer: Producer
    records: int
    out: TextIO
    sent: int = 0
    read: list[list[int]] = attrs.field(factory=lambda: [[] for _ in range(MEMBERS)])
    owned: list[int] = attrs.field(factory=lambda: [0] * MEMBERS)
    event: str = "the consumers join their group"
    drawn: float = float("-inf")
    done: threading.Event = attrs.field(factory=threading.Event)
    started: float = attrs.field(factory=time.monotonic)

    def run(self) -> list[Check]:
        """Raises TimeoutError if a step takes more than a minute, or the error of a thread that has failed."""
        with ThreadPoolExecutor(MEMBERS + 1, thread_name_prefix="demo") as threads:
            members = [threads.submit(self._consume, number) for number in range(MEMBERS)]
            try:
                self._until(lambda: min(self.owned) > 0 and sum(self.owned) == PARTITIONS, "the consumers to join", members)
                sending = threads.submit(self._send)
                self._kill_and_restart([sending, *members])
                self._until(sending.done, "the producer to deliver everything", [sending, *members])
                self._until(lambda: self._distinct() >= self.records, "the consumers to read everything", members)
            finally:
                self.done.set()
        for thread in [sending, *members]:
            thread.result()
        self._tell("done")
        return list(self._checks())

    def _send(self) -> None:
        begun = time.monotonic()
        for number in range(self.records):
            if number % 100 == 0:
                due = begun + SENDING_S * number / self.records
                if self.done.wait(max(due - time.monotonic(), 0.0)):
                    return
            self.producer.send(TOPIC, str(number), key=f"customer {number % CUSTOMERS}")
            self.sent = number + 1
        self.producer.flush(timeout=WAIT_S)

    def _consume(self, number: int) -> None:
        servers = self.server.bootstrap_servers
        with Consumer(bootstrap_servers=servers, group_id=GROUP, auto_offset_reset="earliest", client_id=f"billing-{number}") as consumer:
            consumer.subscribe([TOPIC])
            while not self.done.is_set():
                self.read[number] += [int(record.value or b"-1") for record in consumer.poll(timeout=0.2)]
                self.owned[number] = len(consumer.assignment())

    def _kill_and_restart(self, threads: Sequence[Future[None]]) -> None:
        self.event = "the producer sends, the group reads"
        self._until(lambda: self.sent >= self.records / 3, "a third of the records", threads)
        leaders = Counter(self.server.do(lambda cluster: [p.leader for p in cluster.topics[TOPIC].partitions]))
        victim, led = leaders.most_common(1)[0]
        self.server.do(lambda cluster: cluster.stop_broker(victim, failover=ELECTION_S))
        self._tell(f"broker {victim}, the leader of {led} partitions, is killed")
        self._until(lambda: self.sent >= self.records * 2 / 3, "two thirds of the records", threads)
        self.server.do(lambda cluster: cluster.start_broker(victim))
        self._tell(f"broker {victim} is back")

    def _until(self, condition: Callable[[], bool], awaited: str, threads: Sequence[Future[None]]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            for thread in threads:
                if thread.done():
                    thread.result()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {WAIT_S:.0f} s for {awaited}: {self._figures()}")
            self._draw()
            time.sleep(FRAME_S)

    def _tell(self, event: str) -> None:
        self.event = event
        self._draw(last=True)

    def _draw(self, last: bool = False) -> None:
        now = time.monotonic()
        terminal = self.out.isatty()
        if not (last or terminal or now - self.drawn >= LINE_S):
            return
        self.drawn = now
        line = f"{now - self.started:5.1f} s  {self._figures()}  {self.event}"
        self.out.write(("\r\x1b[K" if terminal else "") + line + ("\n" if last or not terminal else ""))
        self.out.flush()

    def _figures(self) -> str:
        full = BAR * self.sent // self.records
        acked, read = self.producer.stats().acked, sum(map(len, self.read))
        return f"{'█' * full}{'░' * (BAR - full)}  sent {self.sent:>6,}  acknowledged {acked:>6,}  read {read:>6,}"

    def _distinct(self) -> int:
        return len(set().union(*self.read))

    def _checks(self) -> Iterator[Check]:
        log = [[int(r.value or b"-1") for r in self.server.records(TOPIC, partition)] for partition in range(PARTITIONS)]
        times = Counter(number for numbers in log for number in numbers)
        lost = self.records - len(times.keys() & set(range(self.records)))
        repeated = sum(count - 1 for count in times.values())
        yield Check("no record is lost", not lost, f"{self.records - lost:,} of {self.records:,} in the brokers' log")
        yield Check("no record is in the log twice", not repeated, f"{repeated:,} repeated")
        disordered = sum(not increasing(numbers) for numbers in by_customer(log))
        yield Check("each customer's records are in send order", not disordered, f"{CUSTOMERS - disordered} of {CUSTOMERS} customers")
        read = Counter(number for numbers in self.read for number in numbers)
        shares = ", ".join(f"{len(numbers):,}" for numbers in self.read)
        yield Check("the group read every record", read.keys() == times.keys(), f"{shares} by its three consumers")
        committed = sum(self.server.committed(GROUP).values())
        yield Check("the group committed every record", committed == self.records, f"offsets add up to {committed:,}")


def by_customer(log: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(CUSTOMERS)]
    for numbers in log:
        for number in numbers:
            found[number % CUSTOMERS].append(number)
    return found


def increasing(numbers: Sequence[int]) -> bool:
    return all(a < b for a, b in itertools.pairwise(numbers))


ABOUT: Final = (
    "Show the client at work without Kafka: three model brokers in this process, a producer, a group of three consumers, and a broker "
    "that is killed midway. At the end the demo checks the brokers' log and the consumers' records."
)


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    parser = argparse.ArgumentParser("pykafka4 demo", description=ABOUT, epilog="example: pykafka4 demo --records 10000")
    parser.add_argument(
        "--records", type=int, default=RECORDS, metavar="N", help=f"how many records the producer sends (default {RECORDS:,})"
    )
    records = max(parser.parse_args(arguments).records, PARTITIONS)
    out.write(f"Three model brokers, a producer that sends {records:,} orders of {CUSTOMERS} customers, a group of three consumers.\n")
    with ModelServer(brokers=3) as server:
        server.create_topic(TOPIC, PARTITIONS)
        with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
            checks = Demo(server, producer, records, out).run()
    for check in checks:
        out.write(f"  {'ok    ' if check.kept else 'FAILED'}  {check.promise}: {check.found}\n")
    return 0 if all(check.kept for check in checks) else 1
