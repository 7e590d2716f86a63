"""Compares this checkout's CPU per record with another commit's, in one interleaved run on the sink.

`python -m benchmarks.against COMMIT` checks COMMIT out under build/, with its own virtual environment, and runs every case of both in
turns, with the compiled core. A round gives one ratio per case, and the median counts, because the two runs of a round see the same
machine. With `--peers` each CPU per record is also shown as a multiple of confluent-kafka's in the round, in its better configuration.
Exits with 1 if a case takes more than 3 % more than before (`--limit`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from benchmarks import contender
from benchmarks.clients.load import WARM_UP
from benchmarks.places import spec, verify
from benchmarks.plan import CONSUME, PRODUCE, Case, Entry
from benchmarks.sink import BATCH, PARTITIONS, Sink

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.03  # maximum ratio of a case's CPU to the CPU before


def checkout(commit: str) -> Path:
    """The first call makes the clone."""
    digest = subprocess.run(
        ["git", "rev-parse", f"{commit}^{{commit}}"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    place = ROOT / "build" / f"against-{digest[:12]}"
    if not place.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(place)], check=True)
        subprocess.run(["git", "checkout", "--quiet", digest], cwd=place, check=True)
    subprocess.run(["tools/prepare", "base"], cwd=place, check=True)
    build(place, place / ".venv" / "bin" / "python")
    return place


def build(place: Path, python: Path) -> None:
    """A core of other sources cannot be imported, or is measured by mistake."""
    command = [str(python), "setup.py", "build_ext", "--inplace"]
    environment = os.environ | {"PYKAFKA4_BUILD_EXTENSION": "yes"}
    subprocess.run(command, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)


def produce(entry: Entry, records: int, place: Path | None) -> dict[str, Any]:
    with Sink() as sink:
        figures = contender.run(spec(entry, sink.bootstrap, "bench", records, {}), place)
        verify(entry, records + WARM_UP, sum(sink.ends("bench").values()))
    return figures


def consume(entry: Entry, records: int, place: Path | None) -> dict[str, Any]:
    share = records // (PARTITIONS * BATCH) * BATCH
    with Sink(share, headers=entry.headers) as sink:
        return contender.run(spec(entry, sink.bootstrap, "bench", share * PARTITIONS, dict.fromkeys(range(PARTITIONS), share)), place)


Runner = Callable[[Entry, int, Path | None], dict[str, Any]]


@attrs.define
class Comparison:
    """CPU seconds per million records, round by round."""

    title: str
    limit: float = LIMIT
    before: list[float] = attrs.Factory(list)
    after: list[float] = attrs.Factory(list)
    peer: list[float] = attrs.Factory(list)

    @property
    def ratio(self) -> float:
        """The median of after / before. The peer's CPU of a round would cancel out."""
        return statistics.median(after / before for before, after in zip(self.before, self.after, strict=True))

    @property
    def met(self) -> bool:
        return self.ratio <= self.limit

    def of_peer(self, ours: list[float]) -> float:
        return statistics.median(mine / its for mine, its in zip(ours, self.peer, strict=True))

    def __str__(self) -> str:
        row = f"{self.title:32}{statistics.median(self.before):10.3f}{statistics.median(self.after):10.3f}"
        if self.peer:
            row += f"{statistics.median(self.peer):10.3f}{self.of_peer(self.before):13.3f}{self.of_peer(self.after):13.3f}"
        return f"{row}{self.ratio:8.3f}" + ("" if self.met else f"   more than {self.limit:g}")


HEADING = f"{'CPU s per million records':32}{'before':>10}{'after':>10}"
WITH_PEER = f"{'peer':>10}{'before/peer':>13}{'after/peer':>13}"


def one_round(result: Comparison, case: Case, runner: Runner, records: int, old: Path, *, peers: bool) -> None:
    ours = case.ours[0]
    pair = [(old, result.before), (None, result.after)]
    for place, figures in pair if len(result.before) % 2 else reversed(pair):
        figures.append(runner(ours, records, place)["cpu"])
    if peers:
        result.peer.append(min(runner(peer, records, None)["cpu"] for peer in case.peers))


def is_known(old: Path, case: Case) -> bool:
    """A case may be newer than the other commit."""
    return f'"{case.ours[0].case}":' in (old / "benchmarks" / "clients" / "ours.py").read_text()


def compare(old: Path, rounds: int, records: int, chosen: str, limit: float = LIMIT, *, peers: bool = False) -> list[Comparison]:
    groups: tuple[tuple[tuple[Case, ...], Runner], ...] = ((PRODUCE, produce), (CONSUME, consume))
    both = [(case, runner) for cases, runner in groups for case in cases if chosen in case.title and is_known(old, case)]
    results = [(Comparison(case.title, limit), case, runner) for case, runner in both]
    for result, case, runner in results:
        for _ in range(rounds):
            one_round(result, case, runner, records, old, peers=peers)
        print(result, flush=True)
    return [result for result, _, _ in results]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=2_400_000)
    parser.add_argument("--case", default="", help="part of a case's title")
    parser.add_argument("--limit", type=float, default=LIMIT, help="the most that a case may take, in relation to before")
    parser.add_argument("--peers", action="store_true", help="confluent-kafka has its turn in every round")
    arguments = parser.parse_args()
    old = checkout(arguments.commit)
    build(ROOT, Path(sys.executable))
    print(HEADING + (WITH_PEER if arguments.peers else "") + f"{'ratio':>8}")
    results = compare(old, arguments.rounds, arguments.records, arguments.case, arguments.limit, peers=arguments.peers)
    worse = [result.title for result in results if not result.met]
    print(f"more than {arguments.limit:g} times the CPU of before: {', '.join(worse) or 'nowhere'}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
