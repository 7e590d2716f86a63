"""Hypothesis for the wire tests. Rule: the same examples on every run, unless PYKAFKA4_FUZZ asks for new ones, and many more.

Ten examples for each message and version take two CPU minutes; `make fuzz` tries others.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PLENTY = int(os.environ.get("PYKAFKA4_FUZZ") or 0)  # how many times as many examples
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("wire", derandomize=True, database=None, deadline=None, max_examples=10, suppress_health_check=SLOW)
settings.register_profile("fuzz", settings.get_profile("wire"), derandomize=False, print_blob=True, max_examples=30 * max(1, PLENTY))
settings.load_profile("fuzz" if PLENTY else "wire")
