"""Coordinates consumer groups: members, generations, committed offsets.

Invariants:
* `Group` does not depend on requests or brokers.
* Committed offsets belong to the group, and survive a change of its coordinator.

Modules; each line imports only from lines below it:
    coordinators  the broker that coordinates each group
    group         the classic protocol, and offsets
    mixed         members of both protocols in one group
    modern        the consumer protocol (KIP-848)
    assigning     assignors of the consumer protocol, on the coordinator
    joining       the contents of JoinGroup and SyncGroup, as plain values
"""
