"""Runs deliberate bugs, and a sample of mutations that a tool draws: a test must notice each. The exit code is 0 only if all were killed.

python -m tools.mutants                               # the catalogue, two at a time
python -m tools.mutants sender 'split'                # bugs whose file or description contains one of the words
python -m tools.mutants --sample 150                  # also 150 mutations of pykafka4/core; --seed 2 draws others
python -m tools.mutants --sample 50 --of pykafka4/aio # and of another folder
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence

from tools.mutants.catalogue import entries, mutants_of
from tools.mutants.drawn import judge_all
from tools.mutants.mutant import ROOT, Mutant
from tools.mutants.run import Fate, Verdict, survey
from tools.mutants.sample import FOLDER, SEED, draw

__all__ = ["main"]


def chosen(words: Sequence[str], mutants: Sequence[Mutant]) -> list[Mutant]:
    return [mutant for mutant in mutants if not words or any(word in mutant.file or word in mutant.breaks for word in words)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only mutants whose file or description contains one of these words")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="also N mutations, drawn by the operators of cosmic-ray")
    parser.add_argument("--of", default=FOLDER, metavar="FOLDER", help="the folder whose sources the sample mutates; default: %(default)s")
    parser.add_argument("--seed", type=int, default=SEED, help="the seed of the sample; default: %(default)s")
    asked = parser.parse_args(arguments)
    began = time.monotonic()

    def tell(verdict: Verdict) -> None:
        mutant = verdict.mutant
        print(f"{verdict.fate.value:9} {verdict.seconds:5.1f} s  {mutant.file}: {mutant.breaks}\n{'':18} {verdict.detail}", flush=True)

    curated, stale = mutants_of(entries())
    for line in stale:
        print(f"stale, to be deleted from catalogue.tsv: {line}")
    verdicts = survey(chosen(asked.words, curated), tell)
    if asked.sample:
        verdicts += judge_all(chosen(asked.words, draw(asked.sample, asked.seed, folder=ROOT / asked.of)), tell)
    counts = {fate: sum(verdict.fate is fate for verdict in verdicts) for fate in Fate}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU"
    print(f"{len(verdicts)} mutants in {took}: " + ", ".join(f"{n} {fate.value}" for fate, n in counts.items()))
    return 0 if counts[Fate.KILLED] == len(verdicts) and verdicts else 1
