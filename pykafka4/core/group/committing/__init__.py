"""The committed offsets of a group: commits, and lookups.

Modules:
    offsets  OffsetCommit and OffsetFetch requests, their order and their retries
"""
