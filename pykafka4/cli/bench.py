"""Measures the user's own cluster with this client: `pykafka4 bench`. Invariant: the bench writes only to a topic that
it creates, and tries to delete the topic at the end, even if Ctrl-C or an error ends a phase.
"""

from __future__ import annotations

import random
import string
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pykafka4.admin import AdminClient
from pykafka4.cli.frame import Seconds
from pykafka4.cli.invocation import DONE, Invocation, show_error, show_note
from pykafka4.cli.show import console, print_json, table
from pykafka4.cli.tables import Table
from pykafka4.core.admin.topics import NewTopic
from pykafka4.errors import KafkaError

__all__ = ["bench"]

RECORDS: Final = 1_000_000
VALUES: Final = 1_000  # different values, because equal ones would give a codec too little work
SAMPLE: Final = 100  # at full speed, one in this many records has its latency measured
MARK: Final = b"pykafka4"
STAMPED: Final = len(MARK) + 8  # the least size of a value: the mark, and the time of its `send`
# At the start of the latency phase records wait for connections, and the reader, which begins at the end of the log, may miss records. The
# latencies of this time do not count.
WARM_UP_S: Final = 1.0
RECORD_TIMEOUT_S: Final = 60.0
SHOWN: Final = ("p50", "p99", "p99.9")


@attrs.frozen
class Workload:
    topic: str
    records: int | None
    seconds: float | None
    size: int
    options: dict[str, Any]

    def values(self) -> list[bytes]:
        """Values of random letters, as in kafka-producer-perf-test; the same in each bench."""
        letters = random.Random(0)
        return ["".join(letters.choices(string.ascii_uppercase, k=self.size)).encode() for _ in range(VALUES)]


