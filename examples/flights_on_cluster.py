"""Writes the flights exactly once on a standalone Spark cluster, while one of two executors is killed.

Three brokers, a master and two workers of Spark start on this machine. After a third of the rows, SIGKILL ends an executor with its tasks.
Spark starts another executor, and repeats these tasks. At the end a reader of committed records finds each flight once, in order.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]  # runs from a checkout, from any folder

import flights_job as job  # noqa: E402
import flights_judge as judge  # noqa: E402
from flights_judge import ROWS, Check  # noqa: E402

from integration.backends import backend, chosen  # noqa: E402
from integration.cluster import Cluster  # noqa: E402
from integration.spark.cluster import Executor, StandaloneSpark  # noqa: E402
from integration.waiting import until  # noqa: E402

TOPIC, PARTITIONS = "flights", 6
UNHURRIED_S = 10.0  # seconds for the first third of the rows, so that the script can meet the moment of the kill
START_S = 400.0  # seconds for Spark's start and the first third, on a machine busy with other things
ONCE = {"delivery": "exactly_once", "idempotencyKey": "flights"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="number of flights to write (default: all 336,776)")
    options = parser.parse_args()
    print("three brokers start, and a Spark cluster of a master and two workers", flush=True)
    with tempfile.TemporaryDirectory(prefix="flights-") as folder, backend(chosen())() as cluster, StandaloneSpark() as spark:
        checks = run(cluster, spark, options.rows, Path(folder))
    for check in checks:
        print(f"{'ok    ' if check.kept else 'FAILED'}  {check.promise}: {check.found}")
    broken = [check.promise for check in checks if not check.kept]
    print(f"FAILED: {'; '.join(broken)}" if broken else "Nothing lost, nothing twice, nothing reordered.")
    return 1 if broken else 0


def run(cluster: Cluster, spark: StandaloneSpark, rows: int, folder: Path) -> list[Check]:
    """Run the job, with the kill of an executor; returns the checks."""
    begun, board, csv = time.monotonic(), job.Board(folder), job.extract(folder, rows)
    cluster.create_topic(TOPIC, PARTITIONS, 3)
    board.set_pace(rows / 3 / UNHURRIED_S / len(spark.hosts))
    session = job.session(folder, spark.master)
    try:
        with ThreadPoolExecutor(1) as thread:
            killing = thread.submit(kill, cluster, spark, rows, board)
            job.produce(session, csv, cluster.bootstrap, TOPIC, folder, ONCE)
            victim = killing.result()
    finally:
        session.stop()
    print(f"{time.monotonic() - begun:.0f} s: everything is committed; comparing with the data set", flush=True)
    expected, found = judge.flights(csv), cluster.committed(TOPIC)
    aborted, left = (sum(getattr(one, name) for one in found.values()) for name in ("aborted", "open"))
    return [
        judge.check_data(expected, rows),
        *judge.check_log({partition: one.records for partition, one in found.items()}, expected),
        Check("the kill met rows in transactions", aborted > 0, f"{aborted:,} rows of executor {victim.number} are aborted"),
        Check("no transaction is left open", left == 0, f"{left} rows"),
    ]


def kill(cluster: Cluster, spark: StandaloneSpark, rows: int, board: job.Board) -> Executor:
    """Kill an executor when a third of the rows are written. Afterwards, even after an error, the job continues at full speed."""
    try:
        until(lambda: written(cluster) >= rows / 3, START_S, "a third of the rows")
        victim, *others = spark.executors()
        spark.kill(victim)
        print(f"executor {victim.number} on {victim.host} is killed after {written(cluster):,} rows", flush=True)
        other = spark.wait_executors(1, (victim, *others))[0]
        print(f"executor {other.number} on {other.host} takes its place", flush=True)
    finally:
        board.set_pace(math.inf)
    return victim


def written(cluster: Cluster) -> int:
    """The number of rows in the log, committed or not."""
    return sum(end for _, end in cluster.offsets(TOPIC).values())


if __name__ == "__main__":
    sys.exit(main())
