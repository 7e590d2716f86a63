"""The threads, locks and clock of the client. Invariant: whatever waits, or asks which thread it is, looks the name up here when it runs.

Use these names as `system.Condition()`, never `from … import Condition`: the simulation replaces them and then runs the same client in
virtual time, where a schedule of threads can be replayed from its seed.
"""

from __future__ import annotations

from threading import TIMEOUT_MAX, Condition, Lock, RLock, Thread, current_thread, get_ident
from time import monotonic

__all__ = ["TIMEOUT_MAX", "Condition", "Lock", "RLock", "Thread", "current_thread", "get_ident", "monotonic"]
