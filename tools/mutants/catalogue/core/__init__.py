"""Bugs of the machines of `pykafka4.core`."""
