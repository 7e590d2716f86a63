"""Bugs of `pykafka4.wire`."""
