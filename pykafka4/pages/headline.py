"""Declares the headline of a page, and its levels."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs

__all__ = ["Headline", "Level"]


class Level(StrEnum):
    """The severity of a headline."""

    OK = "ok"
    WARNING = "warning"  # for example, a part is out of order, or messages are discarded
    TROUBLE = "trouble"  # for example, no records flow


@attrs.frozen
class Headline:
    """A sentence, and the details below it. `since` is in seconds since the epoch."""

    level: Level
    text: str
    details: tuple[str, ...] = ()
    since: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {"level": self.level.value, "text": self.text, "details": list(self.details), "since": self.since}
