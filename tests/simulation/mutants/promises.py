"""Checks. Every place of the simulation that says `Broken`, read from the source, so that none is there without a bug that it finds."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import attrs

from tests.simulation.plans.schedules import Hunt

__all__ = ["Check", "checks", "found_by", "without_a_mutant"]

SIMULATION = Path(__file__).parents[1]


@attrs.frozen
class Check:
    """A place that finds a promise broken, and the words in which it says so."""

    where: str
    promise: str
    words: tuple[str, ...]


def checks(folder: Path = SIMULATION) -> list[Check]:
    """All checks in the modules of a folder and of those in it, its tests left out."""
    return [check for path in sorted(folder.rglob("*.py")) if not path.name.startswith("test_") for check in _checks_in(path)]


def _checks_in(path: Path) -> Iterable[Check]:
    tree = ast.parse(path.read_text())
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        named = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Broken":
                promise, detail = call.args
                assert isinstance(promise, ast.Constant), (
                    f"{path.name}:{call.lineno}: the promise has to be a text, so that it can be found"
                )
                text = named[detail.id] if isinstance(detail, ast.Name) else detail
                parts = text.values if isinstance(text, ast.JoinedStr) else [text]
                words = tuple(part.value for part in parts if isinstance(part, ast.Constant))
                yield Check(f"{path.name}:{call.lineno}", str(promise.value), words)


def found_by(hunt: Hunt, all_checks: Iterable[Check]) -> list[Check]:
    """The checks that may say what the hunt waits for; it has to be one."""
    return [c for c in all_checks if c.promise in hunt.promises and hunt.says and any(hunt.says in part for part in c.words)]


def without_a_mutant(all_checks: list[Check], hunts: Iterable[Hunt]) -> list[Check]:
    """The checks that no hunt waits for: no mutant shows that they can find anything."""
    shown = {check.where for hunt in hunts for check in found_by(hunt, all_checks)}
    return [check for check in all_checks if check.where not in shown]
