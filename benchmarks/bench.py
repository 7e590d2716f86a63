"""Measures rate and CPU per record of all clients, and judges the ratios. Contenders take turns, medians are compared, counts are verified.

`python -m benchmarks.bench` prints a table with verdicts, writes build/bench.json, and exits with 1 if a bar is missed. CPU is the user and
system time of the client's process per million records, without start-up; `app` is the part of the application's threads.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs

import pykafka4
from benchmarks.places import ClusterPlace, Place, SinkPlace
from benchmarks.plan import CONSUME, PRODUCE, Case, Entry, in_turns
from integration.local.cluster import LocalCluster
from integration.security.settings import Security

OUT = Path(__file__).resolve().parent.parent / "build" / "bench.json"
PLACES = ("sink", "cluster", "tls")
COLUMNS = ("rate", "cpu", "application", "memory")
Figures = dict[str, Any]
Runner = Callable[[Entry], Figures]


def rounds(case: Case, runner: Runner, count: int) -> dict[str, list[Figures]]:
    runs: dict[str, list[Figures]] = {entry.label: [] for entry in case.entries}
    for entry in in_turns(case.entries, count):
        runs[entry.label].append(runner(entry))
    return runs


def medians(runs: list[Figures]) -> Figures:
    return {column: statistics.median(run[column] for run in runs) for column in COLUMNS}


def summary(place: str, case: Case, runs: dict[str, list[Figures]]) -> Figures:
    rows = {label: medians(figures) for label, figures in runs.items()}
    peers = [rows[entry.label] for entry in case.peers]
    least, most = min(row["cpu"] for row in peers), max(row["rate"] for row in peers)
    ratios = {entry.label: {"cpu": rows[entry.label]["cpu"] / least, "rate": rows[entry.label]["rate"] / most} for entry in case.ours}
    cheap = case.bar is None or all(ratio["cpu"] <= case.bar for ratio in ratios.values())
    fast = case.rate is None or all(ratio["rate"] >= case.rate for ratio in ratios.values())
    bars = {"bar": case.bar, "least rate": case.rate, "met": cheap and fast}
    return {"place": place, "case": case.title, **bars, "rows": rows, "ratios": ratios, "runs": runs}


def show(result: Figures) -> None:
    print(f"\n{result['place']}: {result['case']}")
    print(f"  {'':44}{'k records/s':>12}{'CPU s/M':>10}{'app s/M':>10}{'RSS MB':>8}")
    for label, row in result["rows"].items():
        print(f"  {label:44}{row['rate'] / 1e3:12,.0f}{row['cpu']:10.3f}{row['application']:10.3f}{row['memory']:8.0f}")
    for label, ratio in result["ratios"].items():
        rate = "" if result["least rate"] is None else f" and {result['least rate']} x the rate"
        bar = "" if result["bar"] is None else f"; the bar is 1/{1 / result['bar']:.0f}{rate}: {'met' if result['met'] else 'MISSED'}"
        print(f"  {label}: {ratio['rate']:.1f} x the rate, 1/{1 / ratio['cpu']:.1f} of the CPU of the best peer{bar}")


@contextlib.contextmanager
def places(wanted: Sequence[str], scale: float) -> Iterator[list[Place]]:
    with contextlib.ExitStack() as stack:
        made: list[Place] = []
        if "sink" in wanted:
            made.append(SinkPlace(int(2_400_000 * scale)))
        if "cluster" in wanted:
            made.append(ClusterPlace(stack.enter_context(LocalCluster()), int(1_000_000 * scale)))
        if "tls" in wanted:
            made.append(ClusterPlace(stack.enter_context(LocalCluster(security=Security("SSL"))), int(1_000_000 * scale)))
        yield made


def cases(place: Place, chosen: str) -> Iterator[tuple[Case, Runner]]:
    """On the real cluster brokers take most of the time, so there only judged cases run, and no rate is judged."""
    for group, runner in ((PRODUCE, place.produce), (CONSUME, place.consume)):
        for case in group:
            if chosen in case.title and (place.name == "sink" or case.bar is not None):
                yield judged(place, case), runner


def judged(place: Place, case: Case) -> Case:
    if place.name == "sink" or case.bar is None:
        return case
    return attrs.evolve(case, bar=None if case.rate else place.bar or case.bar, rate=None)


def conditions() -> Figures:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": sys.version.split()[0],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg(),
        "pykafka4": pykafka4.__version__,
        "confluent-kafka": version("confluent-kafka"),
    }


def check_bytes(place: Place, chosen: str) -> None:
    """Before anything is timed, the sink checks the CRC of every batch that each kind of producer writes."""
    if place.name == "sink" and not chosen.startswith("consume"):
        careful = SinkPlace(60_000, "verify")
        for entry in {entry.label: entry for case in PRODUCE if chosen in case.title for entry in case.entries}.values():
            careful.produce(entry)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of records")
    parser.add_argument("--place", choices=PLACES, action="append", help="default: all")
    parser.add_argument("--case", default="", help="part of a case's title")
    arguments = parser.parse_args()
    told = conditions()
    print(", ".join(f"{name} {value}" for name, value in told.items()))
    results = []
    with places(arguments.place or PLACES, arguments.scale) as chosen:
        for place in chosen:
            check_bytes(place, arguments.case)
            for case, runner in cases(place, arguments.case):
                results.append(summary(place.name, case, rounds(case, runner, arguments.rounds)))
                show(results[-1])
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"conditions": told, "results": results}, indent=1))
    missed = [f"{result['place']}: {result['case']}" for result in results if not result["met"]]
    print(f"\n{'every bar is met' if not missed else 'MISSED: ' + '; '.join(missed)}; all counts verified; {OUT}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
