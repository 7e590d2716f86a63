"""Keeps the client's copy of the cluster's metadata up to date. Invariant: an older response never replaces newer metadata.

Modules; each line imports only from lines below it:
    changes         the topics that changed since a machine last looked
    recovery        the machine that brings offline partitions back online
    coordinators    the coordinator of a group or a transactional id, found by FindCoordinator
    cluster         the machine that requests the metadata of brokers, controller and topics while they are in use
    known           lookups of partitions, leaders and topic ids in the metadata
    topic           the metadata of one topic: its id, its leaders and their epochs
    brokers         a broker's id, address and rack; events for added and removed brokers
    events          events of the metadata for the application's listeners
    metadata_queue  the topics of the next Metadata request, and the times at which they are due
"""
