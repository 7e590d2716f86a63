"""Keeps a compacted topic as a mapping. Invariant: an access to the rows of a table that has ended raises.

Modules; each line imports only from lines below it:
    table   `table`, and the mapping that it returns
    reader  the rows, and the thread that reads the topic
    limits  the bounds of a table: keys and bytes
"""
