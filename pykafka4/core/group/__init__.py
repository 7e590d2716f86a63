"""Membership of a consumer group, and its offsets. Rule: partitions end by the application's release, or are reported to it as lost.

Modules; each line imports only from lines below it:
    membership/  the member: the application's side of it, and the two protocols that keep it in the group
    leading/     the leader of a classic group: runs an assignor, and notices when the group's topics change
    topics/      the subscribed topics: by name, or found by a pattern
    committing/  commits, and lookups of committed offsets
    encoding     subscriptions and assignments as bytes
    notes        what members of this client add to them
    coordinator  finds the group's coordinator
    reactions    the table of a member's reaction to each error code
"""
