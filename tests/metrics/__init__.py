"""Tests of `pykafka4.metrics`."""
