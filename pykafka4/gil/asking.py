"""Waits that end with a request for the GIL. Rule: without the compiled flag they are those of the standard library.

`Lock` is for any thread of the client or the application, `Turn` for a portable loop. The compiled pump asks by itself.
"""

from __future__ import annotations

import sys
import threading
from selectors import BaseSelector
from typing import Any

from pykafka4.gil.flag import compiled

__all__ = ["Lock", "Turn"]

Lock: Any = compiled.Lock if compiled is not None and sys.platform == "linux" else threading.Lock


class Turn:
    """A portable loop's flag. It is up from the end of each wait until the next: also system calls that do not wait release the GIL."""

    __slots__ = ("_up",)

    def __init__(self) -> None:
        self._up = False

    def wait(self, selector: BaseSelector, timeout: float) -> float:
        """Wait until `selector` has something, up to `timeout` seconds. Returns the timeout for its `select`."""
        if compiled is None or not hasattr(selector, "fileno"):
            return timeout
        self.end()
        compiled.wait(selector.fileno(), timeout)
        self._up = True
        return 0.0

    def end(self) -> None:
        """Lower the flag."""
        if self._up:
            self._up = False
            compiled.done()
