"""Draws mutations of a folder of the package with the operators of cosmic-ray.

Invariant: the sample is a function of the seed and the source. Each place of the source has a rank, which depends only on the seed, the
name of its file and the text of its line; the sample has the places with the lowest ranks. So a change of one line, or the move of a file
to another folder, leaves the rest of the sample as it is.

Some mutations are not drawn, because no test could notice them, or because every test would: annotations (never evaluated), `|` between
types, and `is` replaced by `==`, `is not` by `!=`, or the reverse (the same for None, enums and small integers). Nor are the lines of
`equivalent.tsv`: mutations without an observable effect, with the reason. Delete a line of that file that no longer fits any source.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from tools.mutants.mutant import ROOT, Mutant, mirrored

__all__ = ["EQUIVALENT", "FOLDER", "REST", "SEED", "Candidate", "Equivalent", "candidates", "draw"]

FOLDER = "pykafka4/core"
SEED = 1
SAME = ("_Is_Eq", "_IsNot_NotEq", "_Eq_Is", "_NotEq_IsNot")
COMMENT = re.compile(r"  # .*")
UNION = "ReplaceBinaryOperator_BitOr_"
# The tests that run when the tests of the mutated folder have noticed nothing: the whole client in the simulation.
REST = (
    "tests/simulation/test_schedules.py::test_every_promise_holds_in_every_schedule",
    "tests/simulation/test_consumer_schedules.py::test_every_promise_holds_in_every_schedule",
)

Span = tuple[tuple[int, int], tuple[int, int]]


@attrs.frozen
class Equivalent:
    """A mutation that is not drawn: the operator turns `line` into `becomes`, both without indentation and comments."""

    operator: str
    line: str
    becomes: str
    reason: str


EQUIVALENT = tuple(Equivalent(*line.split("\t")) for line in Path(__file__).with_name("equivalent.tsv").read_text().splitlines()[1:])


@attrs.frozen
class Candidate:
    """One mutation: the place number `occurrence` of the operator in a file."""

    file: str
    operator: str
    occurrence: int
    span: Span


def candidates(file: str, source: str) -> Iterator[Candidate]:
    from cosmic_ray.ast import ast_nodes, get_ast  # a package of the extra "dev"
    from cosmic_ray.plugins import get_operator, operator_names

    nodes, ignored = list(ast_nodes(get_ast(source))), list(unevaluated(source))
    for name in operator_names():
        operator = get_operator(name)
        if name.endswith(SAME) or operator.arguments():
            continue
        spans = (span for node in nodes for span in operator().mutation_positions(node))
        for occurrence, span in enumerate(spans):
            if not any(start <= span[0] and span[1] <= end for start, end in ignored) and not (UNION in name and span[0][1] == 0):
                yield Candidate(file, name.partition("/")[2], occurrence, span)


def unevaluated(source: str) -> Iterator[Span]:
    """The places of annotations, and of code that exists only for type checkers."""
    for node in ast.walk(ast.parse(source)):
        found: list[ast.AST | None] = []
        if isinstance(node, (ast.AnnAssign, ast.arg)):
            found = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            found = [node.returns]
        elif isinstance(node, ast.Assign) and union(node.value):
            found = [node.value]
        elif isinstance(node, ast.If):
            found = [node] if named(node.test, "TYPE_CHECKING") else []
        elif isinstance(node, ast.ClassDef):
            found = [node] if any(named(base, "Protocol") for base in node.bases) else []
        for place in filter(None, found):
            at: Any = place
            yield (at.lineno, at.col_offset), (at.end_lineno, at.end_col_offset)


def named(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Name) and value.id == name


def union(value: ast.expr) -> bool:
    """Whether an expression is a type: an alias of a union, or of a generic type with a union in it."""
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) for node in ast.walk(value)) and not any(
        isinstance(node, ast.Call) for node in ast.walk(value)
    )


def number(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


def draw(size: int, seed: int, listed: Sequence[Equivalent] = EQUIVALENT, folder: Path = ROOT / FOLDER, root: Path = ROOT) -> list[Mutant]:
    """At most one mutation for each place of the source, none that is `listed` as equivalent."""
    ranked: list[tuple[int, list[Candidate]]] = []
    for path in sorted(folder.rglob("*.py")):
        ranked += places(path.relative_to(root).as_posix(), path.read_text(), seed)
    drawn: list[Mutant] = []
    exempt = {(entry.operator, entry.line, entry.becomes) for entry in listed}
    for rank, choices in sorted(ranked, key=lambda place: place[0]):
        if len(drawn) == size:
            break
        chosen = choices[rank % len(choices)]
        mutant, change = mutant_of(chosen, (root / chosen.file).read_text())
        if (chosen.operator, *change) not in exempt and compiles(mutant.new):
            drawn.append(mutant)
    return drawn


def compiles(source: str) -> bool:
    """Whether Python compiles the source without a warning. Operators also make `while not line := read()` and `0 is n`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            compile(source, "drawn", "exec")
        except SyntaxError:
            return False
    return True


def places(file: str, source: str, seed: int) -> list[tuple[int, list[Candidate]]]:
    """The rank of each place, and its possible mutations. The order distinguishes lines with the same text."""
    at: dict[Span, list[Candidate]] = defaultdict(list)
    for candidate in candidates(file, source):
        at[candidate.span].append(candidate)
    home = f"{FOLDER}/{Path(file).name}"  # the same for a file in any folder, so that a moved file keeps its ranks
    lines, seen = source.splitlines(), defaultdict[tuple[object, ...], int](int)
    ranked = []
    for (start, end), choices in sorted(at.items()):
        key = (lines[start[0] - 1].strip(), start[1], end[0] - start[0], end[1])
        seen[key] += 1
        ranked.append((number(seed, home, *key, seen[key]), choices))
    return ranked


def mutant_of(candidate: Candidate, source: str) -> tuple[Mutant, tuple[str, str]]:
    """Return the mutant, and its line before and after the mutation."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    changed = mutate_code(source, get_operator(f"core/{candidate.operator}")(), candidate.occurrence)
    change = difference(source, changed)
    breaks = f"line {candidate.span[0][0]}, {candidate.operator}: {change[0]!r} becomes {change[1]!r}"
    near, folder = mirrored(candidate.file)
    top = {"/".join(name.split("/")[:2]) for name in folder}
    return Mutant(candidate.file, changed, breaks, near or folder, (*top, *REST), drawn=True), change


def difference(before: str, after: str) -> tuple[str, str]:
    """The differing lines of both sources, without indentation and comments."""
    old, new = before.splitlines(), after.splitlines()
    blocks = [code for code in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if code[0] != "equal"]
    changed = ((old[a:b], new[c:d]) for _, a, b, c, d in blocks)
    sides = [[" ".join(COMMENT.sub("", line).strip() for line in side) for side in pair] for pair in changed]
    return " … ".join(pair[0] for pair in sides), " … ".join(pair[1] for pair in sides)
