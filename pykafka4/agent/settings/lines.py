"""Finds the line of a key in a TOML file. The standard parser gives no positions, so this module parses prefixes of the file.

Invariant: a key's line is the first line of the statement that defines the key, even if the statement has several lines.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Lines"]


class Lines:
    """The lines of a valid TOML text. A prefix that ends inside a statement is not valid."""

    def __init__(self, text: str) -> None:
        self._lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # `splitlines` would also split at characters that end no line in TOML

    def find(self, keys: Sequence[str]) -> int | None:
        """The line (from 1) of the statement or table header that defines `keys`; for a missing key, of its nearest table, or None."""
        for depth in range(len(keys), 0, -1):
            if (line := self._first(keys[:depth])) is not None:
                return line
        return None

    def _first(self, keys: Sequence[str]) -> int | None:
        """The line that defines `keys`, or None. Bisection works because a longer prefix has all keys of a shorter one."""
        without, having = 0, len(self._lines)
        if not _has(self._parsed(having) or {}, keys):
            return None
        while without < having - 1:
            middle = end = (without + having) // 2
            while end > without and (table := self._parsed(end)) is None:
                end -= 1
            if end > without and table is not None and _has(table, keys):
                having = end
            else:
                without = middle  # no valid prefix up to `middle` has the key
        return self._statement(having)

    def _statement(self, end: int) -> int:
        begin = end - 1
        while begin > 0 and self._parsed(begin) is None:
            begin -= 1
        return begin + 1

    def _parsed(self, count: int) -> dict[str, Any] | None:
        try:
            return tomllib.loads("".join(self._lines[:count]))
        except tomllib.TOMLDecodeError:
            return None


def _has(table: Mapping[str, Any], keys: Sequence[str]) -> bool:
    here: Any = table
    for key in keys:
        if not isinstance(here, Mapping) or key not in here:
            return False
        here = here[key]
    return True
