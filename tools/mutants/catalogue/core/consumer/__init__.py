"""Bugs of the consumer's machine."""
