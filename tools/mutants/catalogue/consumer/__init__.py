"""Bugs behind `pykafka4.consumer`."""
