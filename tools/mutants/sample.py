"""Draws mutations of `pykafka4/core` with the operators of cosmic-ray.

Invariant: the sample is a function of the seed and the source. Every place of the source has a rank that depends on the seed, the name of its
file and the text of its line only, and the lowest ranks are taken: a change of one line leaves the rest of the sample as it is, and so does a
file that moves to another folder.

Not drawn, because no test could notice them or because every test does: annotations (never evaluated), comparisons by identity replaced by
the equality of the same sign and the reverse (the same for None, enums and small integers), `|` between types, and what is listed in
`tools.mutants.equivalent` with a reason.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from tools.mutants.equivalent import EQUIVALENT, Equivalent
from tools.mutants.mutant import Mutant

__all__ = ["SEED", "SIZE", "Candidate", "candidates", "draw", "forgotten"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "pykafka4/core"
SEED = 1
SIZE = 150
SAME = ("_Is_Eq", "_IsNot_NotEq", "_Eq_Is", "_NotEq_IsNot")
COMMENT = re.compile(r"  # .*")
UNION = "ReplaceBinaryOperator_BitOr_"
# The tests of a file that has none of its name.
NEAR = {
    "__init__": ("tests/core/test_engine.py",),
    "answers": (
        "tests/core/producer/test_sender_codes.py",
        "tests/core/producer/test_sender_refused.py",
        "tests/core/producer/test_sender_split.py",
    ),
    "chooser": ("tests/core/metadata/test_cluster_requests.py", "tests/core/network/test_network_any.py"),
    "deadlines": ("tests/core/producer/test_sender_timeout.py", "tests/core/producer/test_sender.py"),
    "endpoint": ("tests/core/network/test_network.py", "tests/core/metadata/test_cluster_requests.py"),
    "obstacles": ("tests/core/producer/test_sender_timeout.py", "tests/core/network/test_network_words.py"),
    "outcomes": ("tests/core/producer/test_sender.py", "tests/core/producer/test_sender_timeout.py"),
    "membership": ("tests/core/group/test_membership.py", "tests/core/group/test_incremental.py"),
    "protocol": ("tests/core/group/test_classic.py", "tests/core/group/test_membership.py"),
    "ready": ("tests/core/producer/test_sender.py", "tests/core/network/test_network_words.py"),
    "requests": (
        "tests/core/producer/test_sender_options.py",
        "tests/core/producer/test_sender_versions.py",
        "tests/core/consumer/test_consumer_options.py",
        "tests/core/group/test_membership.py",
    ),
    "topic": ("tests/core/producer/test_sender_topics.py", "tests/core/metadata/test_cluster_answers.py"),
}
# What is run when the tests near a file notice nothing: the other machines, then the whole client in the simulation.
REST = (
    "tests/core",
    "tests/wire/protocol/test_json.py::test_the_client_throttles_from_the_versions_on_that_kafka_names",
    "tests/simulation/test_schedules.py::test_every_promise_holds_in_every_schedule",
    "tests/simulation/test_consumer_schedules.py::test_every_promise_holds_in_every_schedule",
)

Span = tuple[tuple[int, int], tuple[int, int]]


@attrs.frozen
class Candidate:
    """One mutation: the operator's `occurrence` in a file."""

    file: str
    operator: str
    occurrence: int
    span: Span


def candidates(file: str, source: str, only: Collection[str] = ()) -> Iterator[Candidate]:
    """All mutations of a source that may be drawn; `only`: those of these operators."""
    from cosmic_ray.ast import ast_nodes, get_ast  # a package of the extra "dev"
    from cosmic_ray.plugins import get_operator, operator_names

    nodes, ignored = list(ast_nodes(get_ast(source))), list(unevaluated(source))
    for name in operator_names():
        operator = get_operator(name)
        if name.endswith(SAME) or operator.arguments() or (only and name.partition("/")[2] not in only):
            continue
        spans = (span for node in nodes for span in operator().mutation_positions(node))
        for occurrence, span in enumerate(spans):
            if not any(start <= span[0] and span[1] <= end for start, end in ignored) and not (UNION in name and span[0][1] == 0):
                yield Candidate(file, name.partition("/")[2], occurrence, span)


def unevaluated(source: str) -> Iterator[Span]:
    """The places of annotations and of what is only there for the type checker."""
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
    """Whether an expression is a type: the alias of a union or of something generic with one in it."""
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) for node in ast.walk(value)) and not any(
        isinstance(node, ast.Call) for node in ast.walk(value)
    )


