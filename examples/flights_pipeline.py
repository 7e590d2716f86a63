"""Flights. Rule: PySpark produces, a broker dies on the way, a group of three reads, and every flight is accounted for.

    python examples/flights_pipeline.py [--rows 60000] [--cluster local|docker|vagrant] [--master local[2]] [--picture flights.png]

Starts three Kafka brokers of its own. Spark writes with `format("pykafka4")`. The broker that leads most partitions is killed (SIGKILL)
when a third of the rows are acknowledged and restarted before two thirds are: where the machine is too fast or too slow for that, the input
is paced. Draws what happened, and ends with 0 when every check holds.
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

UNHURRIED = 10.0  # seconds for the first third, so that the moment of the kill can be met
MANY = 5 * PARTITIONS  # records in flight at the kill: some for every partition
OUTAGE = 30.0  # seconds for what is left of the second third, so that the broker can be back before it is over
GATHER, HOLD = 0.4, 0.6  # of the rows: above it only a trickle is sent before all readers read, and while the broker is down
TRICKLE = 1 / 5000  # of the rows in a second: in all the seconds that the outage may take not what is left to two thirds
LOOK = 0.05  # seconds between two looks at how much was sent
START = 400.0  # seconds that Spark and the first third may take together: on a machine busy with other things a JVM starts slowly
SAMPLE = 0.2  # seconds between two points of the picture
PROGRESS = 2.0  # seconds between lines that show where things stand
WAIT = 120.0  # seconds: the limit of every other wait


@attrs.define(eq=False)
class Run:
    """One run: the cluster, the folder shared with the Spark workers and the readers, and where things stand."""

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
        """What the readers write."""
        return [self.folder / f"reader-{number}" for number in range(MEMBERS)]

    def acked(self) -> int:
        """Rows acknowledged to the producers in the Spark workers."""
        return self.board.total("acked")

    def read(self) -> tuple[int, ...]:
        """How many records each reader was handed."""
        return tuple(map(reader.count, self.files))

    def pace(self, rows_per_second: float) -> None:
        """Of both tasks together."""
        self.board.set_pace(rows_per_second / 2)

    def until(self, condition: Callable[[], float | bool | None], what: str, timeout: float = WAIT) -> float:
        """Wait while the job runs; that it ends before the condition holds is an error."""

        def holds() -> float | bool | None:
            if self.produced.is_set():
                raise RuntimeError(f"the job ended while the script waited for {what}")
            return condition()

        return until(holds, timeout, what)

    def sample(self) -> None:
        """Note where things stand, for the picture."""
        acked, accepted = self.acked(), self.board.total("accepted")
        self.samples.append(picture.Sample(time.monotonic() - self.started, acked, max(accepted - acked, 0), sum(self.read())))

    def say(self, event: str) -> None:
        """Print where things stand; `event` is shown until the next one."""
        self.event = event
        self.show()

    def show(self) -> None:
        elapsed = time.monotonic() - self.started
        print(f"{elapsed:6.1f} s  acknowledged {self.acked():>7,} of {self.rows:,}  read {sum(self.read()):>7,}  {self.event}", flush=True)


@attrs.frozen
class Outage:
    """What the kill met, and what came of it. Seconds count from the kill, its own from the start; rows are acknowledged ones."""

    killed: float
    victim: int
    led: int
    at_kill: int
    in_flight: int
    resent: int
    recovered: float
    at_return: int
    returned: float
    read_at_kill: tuple[int, ...]  # by each reader
    read_at_return: tuple[int, ...]


def outage(run: Run) -> Outage:
    """Kill the broker that leads most partitions after a third of the rows; have it back before two thirds."""
    gather(run)
    leaders = {partition: run.cluster.leader(TOPIC, partition) for partition in range(PARTITIONS)}
    victim, led = Counter(leaders.values()).most_common(1)[0]
    in_flight, resent = strike(run, victim)
    killed, at_kill, read_at_kill = time.monotonic(), run.acked(), run.read()
    run.pace(max(2 / 3 * run.rows - at_kill, 0) / OUTAGE)
    with held(run, HOLD):
        run.say(f"broker {victim}, leader of {led} partitions, killed with {in_flight:,} records in flight")
        recover(run, [partition for partition, leader in leaders.items() if leader == victim])
        recovered = time.monotonic() - killed
        run.until(lambda: run.board.total("retries") > resent, "what was in flight to be sent again", timeout=5.0)
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
    """A third of the rows are acknowledged, and every reader reads."""
    run.pace(run.rows / 3 / UNHURRIED)
    with held(run, GATHER):
        run.until(lambda: run.acked() >= run.rows / 3, "a third of the rows to be acknowledged", START)
        run.until(lambda: all(run.read()), "every reader to read")
    run.pace(run.rows / 3 / UNHURRIED)


@contextlib.contextmanager
def held(run: Run, share: float) -> Iterator[None]:
    """Inside the block nothing but a trickle is sent once `share` of the rows were, whatever the script waits for meanwhile.

    What was sent counts, not what was acknowledged: while a partition has no leader its records wait, and then come all at once. A trickle
    and not nothing, because new records are the sign that a partition works again.
    """

    def hold() -> None:
        if run.board.total("accepted") > share * run.rows:
            run.pace(run.rows * TRICKLE)

    with repeated(LOOK, hold):
        yield


def strike(run: Run, victim: int) -> tuple[int, int]:
    """Kill the broker while records are in flight to it; returns how many were in flight, and how many batches had been sent twice.

    A record is acknowledged when all replicas have it: with one of the other brokers frozen for a moment, what is sent stays in flight,
    written by the leader but not acknowledged. That is the hard case: sent again, such a record must not stand in the log twice.
    """
    other = next(node for node in run.cluster.nodes if node != victim)
    run.cluster.freeze(other)
    try:
        # Report the number that was waited for: if it were read again, it might have changed.
        in_flight = run.until(lambda: (now := run.board.total("in_flight")) >= MANY and now, f"{MANY} records in flight")
        resent = run.board.total("retries")
        run.cluster.kill(victim)
    finally:
        run.cluster.thaw(other)
    return int(in_flight), resent


def recover(run: Run, orphans: list[int]) -> None:
    """Wait until every partition that lost its leader has taken new records."""
    before = run.cluster.offsets(TOPIC)  # answered when all partitions have leaders again
    run.until(lambda: all(run.cluster.offsets(TOPIC)[p][1] > before[p][1] for p in orphans), "records in all partitions again")


def back(run: Run, victim: int) -> bool:
    """Whether the broker serves."""
    with contextlib.suppress(OSError, KafkaError):
        return run.cluster.ready({victim})
    return False


def unpaced_at_last(run: Run) -> Outage:
    """The outage; whatever comes of it, the job must not be left waiting."""
    try:
        return outage(run)
    finally:
        run.pace(math.inf)


def produce(run: Run) -> float:
    """The Spark job; returns its seconds."""
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
    """The three members of the group, from before the first record on."""
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
    """Ask the readers to leave the group, and see that they do."""
    for member in members:
        assert member.stdin is not None
        member.stdin.close()
    codes = [ended(member) for member in members]
    return Check("the readers ended well", codes == [0] * MEMBERS, f"exit codes {codes}")


def ended(member: subprocess.Popen[bytes]) -> int:
    """A reader's exit code; one that hangs is made to show its stacks."""
    try:
        return member.wait(timeout=30.0)
    except subprocess.TimeoutExpired:
        member.send_signal(signal.SIGABRT)
        return member.wait(timeout=30.0)


