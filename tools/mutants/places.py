"""Finds the place of an edit by symbol and by syntax tree, so that an edit survives moved files, new formatting and comments.

A symbol is the end of a dotted name (`Fetcher.adopt`, `fetcher.Fetcher.adopt`) that exactly one function or class of the package has. An
edit replaces an expression by another one, or consecutive statements by others (without others, the statements are dropped). In a pattern,
a body of `...` stands for any body. Compiled sources have no syntax tree here: in them the edit replaces a text within the lines of the
function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

__all__ = ["Place", "Stale", "edited", "places"]

COMPILED = (".pyx", ".pxi")
HEAD = re.compile(r"^( *)(?:def |class |cp?def (?:class |(?:[\w.]+ \**)*))(\w+) *(?:\(.*)?: *(?:#.*)?$")


class Stale(Exception):
    """Raised unless exactly one function or class has the symbol, and its code contains the pattern exactly once."""


@attrs.frozen
class Place:
    file: str
    first: int
    last: int

    @property
    def compiled(self) -> bool:
        return self.file.endswith(COMPILED)


def places(root: Path, package: str = "pykafka4") -> dict[str, list[Place]]:
    """Functions and classes are listed under each end of their dotted names."""
    found: dict[str, list[Place]] = {}
    for path in sorted((root / package).rglob("*.p*")):
        file = path.relative_to(root).as_posix()
        if path.suffix == ".py":
            named = in_tree(ast.parse(path.read_text()), file, ())
        elif path.suffix in COMPILED:
            named = in_text(path.read_text().splitlines(), file)
        else:
            continue
        module = [part for part in path.relative_to(root).with_suffix("").parts if part != "__init__"]
        for name, place in named:
            parts = [*module, *name]
            for start in range(len(parts)):
                found.setdefault(".".join(parts[start:]), []).append(place)
    return found


def in_tree(body: ast.AST, file: str, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Place]]:
    for node in ast.iter_child_nodes(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield (*above, node.name), Place(file, node.lineno, node.end_lineno or node.lineno)
            yield from in_tree(node, file, (*above, node.name))
        elif not isinstance(node, ast.expr):
            yield from in_tree(node, file, above)


def in_text(lines: list[str], file: str) -> Iterator[tuple[tuple[str, ...], Place]]:
    above: list[tuple[int, str]] = []
    for row, line in enumerate(lines):
        if head := HEAD.match(line):
            depth = len(head[1])
            above = [*(outer for outer in above if outer[0] < depth), (depth, head[2])]
            inside = range(row + 1, len(lines))
            end = next((n for n in inside if lines[n].strip() and len(lines[n]) - len(lines[n].lstrip()) <= depth), len(lines))
            yield tuple(name for _, name in above), Place(file, row + 1, end)


def edited(source: str, place: Place, was: str, becomes: str, on: str = "") -> str:
    """`on` is the C expression that switches an edit of a compiled source on."""
    return (edited_text if place.compiled else edited_tree)(source, place, was, becomes, on)


def edited_text(source: str, place: Place, was: str, becomes: str, on: str) -> str:
    """An expression becomes a choice, a dropped statement becomes conditional."""
    lines = source.splitlines(keepends=True)
    inside = "".join(lines[place.first : place.last])
    once(inside.count(was), was)
    change = f"(({becomes}) if {on} else ({was}))" if becomes else f"if not {on}: {was}"
    return "".join(lines[: place.first]) + inside.replace(was, change) + "".join(lines[place.last :])


def edited_tree(source: str, place: Place, was: str, becomes: str, on: str) -> str:
    tree = ast.parse(source)
    home = next(node for node in ast.walk(tree) if getattr(node, "lineno", 0) == place.first and hasattr(node, "body"))
    old, new = ast.parse(was).body, ast.parse(becomes).body
    if len(old) == len(new) == 1 and isinstance(old[0], ast.Expr) and isinstance(new[0], ast.Expr):
        swap_expression(home, old[0].value, new[0].value)
    else:
        swap_statements(home, old, new or [ast.Pass()], was)
    return ast.unparse(ast.fix_missing_locations(tree))


def swap_expression(home: ast.AST, old: ast.expr, new: ast.expr) -> None:
    spots = [
        (node, field, index)
        for node in ast.walk(home)
        for field, index, value in children(node)
        if isinstance(value, ast.expr) and same(old, value)
    ]
    once(len(spots), ast.unparse(old))
    node, field, index = spots[0]
    if index is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[index] = new


def children(node: ast.AST) -> Iterator[tuple[str, int | None, Any]]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            yield from ((field, index, item) for index, item in enumerate(value))
        else:
            yield field, None, value


def swap_statements(home: ast.AST, old: list[ast.stmt], new: list[ast.stmt], was: str) -> None:
    bodies = [value for node in ast.walk(home) for _, value in ast.iter_fields(node) if isinstance(value, list)]
    spots = [
        (body, start)
        for body in bodies
        for start in range(len(body) - len(old) + 1)
        if all(same(pattern, node) for pattern, node in zip(old, body[start:], strict=False))
    ]
    once(len(spots), was)
    body, start = spots[0]
    body[start : start + len(old)] = new


def once(times: int, was: str) -> None:
    if times != 1:
        raise Stale(f"{was!r} is there {times} times")


def same(pattern: Any, node: Any) -> bool:
    """Positions do not count, nor whether a name is read or written."""
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, list):
        return any_body(pattern) or (len(pattern) == len(node) and all(map(same, pattern, node)))
    if not isinstance(pattern, ast.AST):
        return bool(pattern == node)
    return all(same(getattr(pattern, field), getattr(node, field)) for field in pattern._fields if field not in ("ctx", "type_comment"))


def any_body(body: list[Any]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and body[0].value.value is ...