def number(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


def draw(size: int, seed: int, listed: Sequence[Equivalent] = EQUIVALENT, folder: Path = ROOT / FOLDER, root: Path = ROOT) -> list[Mutant]:
    """`size` mutations, at most one for each place of the source. Those that are listed as equivalent do not count."""
    ranked: list[tuple[int, list[Candidate]]] = []
    for path in sorted(folder.rglob("*.py")):
        ranked += places(path.relative_to(root).as_posix(), path.read_text(), seed)
    drawn: list[Mutant] = []
    exempt = {(entry.file, entry.operator, entry.line, entry.becomes) for entry in listed}
    for rank, choices in sorted(ranked, key=lambda place: place[0]):
        if len(drawn) == size:
            break
        chosen = choices[rank % len(choices)]
        mutant, change = mutant_of(chosen, (root / chosen.file).read_text())
        if (chosen.file, chosen.operator, *change) not in exempt and compiles(mutant.new):
            drawn.append(mutant)
    return drawn


def compiles(source: str) -> bool:
    """False where an operator made what Python does not take, or warns of: `while not line := read()`, `0 is n`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            compile(source, "drawn", "exec")
        except SyntaxError:
            return False
    return True


def places(file: str, source: str, seed: int) -> list[tuple[int, list[Candidate]]]:
    """The rank of each place, and what can be done there. Lines of the same text are told apart by their order."""
    at: dict[Span, list[Candidate]] = defaultdict(list)
    for candidate in candidates(file, source):
        at[candidate.span].append(candidate)
    home = f"{FOLDER}/{Path(file).name}"  # whichever folder in there it is in
    lines, seen = source.splitlines(), defaultdict[tuple[object, ...], int](int)
    ranked = []
    for (start, end), choices in sorted(at.items()):
        key = (lines[start[0] - 1].strip(), start[1], end[0] - start[0], end[1])
        seen[key] += 1
        ranked.append((number(seed, home, *key, seen[key]), choices))
    return ranked


def mutant_of(candidate: Candidate, source: str) -> tuple[Mutant, tuple[str, str]]:
    """The mutation as a mutant, and its line before and after."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    changed = mutate_code(source, get_operator(f"core/{candidate.operator}")(), candidate.occurrence)
    change = difference(source, changed)
    stem = Path(candidate.file).stem
    return (
        Mutant(
            file=candidate.file,
            old=source,
            new=changed,
            breaks=f"line {candidate.span[0][0]}, {candidate.operator}: {change[0]!r} becomes {change[1]!r}",
            tests=near(stem),
            otherwise=REST,
        ),
        change,
    )


def difference(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, without indentation and comments."""
    old, new = before.splitlines(), after.splitlines()
    blocks = [code for code in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if code[0] != "equal"]
    changed = ((old[a:b], new[c:d]) for _, a, b, c, d in blocks)
    sides = [[" ".join(COMMENT.sub("", line).strip() for line in side) for side in pair] for pair in changed]
    return " … ".join(pair[0] for pair in sides), " … ".join(pair[1] for pair in sides)


def near(stem: str) -> tuple[str, ...]:
    """The modules of tests that are named after a file of the core."""
    modules = sorted((ROOT / "tests" / "core").rglob(f"test_{stem}*.py"))
    return NEAR.get(stem, ()) + tuple(path.relative_to(ROOT).as_posix() for path in modules)


def forgotten(listed: Iterable[Equivalent] = EQUIVALENT, root: Path = ROOT) -> list[Equivalent]:
    """The entries of the list that are no mutation of the source any more."""
    by_file: dict[str, list[Equivalent]] = defaultdict(list)
    for entry in listed:
        by_file[entry.file].append(entry)
    stale: list[Equivalent] = []
    for file, entries in by_file.items():
        source = (root / file).read_text()
        lines = [COMMENT.sub("", line).strip() for line in source.splitlines()]
        wanted = [row for row, line in enumerate(lines, 1) if line and any(line in entry.line for entry in entries)]
        found = {
            (candidate.operator, *mutant_of(candidate, source)[1])
            for candidate in candidates(file, source, {entry.operator for entry in entries})
            if any(candidate.span[0][0] <= row <= candidate.span[1][0] for row in wanted)
        }
        stale += [entry for entry in entries if (entry.operator, entry.line, entry.becomes) not in found]
    return stale
