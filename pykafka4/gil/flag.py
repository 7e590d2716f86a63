"""Makes the compiled flag available, if it was built. Invariant: all other modules use the flag through this one, except compiled modules.

Without the compiled module, and in an interpreter without the GIL, there is no flag, and no thread gives way.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["compiled", "give_way", "step_aside"]

compiled: Any = None
if getattr(sys, "_is_gil_enabled", lambda: True)():  # without the GIL, an import would turn it on
    with contextlib.suppress(ImportError):
        compiled = importlib.import_module("pykafka4.gil._gil")

# Releases the GIL if another thread asks for it. Threads of the application call this.
give_way: Callable[[], None] = compiled.give_way_to_others if compiled is not None else lambda: None
# The same for threads of callbacks, which ask for the GIL again: other threads wait for the outcomes that callbacks pass on.
step_aside: Callable[[], None] = compiled.step_aside_for_others if compiled is not None else lambda: None
