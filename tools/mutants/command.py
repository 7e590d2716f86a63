"""Deliberate bugs, and a sample of mutations that a tool draws: a test must notice each. Exit code 1 for a survivor.

python -m tools.mutants                     # the catalogue, two at a time
python -m tools.mutants --sample 150        # and 150 mutations of pykafka4/core; --seed 2 draws others
python -m tools.mutants sender 'split'      # those whose file or description contains one of the words
python -m tools.mutants --find tests/core   # which test fails first, among the given ones instead of the mutant's own
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence

from tools.mutants.catalogue import MUTANTS
from tools.mutants.drawn import judge_all
from tools.mutants.mutant import Mutant
from tools.mutants.run import Fate, Verdict, survey
from tools.mutants.sample import SEED, draw

__all__ = ["main"]


def chosen(words: Sequence[str], mutants: Sequence[Mutant]) -> list[Mutant]:
    return [mutant for mutant in mutants if not words or any(word in mutant.file or word in mutant.breaks for word in words)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only mutants whose file or description contains one of these")
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N", help="and N mutations of pykafka4/core, drawn by the operators of cosmic-ray"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample; default: %(default)s")
    parser.add_argument("--find", nargs="+", default=[], metavar="TEST", help="run these tests instead of each mutant's own")
    asked = parser.parse_args(arguments)
    began = time.monotonic()

    def tell(verdict: Verdict) -> None:
        mutant = verdict.mutant
        print(f"{verdict.fate.value:9} {verdict.seconds:5.1f} s  {mutant.file}: {mutant.breaks}\n{'':18} {verdict.detail}", flush=True)

    verdicts: list[Verdict] = []
    if curated := chosen(asked.words, MUTANTS):
        verdicts += survey(curated, tell, asked.find, controlled=not asked.find)
    if asked.sample:
        verdicts += judge_all(chosen(asked.words, draw(asked.sample, asked.seed)), tell)
    counts = {fate: sum(verdict.fate is fate for verdict in verdicts) for fate in Fate}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU"
    print(f"{len(verdicts)} mutants in {took}: " + ", ".join(f"{n} {fate.value}" for fate, n in counts.items()))
    return 0 if counts[Fate.KILLED] == len(verdicts) and verdicts else 1
