"""Runs the scale cases, and confluent-kafka on the same work. Each bar is one row; a missed bar is a result and no error.

`python -m benchmarks.scale` prints the table after each case and writes build/scale.json. A consumer is assigned all partitions of a
cluster, a producer sends to all of them: by default 10,000 partitions of 1,000 topics on 100 brokers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from benchmarks.bars import Table
from benchmarks.bench import conditions
from benchmarks.scale import assigned, memory, states, traffic
from benchmarks.scale.server import RELEASE
from benchmarks.scale.shape import Shape

OUT = Path(__file__).resolve().parent.parent.parent / "build" / "scale.json"
CASES = ("assigned", "traffic", "states", "memory")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of memory, which varies little, a third")
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10, help="of each topic")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each idle measurement")
    parser.add_argument("--records", type=int, default=1_000_000, help="of keyed traffic in each run")
    parser.add_argument("--release", default=RELEASE, help="that the model cluster plays")
    parser.add_argument("--case", choices=CASES, action="append", help="default: all")
    arguments = parser.parse_args()
    shape, table = Shape(arguments.brokers, arguments.topics, arguments.partitions), Table()
    told = conditions()
    print(", ".join(f"{name} {value}" for name, value in told.items()), flush=True)
    print(f"{shape.total:,} partitions of {shape.topics:,} topics on {shape.brokers} brokers")
    for case in arguments.case or CASES:
        if case == "assigned":
            assigned.measure(table, shape, arguments.release, arguments.rounds, arguments.seconds)
        elif case == "traffic":
            traffic.measure(table, shape, arguments.rounds, arguments.records)
        elif case == "states":
            states.measure(table, shape, arguments.release, arguments.rounds)
        else:
            memory.measure(table, shape, arguments.release, max(1, arguments.rounds // 3))
        table.show()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"conditions": {**told, "load at the end": os.getloadavg()}, "rows": table.as_json()}, indent=1))
    print(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
