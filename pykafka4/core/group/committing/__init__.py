"""Commits offsets of a group, and looks them up.

Modules:
    offsets  OffsetCommit and OffsetFetch requests, their order and their retries
"""
