"""Writes or checks files that are rendered from the code. Invariant: such a file is never edited by hand; a check names outdated files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["ROOT", "write_or_check"]

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(rendered: Mapping[Path, str], target: str, folder: Path | None = None) -> int:
    """With `--check` on the command line, only print the names of outdated files. Returns the exit status.

    `target` is the target of `make` that writes the files. `folder` has only rendered files: other files in it are deleted, or reported.
    """
    others = [] if folder is None else sorted(set(folder.glob("*")) - set(rendered))
    if sys.argv[1:] == ["--check"]:
        stale = [path for path, text in rendered.items() if not path.exists() or path.read_text() != text]
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run `make {target}`", file=sys.stderr)
        for path in others:
            print(f"{path.relative_to(ROOT)} is rendered from nothing: run `make {target}`", file=sys.stderr)
        return 1 if stale or others else 0
    for path in others:
        path.unlink()
    for path, text in rendered.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0
