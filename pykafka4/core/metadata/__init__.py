"""Metadata of the cluster, and what to request next. Rule: an older response never replaces newer metadata.

Modules; each line imports only from lines below it:

    changes          changes of topics since a machine last looked
    recovery         partitions that failed: offline until their leader can be reached again
    cluster          requests the metadata of brokers, controller and topics while they are in use
    known            the metadata that is known: lookups of partitions, leaders and topic ids
    topic            one topic: its id, its leaders and their epochs
    events           brokers that come and go, and other news for the application
    metadata_queue   the topics of the next Metadata request
"""
