"""A member of a group: its partitions, its protocol with the coordinator, and its heartbeats.

Modules; each line imports only from lines below it:
    membership         the application's side: subscribed topics, whether the application still polls, the partitions held
    classic            the classic protocol: joins, syncs, sends heartbeats, leaves
    classic_requests   its requests: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    rewinds            rewinds of the group that this member asks for, and those that it carries out
    consumer_protocol  the consumer protocol (KIP-848): the coordinator assigns
    consumer_requests  its requests: ConsumerGroupHeartbeat
    without_group      all partitions of the topics, for a consumer without a group
    coordinated        the common part of the protocols, also of share groups: states, heartbeats, leaving
    protocol           the interfaces between `membership` and a protocol
    states             the states of a member, and the moves of each protocol
    heartbeats         the time of the next heartbeat
"""
