"""Measures Spark jobs, with the JVM connector and confluent-kafka as peers: a million rows of 100 bytes on local[2], three real brokers.

`python -m benchmarks.spark` runs each contender's job once a round, in random order, after one round that warms the JVM and the Python
workers up. It prints rows per second, CPU seconds of the client (the JVM and the Python workers, not the brokers) per million rows, and the
bars; writes build/spark.json; and exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.bench import conditions
from benchmarks.spark.bars import bars
from benchmarks.spark.figures import Figures
from benchmarks.spark.micro_batch import MICRO_BATCHES, MicroBatches
from benchmarks.spark.place import SIZE, SparkPlace, spark_place
from benchmarks.spark.reads import READS, Reads
from benchmarks.spark.writes import SAVE, WRITES, write

OUT = Path(__file__).resolve().parents[2] / "build" / "spark.json"


@contextmanager
def contenders(place: SparkPlace, scratch: str) -> Iterator[dict[str, Callable[[], dict[str, float]]]]:
    with place.topic() as log, place.topic() as few, place.topic() as small:
        SAVE["kafka"](place.frame, place.cluster.bootstrap, log)
        SAVE["kafka"](place.few, place.cluster.bootstrap, few)
        reads, micro = Reads(place, log, few), MicroBatches(place, small, scratch)
        micro.fill()
        jobs: dict[str, Callable[[], dict[str, float]]] = {label: partial(write, place, label) for label in WRITES}
        jobs |= {label: partial(reads.read, label) for label in READS}
        yield jobs | {label: partial(micro.run, label) for label in MICRO_BATCHES}


def measure(rounds: int, rows: int, wanted: str) -> Figures:
    """`wanted`: a pattern for names. A first round does not count."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as scratch, spark_place(scratch, rows) as place, contenders(place, scratch) as jobs:
        labels = [label for label in jobs if re.search(wanted, label)]
        for label in labels:
            jobs[label]()
        for _ in range(rounds):
            for label in random.sample(labels, len(labels)):
                figures.note(label, jobs[label]())
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="only the contenders whose name matches this regular expression")
    arguments = parser.parse_args()
    shown = conditions()
    print(", ".join(f"{name} {value}" for name, value in shown.items()))
    print(f"{arguments.rows:,} rows of {SIZE} bytes, local[2], real cluster; medians of {arguments.rounds} rounds, counts verified")
    figures = measure(arguments.rounds, arguments.rows, arguments.only)
    for title, labels in (("write", WRITES), ("read", READS), ("micro-batch of 1,000 rows, Kafka to Kafka", MICRO_BATCHES)):
        figures.show(title, [label for label in labels if label in figures.of])
    judged = [bar for bar in bars(figures) if bar.measured]
    print("\nbars")
    for bar in judged:
        print(bar)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"conditions": shown, "figures": figures.of}, indent=1))
    return 0 if all(bar.met for bar in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
