"""Keeps the client's copy of the cluster's metadata up to date. Responses may be older than the copy; the head of
`cluster` says when such a response is applied.

Modules; each line imports only from lines below it:
    changes         changed topics and partitions that came online, for each machine
    recovery        the machine that brings partitions back online after an error of their leader
    coordinators    the coordinator of a group or a transactional id, found by FindCoordinator
    cluster         the machine that requests metadata of brokers and topics
    known           lookups of partitions, leaders and topic ids in the metadata
    topic           one topic: its id, its leaders and their epochs
    brokers         a broker's id, address and rack; events for added and removed brokers
    events          the events of brokers, metadata and lost offsets, for `Client.events`
    metadata_queue  the topics of the next Metadata request; a limit for topics that were often requested without success
"""
