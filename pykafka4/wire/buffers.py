"""Names the buffer types that both folders of `wire` accept and return. Only type checkers see the types: at run time they are `object`."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer as Readable

    class Buffer(Readable, Sized, Protocol):
        """A bytes-like object whose `len` is the number of its bytes; `memoryview` reads them without a copy."""

else:
    Readable = Buffer = object

__all__ = ["Buffer", "Readable"]
