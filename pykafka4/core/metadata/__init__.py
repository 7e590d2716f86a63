"""Metadata of the cluster, and what to request next. Rule: an older response never replaces newer metadata.

Modules; each line imports only from lines below it:
    changes         changes of topics since a machine last looked
    recovery        partitions that failed: offline until their leader can be reached again
    coordinators    finds and keeps the coordinator of a group or a transactional id (FindCoordinator)
    cluster         requests the metadata of brokers, controller and topics while they are in use
    known           the metadata that is known: lookups of partitions, leaders and topic ids
    topic           one topic: its id, its leaders and their epochs
    brokers         added and removed brokers, changed addresses
    events          events of the metadata for the application's listeners
    metadata_queue  the topics of the next Metadata request
"""
