"""The client's threads, locks and clock. Rule: code that waits, or asks for the current thread, looks the name up here when it runs.

Use these names as `system.Condition()`, never `from … import Condition`: the simulation replaces them to run the same client in
virtual time, where a thread schedule can be replayed from its seed.
"""

from __future__ import annotations

from threading import TIMEOUT_MAX, Condition, RLock, Thread, current_thread, get_ident
from time import monotonic

from pykafka4.gil.asking import Lock

__all__ = ["TIMEOUT_MAX", "Condition", "Lock", "RLock", "Thread", "current_thread", "get_ident", "monotonic"]
