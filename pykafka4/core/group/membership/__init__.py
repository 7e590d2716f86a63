"""Keeps a member in its group. Invariant: a protocol deals with the coordinator, `membership` with the application.

Modules; each line imports only from lines below it:
    membership         subscribed topics, held partitions, the lease of the application (`max_poll_interval_ms`)
    classic            the classic protocol: joins, syncs, sends heartbeats, leaves
    classic_requests   the requests of the classic protocol, and the timeouts of their responses
    rewinds            rewinds of the group: the wish of this member, and its part in rewinds
    consumer_protocol  the consumer protocol (KIP-848): the coordinator assigns
    consumer_requests  the request of the consumer protocol: ConsumerGroupHeartbeat
    without_group      all partitions of the topics, for a consumer without a group
    coordinated        the common part of the protocols, share groups included
    protocol           the interfaces between `membership` and a protocol
    states             the states of a member, and the transitions of each protocol
    heartbeats         the time of the next heartbeat
"""
