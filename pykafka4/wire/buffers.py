"""The types of bytes that both folders of `wire` take and return. Only type checkers see a difference between them."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer as Readable

    class Buffer(Readable, Sized, Protocol):
        """Bytes under any name: `len` is their number, `memoryview` gives them without a copy."""

else:
    Readable = Buffer = object

__all__ = ["Buffer", "Readable"]
