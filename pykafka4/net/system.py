"""Provides the client with threads, locks and a clock.

Write `system.Lock()`, never `from … import Lock`, because the simulation replaces these names: it runs the same client in virtual time,
where a seed replays the schedule of threads.
"""

from __future__ import annotations

from threading import TIMEOUT_MAX, Condition

from pykafka4.native import RLock, monotonic
from pykafka4.net.threads import Thread, frame_of
from pykafka4.net.threads import caller as current_thread
from pykafka4.net.threads import caller_ident as get_ident
from pykafka4.net.threads import new_lock as Lock  # noqa: N812  as in threading

__all__ = ["TIMEOUT_MAX", "Condition", "Lock", "RLock", "Thread", "current_thread", "frame_of", "get_ident", "monotonic"]
