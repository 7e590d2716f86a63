"""Checks the bounds of a table: the arguments, and the size of the rows. Invariant: a table that exceeds a bound ends."""

from __future__ import annotations

from typing import Final

import attrs

from pykafka4.errors import ConfigError, shown

__all__ = ["DEFAULT_BYTES", "DEFAULT_KEYS", "Limits"]

DEFAULT_KEYS: Final = 10_000_000
DEFAULT_BYTES: Final = 1 << 30


@attrs.frozen
class Limits:
    """The maximum number of keys of a table, and of bytes of its serialized keys and values."""

    keys: int
    bytes: int

    @classmethod
    def of(cls, max_keys: object, max_bytes: object) -> Limits:
        """Raises ConfigError unless both are positive ints."""
        return cls(_positive("max_keys", max_keys), _positive("max_bytes", max_bytes))

    def exceeded(self, keys: int, size: int) -> str | None:
        """The exceeded bound as text for a message, or None."""
        if keys > self.keys:
            return f"max_keys={self.keys}"
        return f"max_bytes={self.bytes}" if size > self.bytes else None


def _positive(name: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ConfigError(f"{name}={shown(given)}: must be an int of at least 1")
    return given
