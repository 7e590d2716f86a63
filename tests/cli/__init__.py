"""Tests of `pykafka4.cli`."""
