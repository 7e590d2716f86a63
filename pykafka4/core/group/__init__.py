"""Membership of a consumer group, and its offsets. Invariant: the application releases partitions, or is told that they are lost.

Modules; each line imports only from lines below it:

    membership    the application's side: what it is subscribed to, whether it still polls, which partitions it holds
    classic       the classic protocol: joins, syncs, sends heartbeats, leaves
    requests      the requests of the classic protocol
    topics        the topics subscribed to, and which of their partitions are new
    protocol      what `membership` and a protocol ask of each other; the states of a member
    leadership    what the leader of a group does besides: assigns partitions, and notices when their topics change
    assignors     the assignments themselves, the same as those of Java's client
    offsets       commits, and lookups of what was committed
    coordinator   finds the group's coordinator; the table of what each error code means to a member
"""
