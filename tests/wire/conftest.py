"""Hypothesis for the wire tests. Rule: the same examples on every run, unless PYKAFKA4_FUZZ asks for new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FUZZ = bool(os.environ.get("PYKAFKA4_FUZZ"))
settings.register_profile(
    "wire",
    derandomize=not FUZZ,
    database=None,
    deadline=None,
    max_examples=200 if FUZZ else 30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("wire")
