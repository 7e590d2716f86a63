"""Measures the client and its peers.

Invariant: the contenders take turns in one run, each in its own process, and every result is verified.
"""