@attrs.frozen
class Figures:
    """The figures of a phase. Latencies are in seconds, sorted; in the phase `produce` only a sample of the records has them."""

    phase: str
    records: int
    size: int
    seconds: float
    cpu: float | None
    latencies: Sequence[float] = ()

    def quantile(self, part: float) -> float | None:
        """A quantile of the latencies, in milliseconds; None without latencies."""
        if not self.latencies:
            return None
        return 1000 * self.latencies[min(len(self.latencies) - 1, int(part * len(self.latencies)))]

    def json(self) -> dict[str, Any]:
        rate = self.records / self.seconds
        return {
            "phase": self.phase,
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "records_per_s": round(rate, 1),
            "mb_per_s": round(rate * self.size / 1e6, 3),
            "cpu_us_per_record": None if self.cpu is None else round(1e6 * self.cpu / self.records, 3),
            "latency_ms": {name: _rounded(self.quantile(float(name[1:]) / 100)) for name in SHOWN} if self.latencies else None,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


class Clock:
    """Wall time, and CPU time of this process."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def figures(self, phase: str, records: int, size: int, latencies: Sequence[float] = ()) -> Figures:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Figures(phase, records, size, wall, cpu, sorted(latencies))


class Bar:
    """A phase's progress bar, which only a terminal shows."""

    def __init__(self, phase: str, total: float | None) -> None:
        screen = Console(stderr=True)
        columns = (TextColumn("{task.description:<11}"), BarColumn(), TextColumn("{task.fields[shown]}"), TimeRemainingColumn())
        self._progress = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._task = self._progress.add_task(phase, total=total, shown="")

    def show(self, done: float, records: int, seconds: float, size: int) -> None:
        rate = records / max(seconds, 1e-9)
        self._progress.update(self._task, completed=done, shown=f"{records:,} records  {rate:,.0f}/s  {rate * size / 1e6:,.1f} MB/s")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


@click.command(
    epilog="""\b
Examples:
  pykafka4 bench -b localhost:9092
  pykafka4 bench -b localhost:9092 --seconds 30 --size 1000 --compression zstd
  pykafka4 bench --profile prod --acks 1 --json | jq .records_per_s
"""
)
@click.option("--records", metavar="N", type=click.IntRange(1), help=f"Records to produce and consume; default {RECORDS:,}.")
@click.option("--seconds", metavar="SECONDS", type=Seconds(0.1, 1e6), help="Produce for this long, instead of a number of records.")
@click.option("--size", metavar="BYTES", type=click.IntRange(STAMPED, 2**30), default=100, show_default=True, help="Bytes of a value.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True, help="Whose acknowledgement counts.")
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Codec of batches.",
)
@click.option(
    "--partitions", metavar="N", type=click.IntRange(1, 10_000), default=6, show_default=True, help="Partitions of the bench's topic."
)
@click.option("--replication", metavar="N", type=click.IntRange(1, 100), help="Replicas of a partition; default: the cluster's default.")
@click.option(
    "--rate", metavar="N", type=click.IntRange(1, 100_000), default=1_000, show_default=True, help="Records/s while latency is measured."
)
@click.option(
    "--latency-seconds", metavar="SECONDS", type=Seconds(2, 1e6), default=6.0, show_default=True, help="How long latency is measured."
)
@click.option("--json", "json_", is_flag=True, help="One JSON object for each phase.")
@click.pass_obj
def bench(
    invocation: Invocation, /, json_: bool, partitions: int, replication: int | None, rate: int, latency_seconds: float, **load: Any
) -> int:
    """Measure your cluster: produce, consume, and end-to-end latency.

    The records go to a topic of their own, which is deleted at the end. First they are produced as fast as possible, then all of them are
    consumed; then --rate records a second are sent, and timed until they are acknowledged and until a consumer has them. The first two
    phases load the cluster: if others use it, begin with --records 10000.
    """
    if load["records"] is not None and load["seconds"] is not None:
        raise click.UsageError("give --records or --seconds, not both")
    records = RECORDS if load["records"] is None and load["seconds"] is None else load["records"]
    options = {"acks": "all" if load["acks"] == "all" else int(load["acks"]), "compression_type": load["compression"]}
    if load["acks"] != "all":
        options["enable_idempotence"] = False  # a producer would warn that lower acks disable it
    work = Workload(f"pykafka4-bench-{uuid.uuid4().hex[:12]}", records, load["seconds"], load["size"], options)
    with invocation.admin() as admin:
        new = {work.topic: NewTopic(partitions, replication or -1)}
        admin.create_topics(new, validate_only=True, timeout=invocation.timeout)  # if this is refused, there is no topic to delete
        try:
            admin.create_topics(new, wait=True, timeout=invocation.timeout)
            found = []
            for figures in _phases(invocation, work, rate, latency_seconds):
                found.append(figures)
                if json_:
                    print_json(figures.json())
        finally:
            code = _delete(admin, work.topic, invocation.timeout)
    if not json_:
        console().print(_table(found))
        show_note("MB: 10^6 bytes of values. CPU: this process. Latencies of produce include the wait in memory")
    return code


def _delete(admin: AdminClient, topic: str, timeout: float | None) -> int:
    try:
        admin.delete_topics([topic], timeout=timeout)
    except KafkaError as error:  # not raised, because it would hide the figures or an earlier error
        if str(error.code) == "UNKNOWN_TOPIC_OR_PARTITION":
            return DONE
        return show_error(
            f"the topic {topic} of the bench was not deleted; if it exists, delete it with: "
            f"pykafka4 topics delete {topic} --execute ({error})"
        )
    return DONE


def _phases(invocation: Invocation, load: Workload, rate: int, seconds: float) -> Iterator[Figures]:
    produced = _produce(invocation, load)
    yield produced
    yield _consume(invocation, load, produced.records)
    yield from _paced(invocation, load, rate, seconds)


def _table(found: Sequence[Figures]) -> Table:
    rows = []
    for each in found:
        line = each.json()
        latency = line["latency_ms"] or {}
        rate = f"{each.records:,}", f"{line['records_per_s']:,.0f}", f"{line['mb_per_s']:,.1f}"
        times = (_with("ms", latency.get(name), 1) for name in SHOWN)
        rows.append((each.phase, *rate, _with("µs", line["cpu_us_per_record"], 2), *times))
    return table(("phase", "records", "records/s", "MB/s", "CPU/record", *SHOWN), rows)


def _with(unit: str, value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:,.{digits}f} {unit}"


# -- phases


class AckLatencies:
    """The seconds from `send` to the callback, for each record with a callback from `sent`."""

    def __init__(self) -> None:
        self.latencies: list[float] = []

    def sent(self) -> Any:
        begin = time.perf_counter()
        return lambda delivery: self.latencies.append(time.perf_counter() - begin)


def _produce(invocation: Invocation, load: Workload) -> Figures:
    """Raises KafkaError if a record failed."""
    values, acks = load.values(), AckLatencies()
    with invocation.producer(**load.options) as producer, Bar("produce", load.records or load.seconds) as bar:
        producer.send(load.topic, values[0]).result(RECORD_TIMEOUT_S)  # the phase does not include the time of the first connection
        clock, begin, sent = Clock(), time.perf_counter(), 0
        while True:
            passed = time.perf_counter() - begin
            bar.show(sent if load.records else passed, sent, passed, load.size)
            if sent >= load.records if load.records is not None else passed >= (load.seconds or 0):
                break
            count = VALUES if load.records is None else min(VALUES, load.records - sent)
            for first in range(0, count, SAMPLE):  # one record with a callback, the others in one call
                producer.send(load.topic, values[first], on_delivery=acks.sent())
                producer.send_many(load.topic, values[first + 1 : min(first + SAMPLE, count)])
            sent += count
        producer.flush()
        figures = clock.figures("produce", sent, load.size, acks.latencies)
        stats = producer.stats()
    if stats.acked < sent + 1:  # one more: the record that opened the connection
        raise KafkaError(
            f"{sent + 1 - stats.acked} of {sent + 1} records failed: {', '.join(map(str, stats.failed)) or 'not acknowledged'}"
        )
    return figures


def _consume(invocation: Invocation, load: Workload, records: int) -> Figures:
    with invocation.consumer(auto_offset_reset="earliest", group_id=None) as consumer, Bar("consume", records) as bar:
        consumer.subscribe([load.topic])
        clock = Clock()
        begin = last = time.perf_counter()
        found = 0
        while found < records:
            got = consumer.poll(1.0)
            now = time.perf_counter()
            if got:
                found, last = found + len(got), now
                bar.show(found, found, now - begin, load.size)
            elif now - last > RECORD_TIMEOUT_S:
                raise KafkaError(f"{records - found} of {records} records did not come within {RECORD_TIMEOUT_S:.0f} s")
        return clock.figures("consume", found, load.size)


class Reader(threading.Thread):
    """The thread that reads the paced records, and keeps the time of each record's `send` and the seconds until it arrived."""

    def __init__(self, invocation: Invocation, topic: str) -> None:
        super().__init__(name="pykafka4-bench-reader", daemon=True)
        self.found: list[tuple[float, float]] = []  # begin, seconds
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._consumer = invocation.consumer(auto_offset_reset="latest", group_id=None)
        self._consumer.subscribe([topic])

    def run(self) -> None:
        try:
            with self._consumer as consumer:
                while not self.done.is_set():
                    records = consumer.poll(0.2)
                    now = time.perf_counter()
                    self.found += [(begin, now - begin) for record in records if (begin := _stamp(record.value)) is not None]
        except BaseException as error:  # the main thread raises it
            self.error = error

    def since(self, begin: float) -> list[float]:
        """The latencies of records sent since `begin`. Raises the error that ended the thread."""
        if self.error is not None:
            raise self.error
        return [seconds for sent, seconds in self.found if sent >= begin]


def _stamped(filling: bytes) -> bytes:
    return MARK + struct.pack(">d", time.perf_counter()) + filling


def _stamp(value: bytes | None) -> float | None:
    if value is None or not value.startswith(MARK):
        return None
    (found,) = struct.unpack_from(">d", value, len(MARK))
    return float(found)


def _paced(invocation: Invocation, load: Workload, rate: int, seconds: float) -> Iterator[Figures]:
    """Measure the time to the acknowledgement, and the time to a consumer."""
    filling, acks, reader = b"x" * (load.size - STAMPED), AckLatencies(), Reader(invocation, load.topic)
    reader.start()
    try:
        with invocation.producer(**{**load.options, "linger_ms": 0}) as producer, Bar("latency", seconds) as bar:
            clock, begin, sent = Clock(), time.perf_counter(), 0
            warm, measured = begin + WARM_UP_S, 0
            while (now := time.perf_counter()) < begin + seconds:
                while sent < (now - begin) * rate:
                    producer.send(load.topic, _stamped(filling), on_delivery=acks.sent() if now >= warm else None)
                    sent, measured = sent + 1, measured + (now >= warm)
                bar.show(now - begin, sent, now - begin, load.size)
                time.sleep(max(0.0, begin + sent / rate - time.perf_counter()))
            producer.flush()
            ended = attrs.evolve(clock.figures("ack", sent, load.size, acks.latencies), cpu=None)  # mostly the CPU time of waiting
        limit = time.perf_counter() + RECORD_TIMEOUT_S
        while len(found := reader.since(warm)) < measured:
            if time.perf_counter() > limit:
                raise KafkaError(f"{measured - len(found)} of {measured} records did not come within {RECORD_TIMEOUT_S:.0f} s")
            time.sleep(0.05)
    finally:
        reader.done.set()
        reader.join(RECORD_TIMEOUT_S)
    yield ended
    yield attrs.evolve(ended, phase="end to end", latencies=sorted(found))
