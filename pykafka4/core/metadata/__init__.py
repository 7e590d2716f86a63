"""Metadata of the cluster, and what to request next. Rule: an older response never replaces newer metadata.

Modules; each line imports only from lines below it:

    changes          changes of topics since a machine last looked
    recovery         partitions that failed: offline until their leader can be reached again
    cluster          brokers, controller and topics, refreshed while they are in use
    topic            one topic: its id, its leaders and their epochs
    events           brokers that come and go, and other news for the application
    metadata_queue   the topics of the next Metadata request
"""
