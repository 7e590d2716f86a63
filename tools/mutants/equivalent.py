"""Mutations of `pykafka4/core` that change nothing anybody can observe, each with the reason. An entry that fits no line of the source is stale."""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["EQUIVALENT", "Equivalent"]


@attrs.frozen
class Equivalent:
    """`line` of `file` may become `becomes`: both without indentation."""

    file: str
    line: str
    becomes: str
    reason: str


EQUIVALENT: Final[tuple[Equivalent, ...]] = ()
