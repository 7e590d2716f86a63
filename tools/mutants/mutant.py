"""Declares a mutant, a deliberate bug: a changed source, and the tests that run with it."""

from __future__ import annotations

from pathlib import Path

import attrs

__all__ = ["ROOT", "Mutant", "mirrored"]

ROOT = Path(__file__).resolve().parents[2]


@attrs.frozen
class Mutant:
    """A deliberate bug in `file`. `new` is the complete source with the bug. The tests `otherwise` run when all of `tests` pass.

    Bugs of compiled sources are built together, and `number` switches one bug on at run time: `new` then has all bugs of the file
    with lower numbers, too.
    `drawn`: the mutation tool has made the bug, so a package that cannot be imported counts as killed.
    """

    file: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    otherwise: tuple[str, ...] = ()
    number: int = 0
    drawn: bool = False


def mirrored(file: str, root: Path = ROOT) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The test modules with the name of a source, and the folder of tests that mirrors its folder."""
    path = Path(file).relative_to("pykafka4")
    stem = (path.parent.name if path.stem == "__init__" else path.stem).strip("_")
    folder = root / "tests" / path.parent
    while not folder.is_dir():
        folder = folder.parent
    names = {path.relative_to(root).as_posix() for path in folder.rglob(f"test_*{stem}*.py")}
    return tuple(sorted(names)), () if folder == root / "tests" else (folder.relative_to(root).as_posix(),)
