"""Writes flights with PySpark while a broker is killed, reads them with a group of three, and checks that each flight is there once.

    python examples/flights_pipeline.py [--rows 60000] [--cluster local|docker|vagrant] [--master local[2]] [--picture flights.png]

The script starts three Kafka brokers of its own. Spark writes with `format("pykafka4")`. The script kills the broker that leads most
partitions (SIGKILL) when a third of the rows are acknowledged, and restarts it before two thirds are. It paces the input, so that both
are possible on fast and on slow machines. It draws a picture of the run, and exits with 0 if each check holds.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]  # runs from a checkout, from any folder

import flights_job as job  # noqa: E402
import flights_judge as judge  # noqa: E402
import flights_picture as picture  # noqa: E402
import flights_reader as reader  # noqa: E402
from flights_judge import ROWS, Check  # noqa: E402

from integration.backends import BACKENDS, backend, chosen  # noqa: E402
from integration.cluster import Cluster  # noqa: E402
from integration.waiting import until  # noqa: E402
from pykafka4 import KafkaError  # noqa: E402

TOPIC, GROUP, PARTITIONS, MEMBERS = "flights", "flights-readers", 6, 3

UNHURRIED_S = 10.0  # seconds for the first third of the rows, so that the script can meet the moment of the kill
MANY = 5 * PARTITIONS  # records in flight at the kill: some for each partition
OUTAGE_S = 30.0  # seconds for the remaining rows of the second third, so that the broker can be back before the end of that third
# Shares of the rows. Above GATHER only a trickle is sent until all readers read, and above HOLD until the broker is back.
GATHER, HOLD = 0.4, 0.6
TRICKLE = 1 / 5000  # share of the rows in a second: even the longest outage does not use up the rows from HOLD to two thirds
CHECK_S = 0.05  # seconds between two reads of the number of sent rows
START_S = 400.0  # seconds for Spark's start and the first third together: on a machine busy with other things a JVM starts slowly
SAMPLE_S = 0.2  # seconds between two points of the picture
PROGRESS_S = 2.0  # seconds between two lines that show the progress
WAIT_S = 120.0  # seconds: the limit of each other wait


@attrs.define(eq=False)
class Run:
    """One run: the cluster, the folder that Spark's workers and the readers share, and the progress."""

    cluster: Cluster
    rows: int
    folder: Path
    board: job.Board = attrs.field(init=False)
    started: float = attrs.field(factory=time.monotonic)
    master: str = "local[2]"
    event: str = "Spark starts"
    samples: list[picture.Sample] = attrs.field(factory=list)
    produced: threading.Event = attrs.field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self.board = job.Board(self.folder)

    @property
    def files(self) -> list[Path]:
        """The files that the readers write."""
        return [self.folder / f"reader-{number}" for number in range(MEMBERS)]

    def acked(self) -> int:
        """The number of rows that brokers have acknowledged to the producers in Spark's workers."""
        return self.board.total("acked")

    def read(self) -> tuple[int, ...]:
        """The number of records that each reader has read."""
        return tuple(map(reader.count, self.files))

    def pace(self, rows_per_second: float) -> None:
        """Set the pace of both tasks together."""
        self.board.set_pace(rows_per_second / 2)

    def until(self, condition: Callable[[], float | bool | None], what: str, timeout: float = WAIT_S) -> float:
        """Wait until `condition` holds. Raises RuntimeError if the job ends before that."""

        def holds() -> float | bool | None:
            if self.produced.is_set():
                raise RuntimeError(f"the job ended while the script waited for {what}")
            return condition()

        return until(holds, timeout, what)

    def sample(self) -> None:
        """Note the present numbers for the picture."""
        acked, accepted = self.acked(), self.board.total("accepted")
        self.samples.append(picture.Sample(time.monotonic() - self.started, acked, max(accepted - acked, 0), sum(self.read())))

    def say(self, event: str) -> None:
        """Print the progress with `event`, which further lines repeat until the next event."""
        self.event = event
        self.show()

    def show(self) -> None:
        """Print a line with the progress."""
        elapsed = time.monotonic() - self.started
        print(f"{elapsed:6.1f} s  acknowledged {self.acked():>7,} of {self.rows:,}  read {sum(self.read()):>7,}  {self.event}", flush=True)


