"""Lists long files and functions. A report, not a gate: a long file or function raises a question about the design, which people answer.

`python tools/sizes.py [folder …]` lists files over 600 lines and functions over 60.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE, FUNCTION = 600, 60  # lines
FOLDERS = ("pykafka4", "integration", "benchmarks", "examples", "tools", "tests")


def sources(folders: list[str]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for kind in ("py", "pyx", "pxi") for path in Path(folder).rglob(f"*.{kind}"))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """(place, lines) of each function; nothing for a Cython file, which `ast` cannot read."""
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
            yield f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def report(folders: list[str]) -> list[str]:
    """One line for each file and function over its size, the longest first."""
    found = []
    for path in sources(folders):
        lines = path.read_text().count("\n")
        found += [(lines, f"{path}")] * (lines > FILE)
        found += [(size, place) for place, size in functions(path) if size > FUNCTION]
    return [f"{lines:6} lines  {place}" for lines, place in sorted(found, reverse=True)]


def main() -> None:
    rows = report(sys.argv[1:] or [folder for folder in FOLDERS if Path(folder).is_dir()])
    print(f"sizes: {len(rows)} over {FILE} lines a file or {FUNCTION} a function" + "".join(f"\n{row}" for row in rows))


if __name__ == "__main__":
    main()
