"""Bugs of `pykafka4.net`."""