@attrs.frozen
class Outage:
    """The figures of the outage. Seconds count from the kill, `killed` from the start of the script."""

    killed: float
    victim: int
    led: int  # partitions that the victim led
    at_kill: int  # acknowledged rows
    in_flight: int  # records at the kill
    resent: int  # batches
    recovered: float
    at_return: int  # acknowledged rows
    returned: float
    read_at_kill: tuple[int, ...]  # records of each reader
    read_at_return: tuple[int, ...]


def outage(run: Run) -> Outage:
    """Kill the broker that leads most partitions after a third of the rows, and restart it before two thirds."""
    gather(run)
    leaders = {partition: run.cluster.leader(TOPIC, partition) for partition in range(PARTITIONS)}
    victim, led = Counter(leaders.values()).most_common(1)[0]
    in_flight, resent = strike(run, victim)
    killed, at_kill, read_at_kill = time.monotonic(), run.acked(), run.read()
    run.pace(max(2 / 3 * run.rows - at_kill, 0) / OUTAGE_S)
    with held(run, HOLD):
        run.say(f"broker {victim}, leader of {led} partitions, killed with {in_flight:,} records in flight")
        recover(run, [partition for partition, leader in leaders.items() if leader == victim])
        recovered = time.monotonic() - killed
        run.until(lambda: run.board.total("retries") > resent, "the batches in flight to be sent again", timeout=5.0)
        resent = run.board.total("retries") - resent
        run.say(f"all partitions take records again after {recovered:.1f} s; broker {victim} starts")
        run.cluster.launch(victim)
        run.until(lambda: back(run, victim), f"broker {victim} to serve again")
        at_return, returned, read_at_return = run.acked(), time.monotonic() - killed, run.read()
    run.say(f"broker {victim} serves again after {returned:.1f} s")
    return Outage(
        killed - run.started, victim, led, at_kill, in_flight, resent, recovered, at_return, returned, read_at_kill, read_at_return
    )


def gather(run: Run) -> None:
    """Wait until a third of the rows are acknowledged, and each reader has read."""
    run.pace(run.rows / 3 / UNHURRIED_S)
    with held(run, GATHER):
        run.until(lambda: run.acked() >= run.rows / 3, "a third of the rows to be acknowledged", START_S)
        run.until(lambda: all(run.read()), "every reader to read")
    run.pace(run.rows / 3 / UNHURRIED_S)


@contextlib.contextmanager
def held(run: Run, share: float) -> Iterator[None]:
    """A block in which only a trickle is sent once `share` of the rows were sent, however long the script waits in the block.

    Sent rows count, not acknowledged rows: while a partition has no leader, its records wait, and then are acknowledged all at once. The
    trickle continues, because new records are the sign that a partition works again.
    """

    def hold() -> None:
        if run.board.total("accepted") > share * run.rows:
            run.pace(run.rows * TRICKLE)

    with repeated(CHECK_S, hold):
        yield


def strike(run: Run, victim: int) -> tuple[int, int]:
    """Kill the broker while records are in flight to it; returns the numbers of these records, and of batches that were sent again before.

    A record is acknowledged when all replicas have it. While one of the other brokers is frozen, sent records stay in flight: the leader
    has written them, and cannot acknowledge them. This is the hard case: when such a record is sent again, the log must not have it twice.
    """
    other = next(node for node in run.cluster.nodes if node != victim)
    run.cluster.freeze(other)
    try:
        # The number that ended the wait is reported: a second read might find another number.
        in_flight = run.until(lambda: (now := run.board.total("in_flight")) >= MANY and now, f"{MANY} records in flight")
        resent = run.board.total("retries")
        run.cluster.kill(victim)
    finally:
        run.cluster.thaw(other)
    return int(in_flight), resent


