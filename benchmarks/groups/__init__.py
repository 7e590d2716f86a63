"""Measures consumer groups.

Invariant: both clients get the same members, topics, processes and threads, in turns in one run on a real cluster.

Modules:
    __main__  the rounds and their bars: `python -m benchmarks.groups`
    members   a script that runs members of one group in its own process
"""
