"""Bugs of the producer's machine."""
