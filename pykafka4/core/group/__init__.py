"""Keeps a consumer in its group, and commits and looks up the group's offsets.

Invariant: while a consumer runs, the application releases each partition that leaves the assignment, or receives the partition as lost.

Modules; each line imports only from lines below it:
    membership/  the member: its partitions, and the two protocols that keep it in the group
    leading/     the leader of a classic group: runs an assignor, and notices when the group's topics change
    topics/      the subscribed topics: by name, or found by a pattern
    committing/  commits, and lookups of committed offsets
    encoding     subscriptions and assignments as bytes
    notes        notes that members of this client send to each other, within subscriptions and assignments
    coordinator  the group's coordinator, and the connections (lanes) to it
    reactions    the table of a member's reaction to each error code
"""
