"""Assigns partitions to all members of a classic group that this member leads. Invariant: the `assign` of an
application's assignor never runs on the loop.

Modules; each line imports only from lines below it:
    leadership    the leader: reads the subscriptions of all members, assigns the partitions, watches the topics
    assigning     the run of an assignor, and the check of its assignment
    rewinds       the leader's part of a rewind: puts the offsets into the assignments
    strategies    the assignors of this member, and their user data
"""
