"""Reads bugs that no mutation operator would make from `catalogue.tsv`, one a line. An entry whose place is gone is stale: delete it.

Columns, divided by a tab: the symbol; the code; the code with the bug (empty: the statement is dropped); the bug in words; and the test
that notices the bug, if the tests that mirror the module do not. `tools.mutants.places` explains how an edit finds its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs

from tools.mutants.mutant import ROOT, Mutant, mirrored
from tools.mutants.places import Place, Stale, edited, places

__all__ = ["CATALOGUE", "Entry", "entries", "mutants_of"]

CATALOGUE = Path(__file__).with_name("catalogue.tsv")
ON = "(mutant_on == {})"  # the condition that switches a bug of a compiled source on


@attrs.frozen
class Entry:
    symbol: str
    was: str
    becomes: str
    breaks: str
    test: str = ""


def entries(path: Path = CATALOGUE) -> list[Entry]:
    return [Entry(*line.split("\t")) for line in path.read_text().splitlines()[1:]]


def mutants_of(listed: Iterable[Entry], root: Path = ROOT) -> tuple[list[Mutant], list[str]]:
    """Return the mutants, and a sentence about each stale entry."""
    found, mutants, stale = places(root), list[Mutant](), list[str]()
    texts: dict[str, str] = {}
    for number, entry in enumerate(listed, 1):
        try:
            place = only(found.get(entry.symbol, []))
            if not (root / entry.test.partition("::")[0]).exists():
                raise Stale(f"there is no {entry.test}")
            text = texts.get(place.file) or (root / place.file).read_text()
            new = edited(text, place, entry.was, entry.becomes, ON.format(number))
            if place.compiled:
                texts[place.file] = new
            near, folder = mirrored(place.file, root)
            tests = (entry.test,) if entry.test else near or folder
            mutants.append(Mutant(place.file, new, f"{entry.symbol}: {entry.breaks}", tests, folder, number if place.compiled else 0))
        except Stale as error:
            stale.append(f"{entry.symbol}: {error} ({entry.breaks})")
    return mutants, stale


def only(found: list[Place]) -> Place:
    if len(found) != 1:
        raise Stale(f"the package has {len(found)} functions or classes of this name")
    return found[0]
