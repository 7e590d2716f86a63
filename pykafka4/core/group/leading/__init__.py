"""The leader's part of the classic protocol: the assignment of partitions to all members of the group.

Modules; each line imports only from lines below it:
    leadership    reads the subscriptions of all members, assigns their partitions, and watches their topics
    dealing       runs an assignor, and checks its assignment
    rewinds       puts the offsets of a rewind into an assignment
    strategies    the assignors of this member, and the user data that they send
"""