@contextlib.contextmanager
def repeated(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Inside the block `act` is called again and again, with pauses of so many seconds, in a thread of its own."""
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
    """Whether the group was handed `end` different records; those handed out again do not count twice."""
    return sum(run.read()) >= end and len({(read.partition, read.offset) for path in run.files for read in reader.reads(path)}) >= end


def check_outage(rows: int, found: Outage, read: Sequence[int]) -> list[Check]:
    """`read`: how many records each reader was handed in all."""
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
    """The whole job; returns the checks and the figures, and draws the picture."""
    run.pace(math.inf)
    run.cluster.create_topic(TOPIC, PARTITIONS, 3)
    with readers(run) as members, repeated(SAMPLE, run.sample), repeated(PROGRESS, run.show), ThreadPoolExecutor(1) as thread:
        killing = thread.submit(unpaced_at_last, run)
        seconds = produce(run)
        found = killing.result()
        run.say("everything is produced; waiting for replicas and readers")
        run.cluster.wait_full_isr([TOPIC])
        end = sum(latest for _, latest in run.cluster.offsets(TOPIC).values())
        until(lambda: caught_up(run, end), WAIT, "the group to have read everything")
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
    """What the picture marks."""
    return {
        f"broker {found.victim} killed": found.killed,
        "all partitions take records": found.killed + found.recovered,
        f"broker {found.victim} back": found.killed + found.returned,
    }


def show(checks: list[Check], figures: list[tuple[str, str]]) -> None:
    """The result, with rich where it is installed."""
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
    parser = argparse.ArgumentParser(description="The main job of pykafka4, with a broker killed on the way.")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the 336,776 flights (default: all)")
    parser.add_argument("--cluster", choices=list(BACKENDS), default=chosen(), help="what runs the brokers (default: $CLUSTER or local)")
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
