"""Membership of a consumer group, and its offsets. Rule: partitions end by the application's release, or are reported to it as lost.

Modules; each line imports only from lines below it:

    membership    the application's side: subscribed topics, whether the application still polls, the partitions held
    classic       the classic protocol, with its states: joins, syncs, sends heartbeats, leaves
    states        the states of a classic member
    consumer_protocol   the consumer protocol (KIP-848), with its states: the coordinator assigns; `consumer_requests`, its heartbeats
    heartbeats    when the next heartbeat is due
    requests      the requests of the classic protocol
    topics        the subscribed topics, and which of their partitions are new
    discovery     finds the topics of a subscription by pattern among those that exist
    protocol      the interface between `membership` and a protocol
    leadership    what only the leader of a group does: assigns partitions, and notices when their topics change
    dealing       runs an assignor, and checks what it returns
    strategies    the assignors of a member, and the user data that they send
    assignors     subscriptions and assignments as bytes
    topic_filter  which topics a subscription by pattern means
    patterns      refuses patterns that may take `re` too long
    offsets       commits, and lookups of committed offsets
    coordinator   finds the group's coordinator; the table of what each error code means for a member
"""
