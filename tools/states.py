"""Renders docs/states.md and its diagrams from the tables that the client runs on; the page and the diagrams are never edited by hand.

`python -m tools.states` writes them; with `--check` it only checks that they are up to date. Each `Transitions` table of `pykafka4.core`,
and the batch's table in the plain core, becomes a diagram and a table of meanings. A state without a meaning is an error. A picture that
belongs to no table is deleted.

A diagram is a column of states. An arrow to the next state down is straight. All other arrows to one state share a line next to the column:
on the right if they lead down, on the left if they lead up. A dot joins a state to the line; lines without a dot only cross.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

import pykafka4.core
from pykafka4.core import Transitions
from pykafka4.wire.records import _plain_batch
from tools.rendered import ROOT, write_or_check

PAGE, PICTURES = ROOT / "docs" / "states.md", ROOT / "docs" / "assets" / "states"
# In pixels: width and height of a state; distances from state to state and from line to line; the margin of the diagram.
WIDTH, HEIGHT, ROW, LANE, MARGIN = 170, 36, 66, 26, 14
COLOURS = ("#00796b", "#b71c1c", "#283593", "#ef6c00", "#6a1b9a", "#4e342e", "#0277bd")
Table = dict[str, list[str]]  # by state: the states that may follow it, in the order of the table


@attrs.frozen
class Machine:
    """A state machine as it is drawn. `meanings` has the meaning of each state of `table`."""

    name: str
    module: str
    table: Table
    meanings: dict[str, str]


def machines() -> Iterator[Machine]:
    found: dict[str, tuple[str, Transitions[Any]]] = {}
    for module in pkgutil.walk_packages(pykafka4.core.__path__, "pykafka4.core."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Transitions):
                found[value.name] = module.name, value
    for name, (where, drawn) in sorted(found.items()):
        table = {state.name: [to.name for to in type(state) if to in follow] for state, follow in drawn.table.items()}
        yield Machine(name, where, table, {state.name: drawn.meanings[state] for state in drawn.table})
    names = _plain_batch.NAMES
    batch = {names[state]: [names[to] for to in sorted(follow)] for state, follow in _plain_batch.FOLLOWS.items()}
    yield Machine("batch", _plain_batch.__name__, batch, {names[state]: _plain_batch.MEANINGS[state] for state in _plain_batch.FOLLOWS})


def lines(table: Table, down: bool) -> list[tuple[int, list[int]]]:
    """(target, sources), the shortest line first. `down`: the lines to states further down, otherwise further up."""
    states = list(table)
    sides = []
    for target, name in enumerate(states):
        sources = [source for source, state in enumerate(states) if name in table[state]]
        beside = [source for source in sources if (source < target - 1 if down else source > target)]
        if beside:
            sides.append((target, beside))
    return sorted(sides, key=lambda line: max(abs(line[0] - source) for source in line[1]))


def side(table: Table, down: bool, edge: int) -> list[str]:
    """The SVG of the lines on one side of the column, whose border on that side is at x = `edge`."""
    every = lines(table, down)
    away = 1 if down else -1
    ends: dict[int, list[tuple[int, bool]]] = {}  # by state: the lines that touch it, upper first: (number, whether it leads here)
    for number, (target, sources) in enumerate(every):
        ends.setdefault(target, []).append((number, True))
        for source in sources:
            ends.setdefault(source, []).append((number, False))

    def at(state: int, number: int, arrives: bool) -> float:
        here = sorted(ends[state], key=lambda end: (not end[1], -end[0]), reverse=not down)
        return MARGIN + state * ROW + HEIGHT * (here.index((number, arrives)) + 1) / (len(here) + 1)

    parts = []
    for number, (target, sources) in enumerate(every):
        x, colour = edge + away * LANE * (number + 1), COLOURS[target % len(COLOURS)]
        to, starts = at(target, number, True), [at(source, number, False) for source in sources]
        far = min(starts) if down else max(starts)
        parts.append(f'<path d="M{x} {far:g}V{to:g}H{edge + away * 2}" stroke="{colour}" marker-end="url(#{colour[1:]})"/>')
        parts += [f'<path d="M{edge} {y:g}H{x}" stroke="{colour}"/>' for y in starts]
        parts += [f'<circle cx="{x}" cy="{y:g}" r="3" fill="{colour}" stroke="none"/>' for y in starts if y != far]
    return parts


def draw(table: Table) -> str:
    """Final states have a double border."""
    states = list(table)
    left = MARGIN + LANE * (len(lines(table, down=False)) + 1)
    middle, right = left + WIDTH // 2, left + WIDTH
    width, height = right + LANE * (len(lines(table, down=True)) + 1) + MARGIN, 2 * MARGIN + ROW * (len(states) - 1) + HEIGHT
    used = sorted({COLOURS[index % len(COLOURS)] for index in range(len(states))})
    heads = "".join(
        f'<marker id="{colour[1:]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{colour}" stroke="none"/></marker>'
        for colour in used
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" fill="none" '
        'stroke-width="1.5" font-family="sans-serif" font-size="13">',
        f'<defs>{heads}</defs><rect width="{width}" height="{height}" rx="6" fill="#fff"/>',
    ]
    for index, state in enumerate(states):
        y = MARGIN + index * ROW
        border = '<rect x="{0}" y="{1}" width="{2}" height="{3}" rx="6" fill="#eceff1" stroke="#37474f"/>'
        parts.append(border.format(left, y, WIDTH, HEIGHT))
        if not table[state]:
            parts.append(border.format(left + 3, y + 3, WIDTH - 6, HEIGHT - 6))
        parts.append(f'<text x="{middle}" y="{y + HEIGHT // 2 + 5}" text-anchor="middle" fill="#263238">{state}</text>')
        if index and state in table[states[index - 1]]:
            colour = COLOURS[index % len(COLOURS)]
            parts.append(f'<path d="M{middle} {y - ROW + HEIGHT}V{y - 2}" stroke="{colour}" marker-end="url(#{colour[1:]})"/>')
    return "\n".join([*parts, *side(table, True, right), *side(table, False, left), "</svg>"]) + "\n"


def render() -> dict[Path, str]:
    files = {}
    page = [INTRODUCTION]
    for machine in machines():
        name, picture = machine.name, PICTURES / f"{machine.name.replace(' ', '-')}.svg"
        files[picture] = draw(machine.table)
        page.append(f"\n## {name.capitalize()}\n\nDeclared in `{machine.module}`.\n\n![States of a {name}](assets/states/{picture.name})\n")
        page.append("| state | meaning | may be followed by |\n|---|---|---|")
        for state, follow in machine.table.items():
            page.append(f"| `{state}` | {machine.meanings[state]} | {', '.join(f'`{to}`' for to in follow)} |")
    return {PAGE: "\n".join(page) + "\n", **files}


INTRODUCTION = """# States

Drawn by `make states` from the tables that the client runs on. A transition that is not in its table raises an error; it is never ignored.

Read a diagram from top to bottom. Final states have a double border. All arrows to one state
share a colour and, where they do not come from the state above, a line. A dot joins a state to the line; lines without a dot only cross."""


def main() -> int:
    return write_or_check(render(), "states", PICTURES)


if __name__ == "__main__":
    sys.exit(main())
