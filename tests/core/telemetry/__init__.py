"""Tests of `pykafka4.core.telemetry`."""
