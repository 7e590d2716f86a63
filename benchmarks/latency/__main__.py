"""Runs the latency cases and judges their bars.

Invariant: contenders take turns round by round, each run in a fresh process; ours is compared with the best peer of the same run.
`python -m benchmarks.latency` prints a table and the judged bars of each case, writes build/latency.json for `benchmarks.latency.plot`,
and exits with 1 when a bar is not met. Latencies are in ms; the CPU time of the process, with the application's computation, is in us per
operation; pace is in operations per second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.bench import conditions
from benchmarks.latency import judge
from benchmarks.latency.measure import once
from benchmarks.latency.places import NAMES, Place, open_places
from benchmarks.latency.plan import Case, cases
from benchmarks.plan import in_turns
from pykafka4.net.transports import LOOP
from pykafka4.wire.records.hot import IMPLEMENTATION

OUT = Path(__file__).resolve().parent.parent.parent / "build" / "latency.json"
NAME, FIGURE = 64, 10  # columns
UNITS = {"cpu": "CPU us", "pace": "per s"}
Result = dict[str, Any]


def rounds(case: Case, place: Place, count: int) -> dict[str, list[Result]]:
    runs: dict[str, list[Result]] = {contender.label: [] for contender in case.contenders}
    for contender in in_turns(case.contenders, count):
        runs[contender.label].append(once(case, contender, place))
    return runs


def summary(place: str, case: Case, runs: dict[str, list[Result]]) -> Result:
    each = {label: [judge.figures(run) for run in of_label] for label, of_label in runs.items()}
    rows = {label: judge.medians(figures) for label, figures in each.items()}
    peers = [rows[label] for label in case.peers]
    ratios = {label: judge.ratios(rows[label], peers) for label in case.ours}
    return {
        "place": place,
        "case": case.title,
        "bars": {bar.figure: str(bar) for bar in case.bars},
        "verdicts": {label: judge.verdicts(case.bars, rows[label], ratios[label]) for label in case.judged},
        "peers": case.peers,
        "rows": rows,
        "ratios": ratios,
        "rounds": each,
        "samples": {label: sum(len(run["latencies"]) for run in of_label) for label, of_label in runs.items()},
        "distributions": {
            label: judge.distribution([value for run in of_label for value in run["latencies"]]) for label, of_label in runs.items()
        },
    }


def shown(figure: float | None) -> str:
    if figure is None:
        return f"{'-':>{FIGURE}}"
    return f"{figure:{FIGURE},.0f}" if figure >= 1000 else f"{figure:{FIGURE}.3g}"


def show(result: Result) -> None:
    print(f"\n{result['place']}: {result['case']}")
    print(f"  {'':{NAME}}" + "".join(f"{UNITS.get(name, name + ' ms'):>{FIGURE}}" for name in judge.FIGURES))
    for label, row in result["rows"].items():
        print(f"  {label:{NAME}}" + "".join(shown(row[name]) for name in judge.FIGURES))
    for label, ratios in result["ratios"].items():
        print(f"  {'times the best peer: ' + label:{NAME}}" + "".join(shown(ratios[name]) for name in judge.FIGURES))
    for label, verdicts in result["verdicts"].items():
        words = {True: "met", False: "MISSED", None: "NOT JUDGED"}
        print(f"  {label}: " + ", ".join(f"{name} {result['bars'][name]}: {words[met]}" for name, met in verdicts.items()), flush=True)


def unmet(result: Result) -> list[str]:
    verdicts = (verdict for each in result["verdicts"].values() for verdict in each.items())
    return [f"{result['place']}: {result['case']}: {name}" for name, met in verdicts if met is not True]


def write(told: Result, results: list[Result]) -> None:
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"conditions": {**told, "load at the end": os.getloadavg()}, "results": results}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of heartbeats a third")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement, after a second of warm-up")
    parser.add_argument("--heartbeat-seconds", type=float, default=60.0)
    parser.add_argument("--place", choices=NAMES, action="append", help="default: all")
    parser.add_argument("--case", default="", help="part of a case's title")
    parser.add_argument("--loop", choices=("portable", "pump"), action="append", default=[], help="ours over this loop, too; not judged")
    arguments = parser.parse_args()
    chosen = [case for case in cases(arguments.seconds, arguments.heartbeat_seconds, arguments.loop) if arguments.case in case.title]
    told = {**conditions(), "aiokafka": version("aiokafka"), "loop": LOOP, "core": IMPLEMENTATION}
    print(", ".join(f"{name} {value}" for name, value in told.items()), flush=True)
    results: list[Result] = []
    with open_places(arguments.place or list(NAMES)) as places:
        for place in places:
            for case in chosen:
                if place.name in case.places:
                    count = max(1, arguments.rounds // 3) if case.few else arguments.rounds
                    results.append(summary(place.name, case, rounds(case, place, count)))
                    show(results[-1])
                    write(told, results)
    if not results:
        parser.error(f"no case at this place has {arguments.case!r} in its title")
    missed = [bar for result in results for bar in unmet(result)]
    print(f"\n{'every bar is met' if not missed else 'MISSED OR NOT JUDGED: ' + '; '.join(missed)}; all counts verified; {OUT}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
