"""Compares this checkout's CPU per record with another commit's, in one interleaved run on the sink.

`python -m benchmarks.against COMMIT` checks COMMIT out under build/, with a virtual environment and a compiled core of its own, and runs
every case of both in turns. A round gives one ratio per case; their median counts, because the two runs of a round see the same machine.
Exits with 1 when a case takes more than 3 % more CPU per record than before.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

from benchmarks import contender
from benchmarks.clients.load import WARM_UP
from benchmarks.places import spec, verify
from benchmarks.plan import CONSUME, PRODUCE, Entry
from benchmarks.sink import BATCH, PARTITIONS, Sink

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.03


def checkout(commit: str) -> Path:
    """A clone at `commit` that is ready to run; made once."""
    digest = subprocess.run(
        ["git", "rev-parse", f"{commit}^{{commit}}"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    place = ROOT / "build" / f"against-{digest[:12]}"
    if not place.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(place)], check=True)
        subprocess.run(["git", "checkout", "--quiet", digest], cwd=place, check=True)
    subprocess.run(["tools/prepare", "base"], cwd=place, check=True)
    return place


def produce(entry: Entry, records: int, place: Path | None) -> dict[str, Any]:
    with Sink() as sink:
        figures = contender.run(spec(entry, sink.bootstrap, "bench", records, {}), place)
        verify(entry, records + WARM_UP, sum(sink.ends("bench").values()))
    return figures


def consume(entry: Entry, records: int, place: Path | None) -> dict[str, Any]:
    share = records // (PARTITIONS * BATCH) * BATCH
    with Sink(share, headers=entry.headers) as sink:
        return contender.run(spec(entry, sink.bootstrap, "bench", share * PARTITIONS, dict.fromkeys(range(PARTITIONS), share)), place)


@attrs.define
class Comparison:
    """CPU seconds per million records of both commits, round by round."""

    title: str
    before: list[float] = attrs.Factory(list)
    after: list[float] = attrs.Factory(list)

    @property
    def ratio(self) -> float:
        return statistics.median(after / before for before, after in zip(self.before, self.after, strict=True))

    def __str__(self) -> str:
        row = f"{self.title:32}{statistics.median(self.before):10.3f}{statistics.median(self.after):10.3f}{self.ratio:8.2f}"
        return row + (f"   more than {LIMIT}" if self.ratio > LIMIT else "")


def compare(old: Path, rounds: int, records: int, chosen: str) -> list[Comparison]:
    results = []
    for cases, runner in ((PRODUCE, produce), (CONSUME, consume)):
        for case in cases:
            if chosen not in case.title:
                continue
            result = Comparison(case.title)
            for number in range(rounds):
                pair = [(old, result.before), (None, result.after)]
                for place, figures in pair if number % 2 else reversed(pair):
                    figures.append(runner(case.ours[0], records, place)["cpu"])
            print(result, flush=True)
            results.append(result)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=2_400_000)
    parser.add_argument("--case", default="", help="part of a case's title")
    arguments = parser.parse_args()
    old = checkout(arguments.commit)
    print(f"{'CPU s per million records':32}{'before':>10}{'after':>10}{'ratio':>8}")
    results = compare(old, arguments.rounds, arguments.records, arguments.case)
    worse = [result.title for result in results if result.ratio > LIMIT]
    print(f"more than {LIMIT} times the CPU of before: {', '.join(worse) or 'nowhere'}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