def recover(run: Run, orphans: list[int]) -> None:
    """Wait until each partition that has lost its leader has new records."""
    before = run.cluster.offsets(TOPIC)  # returns when all partitions have leaders again
    run.until(lambda: all(run.cluster.offsets(TOPIC)[p][1] > before[p][1] for p in orphans), "records in all partitions again")


def back(run: Run, victim: int) -> bool:
    """Whether the broker serves again."""
    with contextlib.suppress(OSError, KafkaError):
        return run.cluster.ready({victim})
    return False


def run_outage(run: Run) -> Outage:
    """Run the outage. Afterwards, even after an error, the job continues at full speed, because it must not wait forever."""
    try:
        return outage(run)
    finally:
        run.pace(math.inf)


def produce(run: Run) -> float:
    """Run the Spark job; returns its seconds."""
    spark = job.session(run.folder, run.master)
    try:
        csv = job.extract(run.folder, run.rows)
        started = time.monotonic()
        run.say("the job runs")
        job.produce(spark, csv, run.cluster.bootstrap, TOPIC, run.folder)
        return time.monotonic() - started
    finally:
        run.produced.set()
        spark.stop()


@contextlib.contextmanager
def readers(run: Run) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A block with the three members of the group, which start before the first record."""
    script = [sys.executable, str(HERE / "flights_reader.py"), "--bootstrap-servers", run.cluster.bootstrap]
    script += ["--topic", TOPIC, "--group", GROUP, "--out"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])}
    members = [subprocess.Popen([*script, str(path)], env=environment, stdin=subprocess.PIPE) for path in run.files]
    try:
        yield members
    finally:
        for member in members:
            member.kill()
            member.communicate()


def dismiss(members: list[subprocess.Popen[bytes]]) -> Check:
    """Have the readers leave the group, and check that they do."""
    for member in members:
        assert member.stdin is not None
        member.stdin.close()
    codes = [ended(member) for member in members]
    return Check("the readers ended well", codes == [0] * MEMBERS, f"exit codes {codes}")


def ended(member: subprocess.Popen[bytes]) -> int:
    """The exit code of a reader. A reader that hangs gets SIGABRT, and shows its stacks."""
    try:
        return member.wait(timeout=30.0)
    except subprocess.TimeoutExpired:
        member.send_signal(signal.SIGABRT)
        return member.wait(timeout=30.0)


@contextlib.contextmanager
def repeated(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """A block during which a thread of its own calls `act` again and again, with pauses of `seconds`."""
    done = threading.Event()

    def go_on() -> None:
        while not done.wait(seconds):
            act()

    thread = threading.Thread(target=go_on, name=act.__name__, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def caught_up(run: Run, end: int) -> bool:
    """Whether the group has read `end` different records. A record that the group read twice counts once."""
    return sum(run.read()) >= end and len({(read.partition, read.offset) for path in run.files for read in reader.reads(path)}) >= end


def check_outage(rows: int, found: Outage, read: Sequence[int]) -> list[Check]:
    """The checks of the outage. `read` has the number of records of each reader in all."""
    spans = list(zip(found.read_at_kill, found.read_at_return, read, strict=True))
    return [
        Check("the kill met records in flight", found.in_flight > 0 < found.resent, f"{found.in_flight:,} records, {found.resent} batches"),
        Check("killed after a third", rows / 3 <= found.at_kill < 2 / 3 * rows, f"at {found.at_kill:,} of {rows:,}"),
        Check("back before two thirds", found.at_return < 2 / 3 * rows, f"at {found.at_return:,} of {rows:,}"),
        Check(
            "every reader read before the kill, during the outage and after it",
            all(0 < kill < back < end for kill, back, end in spans),
            "; ".join(f"{kill:,} + {back - kill:,} + {end - back:,}" for kill, back, end in spans),
        ),
    ]


def run_all(run: Run, drawn: Path) -> tuple[list[Check], list[tuple[str, str]]]:
    """Run the job and the outage, and draw the picture; returns the checks and the figures."""
    run.pace(math.inf)
    run.cluster.create_topic(TOPIC, PARTITIONS, 3)
    with readers(run) as members, repeated(SAMPLE_S, run.sample), repeated(PROGRESS_S, run.show), ThreadPoolExecutor(1) as thread:
        killing = thread.submit(run_outage, run)
        seconds = produce(run)
        found = killing.result()
        run.say("everything is produced; waiting for replicas and readers")
        run.cluster.wait_full_isr([TOPIC])
        end = sum(latest for _, latest in run.cluster.offsets(TOPIC).values())
        until(lambda: caught_up(run, end), WAIT_S, "the group to have read everything")
        ended = dismiss(members)
    run.say("comparing with the data set")
    log = run.cluster.log(TOPIC)
    seen = [reader.reads(path) for path in run.files]
    expected = judge.flights(run.folder / "flights.csv")
    checks = [judge.check_data(expected, run.rows), *judge.check_log(log, expected), *judge.check_group(seen, log), ended]
    checks += check_outage(run.rows, found, [len(reads) for reads in seen])
    records = sum(map(len, log.values()))
    missing = picture.draw(run.samples, events(found), drawn)
    return checks, [
        ("rows", f"{run.rows:,}"),
        ("rate", f"{run.rows / seconds:,.0f} rows/s, paced, in {seconds:.1f} s"),
        ("retries", f"{run.board.total('retries')} batches, {found.resent} of them by the kill"),
        ("duplicates in the log", f"{records - run.rows:,}"),
        ("offsets read again by the group", f"{judge.rereads(seen):,}"),
        ("time to recover", f"{found.recovered:.1f} s until all {found.led} partitions of broker {found.victim} took records again"),
        ("broker back", f"{found.returned:.1f} s after the kill"),
        ("all in all", f"{time.monotonic() - run.started:.0f} s"),
        ("picture", missing or str(drawn)),
    ]


def events(found: Outage) -> dict[str, float]:
    """The events that the picture marks, in seconds after the start."""
    return {
        f"broker {found.victim} killed": found.killed,
        "all partitions take records": found.killed + found.recovered,
        f"broker {found.victim} back": found.killed + found.returned,
    }


def show(checks: list[Check], figures: list[tuple[str, str]]) -> None:
    """Print the result, as a table if rich is installed."""
    for check in checks:
        print(f"{'ok    ' if check.kept else 'FAILED'}  {check.promise}: {check.found}")
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print("\n".join(f"{name:<32} {value}" for name, value in figures))
        return
    table = Table(show_header=False)
    for row in figures:
        table.add_row(*row)
    Console().print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description="The main job of pykafka4, with a broker killed midway.")
    parser.add_argument("--rows", type=int, default=ROWS, help="number of flights to write (default: all 336,776)")
    parser.add_argument("--cluster", choices=list(BACKENDS), default=chosen(), help="backend of the brokers (default: $CLUSTER or local)")
    parser.add_argument("--master", default="local[2]", help="where Spark runs: local[2], spark://host:7077 on this machine")
    parser.add_argument("--picture", type=Path, default=HERE.parent / "build" / "flights.png", help="the file of the picture")
    options = parser.parse_args()
    print("three brokers start", flush=True)
    with tempfile.TemporaryDirectory(prefix="flights-") as folder, backend(options.cluster)() as cluster:
        checks, figures = run_all(Run(cluster, options.rows, Path(folder), master=options.master), options.picture)
    show(checks, figures)
    broken = [check.promise for check in checks if not check.kept]
    print(f"FAILED: {'; '.join(broken)}" if broken else "Nothing lost, nothing twice, nothing reordered.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
